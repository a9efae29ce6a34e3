import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.ContainerState;
import io.fabric8.kubernetes.api.model.ContainerStateBuilder;
import io.fabric8.kubernetes.api.model.EnvVar;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.api.model.Volume;
import io.fabric8.kubernetes.api.model.VolumeMount;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.PodResource;
import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.kubernetes.client.utils.Serialization;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import io.fabric8.mockwebserver.dsl.HttpMethod;
import io.fabric8.mockwebserver.http.Buffer;
import io.fabric8.mockwebserver.http.MockResponse;
import io.fabric8.mockwebserver.http.RecordedRequest;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Stream;

/**
 * A Kubernetes API on loopback, and a kubelet that runs the pods of Spark applications as local processes.
 *
 * <p>{@code MiniKubernetes WORK_DIR} prints the address of the API, and what happens to pods to standard
 * error. It ends every pod's process, and then itself, when its standard input ends.
 *
 * <p>The API is the mock server of the client library that Spark uses: it stores objects and notifies
 * watchers, and has no controllers, quotas, authentication or scheduler. The image of a container is the
 * folder of a Spark on this machine. Its process gets the variables of this program, as if they were in the
 * image, and then those of the pod. It runs in a folder of its own, WORK_DIR/POD, which is for its temporary files,
 * too, and has its output, {@code log}.
 */
public final class MiniKubernetes {
  private static final String LOOPBACK = "127.0.0.1";
  private static final long GRACE_S = 10;

  /** Which would log each request. It is a field because loggers that nobody refers to lose their level. */
  private static final Logger SERVER = Logger.getLogger("io.fabric8.mockwebserver");

  private final Path work;
  private final KubernetesClient client;

  /** By pod. Its lock is held while a process is started, or looked up to be ended. */
  private final Map<String, Process> running = new ConcurrentHashMap<>();

  private final ExecutorService pods = Executors.newCachedThreadPool();
  private volatile boolean closing = false;

  private MiniKubernetes(Path work, KubernetesClient client) {
    this.work = work;
    this.client = client;
  }

  public static void main(String[] arguments) throws Exception {
    SERVER.setLevel(Level.WARNING);
    Context json = new Context(Serialization.jsonMapper());
    KubernetesMockServer server =
      new KubernetesMockServer(json, new MockWebServer(), new HashMap<>(), new Objects(), false);
    server.init(InetAddress.getByName(LOOPBACK), 0);
    MiniKubernetes kubelet = new MiniKubernetes(Path.of(arguments[0]), server.createClient());
    kubelet.watch();
    System.out.println("http://" + LOOPBACK + ":" + server.getPort());
    System.out.flush();
    while (System.in.read() >= 0) {
      // What is written is of no interest, only the end.
    }
    kubelet.close();
    System.exit(0);
  }

  private void watch() {
    client.pods().inAnyNamespace().watch(new Watcher<Pod>() {
      @Override
      public void eventReceived(Action action, Pod pod) {
        if (action == Action.ADDED) pods.submit(() -> runWhole(pod));
        else if (action == Action.DELETED) pods.submit(() -> delete(pod));
      }

      @Override
      public void onClose(WatcherException cause) {}
    });
  }

  /** The pod as the API has it now. */
  private PodResource there(Pod pod) {
    return client.pods().inNamespace(pod.getMetadata().getNamespace()).withName(pod.getMetadata().getName());
  }

  private static String nameOf(Pod pod) {
    return pod.getMetadata().getNamespace() + "/" + pod.getMetadata().getName();
  }

  /** From the pod's start to the end of its process. */
  private void runWhole(Pod pod) {
    try {
      Process process = start(pod);
      setStatus(pod, "Running", process, null);
      int exit = process.waitFor();
      System.err.println("ended " + nameOf(pod) + " " + exit);
      // A deleted pod has no status any more.
      if (running.remove(nameOf(pod)) != null)
        setStatus(pod, exit == 0 ? "Succeeded" : "Failed", process, exit);
    } catch (Exception failure) {
      System.err.println("failed " + nameOf(pod) + " " + failure);
      setStatus(pod, "Failed", null, 128);
    }
  }

  private void delete(Pod pod) {
    Process process;
    synchronized (running) {
      process = running.remove(nameOf(pod));
    }
    System.err.println("deleted " + nameOf(pod) + (process == null ? ", which had ended" : ""));
    if (process != null) end(treeOf(process));
  }

  private void close() {
    List<Process> last;
    synchronized (running) {
      closing = true;
      last = List.copyOf(running.values());
    }
    end(last.stream().flatMap(MiniKubernetes::treeOf));
  }

  private static Stream<ProcessHandle> treeOf(Process process) {
    return Stream.concat(process.descendants(), Stream.of(process.toHandle()));
  }

  /** Asks the processes to end, and ends those that have not after the grace period. */
  private static void end(Stream<ProcessHandle> processes) {
    List<ProcessHandle> all = processes.toList();
    all.forEach(ProcessHandle::destroy);
    long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(GRACE_S);
    for (ProcessHandle each : all) {
      try {
        each.onExit().get(Math.max(0, deadlineNs - System.nanoTime()), TimeUnit.NANOSECONDS);
      } catch (Exception stillRuns) {
        each.destroyForcibly();
        each.onExit().join();
      }
    }
  }

  private Process start(Pod pod) throws Exception {
    Container container = pod.getSpec().getContainers().get(0);
    String home = container.getImage();
    Path folder = Files.createDirectories(work.resolve(pod.getMetadata().getName()));
    Map<String, String> environment = environmentOf(pod, container);
    Map<String, String> mounts = mount(pod, container, folder);
    List<String> command = commandOf(home, container.getArgs(), environment, mounts);
    System.err.println("runs " + nameOf(pod) + " " + container.getArgs());
    ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true);
    builder.redirectOutput(folder.resolve("log").toFile());
    builder.redirectInput(new File("/dev/null"));
    builder.environment().putAll(environment);
    builder.environment().replaceAll((name, value) -> mounted(value, mounts));
    builder.environment().put("SPARK_HOME", home);
    builder.environment().put("SPARK_LOCAL_DIRS", folder.toString());
    builder.environment().put("TMPDIR", folder.toString());
    builder.environment().put("JAVA_TOOL_OPTIONS", "-Djava.io.tmpdir=" + folder);
    synchronized (running) {
      if (closing || there(pod).get() == null) throw new IOException("it is no longer wanted");
      Process process = builder.start();
      running.put(nameOf(pod), process);
      return process;
    }
  }

  private static Map<String, String> environmentOf(Pod pod, Container container) {
    Map<String, String> environment = new HashMap<>();
    for (EnvVar each : container.getEnv()) {
      if (each.getValue() != null) environment.put(each.getName(), each.getValue());
      else if (each.getValueFrom() != null && each.getValueFrom().getFieldRef() != null) {
        boolean isName = each.getValueFrom().getFieldRef().getFieldPath().equals("metadata.name");
        environment.put(each.getName(), isName ? pod.getMetadata().getName() : LOOPBACK);
      }
    }
    return environment;
  }

  /** Writes config maps to folders. Returns which folder stands for which path of the container. */
  private Map<String, String> mount(Pod pod, Container container, Path folder) throws Exception {
    Map<String, String> mounts = new HashMap<>();
    for (Volume volume : pod.getSpec().getVolumes()) {
      if (volume.getConfigMap() == null) continue;
      Path here = Files.createDirectories(folder.resolve(volume.getName()));
      ConfigMap map = configMap(pod.getMetadata().getNamespace(), volume.getConfigMap().getName());
      for (Map.Entry<String, String> file : map.getData().entrySet())
        Files.writeString(here.resolve(file.getKey()), file.getValue());
      for (VolumeMount each : container.getVolumeMounts())
        if (each.getName().equals(volume.getName())) mounts.put(each.getMountPath(), here.toString());
    }
    return mounts;
  }

  /** A config map, which spark-submit makes after the pod that needs it. */
  private ConfigMap configMap(String namespace, String name) {
    return client.configMaps().inNamespace(namespace).withName(name)
      .waitUntilCondition(map -> map != null && map.getData() != null, 1, TimeUnit.MINUTES);
  }

  private static String mounted(String path, Map<String, String> mounts) {
    for (Map.Entry<String, String> each : mounts.entrySet())
      if (path.equals(each.getKey()) || path.startsWith(each.getKey() + "/"))
        return each.getValue() + path.substring(each.getKey().length());
    return path;
  }

  /** What the entry point of Spark's images executes. */
  private static List<String> commandOf(
      String home, List<String> arguments, Map<String, String> environment, Map<String, String> mounts) {
    List<String> command = new ArrayList<>();
    if (arguments.get(0).equals("driver")) {
      command.addAll(List.of(home + "/bin/spark-submit", "--conf", "spark.driver.bindAddress=" + LOOPBACK));
      // The name of the driver's service, which other machines would find in the cluster's DNS.
      command.addAll(List.of("--conf", "spark.driver.host=" + LOOPBACK, "--deploy-mode", "client"));
      for (String each : arguments.subList(1, arguments.size())) command.add(mounted(each, mounts));
      return command;
    }
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    for (int i = 0; environment.containsKey("SPARK_JAVA_OPT_" + i); i++)
      command.add(environment.get("SPARK_JAVA_OPT_" + i));
    command.addAll(List.of("-Xmx" + environment.get("SPARK_EXECUTOR_MEMORY"), "-cp", home + "/jars/*"));
    command.add("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend");
    command.addAll(List.of("--driver-url", environment.get("SPARK_DRIVER_URL")));
    command.addAll(List.of("--executor-id", environment.get("SPARK_EXECUTOR_ID")));
    command.addAll(List.of("--cores", environment.get("SPARK_EXECUTOR_CORES")));
    command.addAll(List.of("--app-id", environment.get("SPARK_APPLICATION_ID")));
    command.addAll(List.of("--hostname", LOOPBACK));
    command.addAll(List.of("--resourceProfileId", environment.get("SPARK_RESOURCE_PROFILE_ID")));
    command.addAll(List.of("--podName", environment.get("SPARK_EXECUTOR_POD_NAME")));
    return command;
  }

  /**
   * @param process of the container, if it could be started
   * @param exit its status; null while it runs
   */
  private void setStatus(Pod pod, String phase, Process process, Integer exit) {
    String now = Instant.now().toString();
    ContainerState state = exit == null
      ? new ContainerStateBuilder().withNewRunning().withStartedAt(now).endRunning().build()
      : new ContainerStateBuilder().withNewTerminated().withExitCode(exit)
        .withReason(exit == 0 ? "Completed" : "Error").endTerminated().build();
    while (there(pod).get() != null) {
      try {
        there(pod).editStatus(found -> new PodBuilder(found)
          .withNewStatus()
          .withPhase(phase)
          .withPodIP(LOOPBACK)
          .withHostIP(LOOPBACK)
          .withStartTime(now)
          .addNewCondition().withType("Ready").withStatus(exit == null ? "True" : "False").endCondition()
          .addNewContainerStatus()
          .withName(found.getSpec().getContainers().get(0).getName())
          .withReady(exit == null)
          .withState(state)
          .withContainerID(process == null ? null : "process://" + process.pid())
          .endContainerStatus()
          .endStatus()
          .build());
        return;
      } catch (KubernetesClientException refused) {
        // Somebody else has changed or deleted the pod since it was read.
        System.err.println("status of " + nameOf(pod) + " is refused: " + refused.getMessage());
      }
    }
  }

  /** The mock server's store of objects, with what else Spark needs of an API server. */
  private static final class Objects extends KubernetesCrudDispatcher {
    Objects() {
      super(List.of());
    }

    private static String pathOf(RecordedRequest request) {
      return request.getPath().replaceAll("\\?.*", "");
    }

    /** A new pod is pending. */
    @Override
    public MockResponse handleCreate(RecordedRequest request) {
      if (!pathOf(request).endsWith("/pods")) return super.handleCreate(request);
      Pod pod = Serialization.unmarshal(request.getUtf8Body(), Pod.class);
      String pending = Serialization.asJson(new PodBuilder(pod)
        .withNewStatus().withPhase("Pending").withStartTime(Instant.now().toString()).endStatus().build());
      return super.handleCreate(new RecordedRequest(request.getHttpVersion(), request.method(), request.getPath(),
        request.getHeaders(), new Buffer(pending.getBytes(StandardCharsets.UTF_8))));
    }

    /** Server-side apply creates what is not there. What is there stays: Spark applies equal objects only. */
    @Override
    public MockResponse handlePatch(RecordedRequest request) {
      String path = pathOf(request);
      if (!String.valueOf(request.getHeader("Content-Type")).contains("apply-patch"))
        return super.handlePatch(request);
      MockResponse found = handleGet(path);
      if (found.code() != 404) return found;
      return handleCreate(new RecordedRequest(request.getHttpVersion(), HttpMethod.POST,
        path.substring(0, path.lastIndexOf('/')),
        request.getHeaders().newBuilder().set("Content-Type", "application/json").build(), request.getBody()));
    }
  }
}
