import io.fabric8.kubernetes.api.model.*;
import io.fabric8.kubernetes.client.*;
import io.fabric8.kubernetes.client.server.mock.*;
import io.fabric8.mockwebserver.*;
import java.io.*;
import java.net.InetAddress;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

/** MiniKubernetes SPARK_HOME WORK PORTFILE: an API server without a cluster, and a kubelet that runs executors and drivers as local processes. */
public class MiniKubernetes {
  static final Map<String, Process> running = new ConcurrentHashMap<>();
  static KubernetesClient client; static String home; static Path work;

  public static void main(String[] a) throws Exception {
    home = a[0]; work = Paths.get(a[1]); Files.createDirectories(work);
    KubernetesMockServer server = new KubernetesMockServer(new io.fabric8.mockwebserver.Context(io.fabric8.kubernetes.client.utils.Serialization.jsonMapper()), new MockWebServer(), new HashMap<>(), new Applying(), false);
    server.init(InetAddress.getByName("127.0.0.1"), 0);
    client = server.createClient();
    String url = "http://127.0.0.1:" + server.getPort();
    Files.writeString(Paths.get(a[2]), url); System.out.println("API " + url);
    ExecutorService pool = Executors.newCachedThreadPool();
    client.pods().inAnyNamespace().watch(new Watcher<Pod>() {
      public void eventReceived(Action action, Pod pod) {
        String key = pod.getMetadata().getNamespace() + "/" + pod.getMetadata().getName();
        if (action == Action.ADDED) pool.submit(() -> { try { run(key, pod); } catch (Throwable t) { t.printStackTrace(); } });
        else if (action == Action.DELETED) { Process p = running.remove(key); System.out.println("deleted " + key + " " + (p != null)); if (p != null) p.destroy(); }
      }
      public void onClose(WatcherException e) { System.out.println("watch closed " + e); }
    });
    Thread.sleep(Long.MAX_VALUE);
  }

  static void run(String key, Pod pod) throws Exception {
    Container c = pod.getSpec().getContainers().get(0);
    Map<String, String> env = new TreeMap<>();
    for (EnvVar e : c.getEnv()) {
      String v = e.getValue();
      if (v == null && e.getValueFrom() != null) v = e.getValueFrom().getFieldRef() != null && "metadata.name".equals(e.getValueFrom().getFieldRef().getFieldPath()) ? pod.getMetadata().getName() : "127.0.0.1";
      if (v != null) env.put(e.getName(), v);
    }
    Path dir = work.resolve(pod.getMetadata().getName()); Files.createDirectories(dir);
    // config maps mounted as volumes
    Map<String, String> mounts = new HashMap<>();
    for (Volume v : pod.getSpec().getVolumes()) if (v.getConfigMap() != null) {
      ConfigMap m = null;
      for (int i = 0; i < 100 && m == null; i++) { m = client.configMaps().inNamespace(pod.getMetadata().getNamespace()).withName(v.getConfigMap().getName()).get(); if (m == null) Thread.sleep(100); }
      Path d = dir.resolve(v.getName()); Files.createDirectories(d);
      if (m != null && m.getData() != null) for (Map.Entry<String, String> f : m.getData().entrySet()) Files.writeString(d.resolve(f.getKey()), f.getValue());
      for (VolumeMount vm : c.getVolumeMounts()) if (vm.getName().equals(v.getName())) mounts.put(vm.getMountPath(), d.toString());
    }
    List<String> args = c.getArgs(); List<String> cmd = new ArrayList<>();
    System.out.println("pod " + key + " args " + args + " image " + c.getImage() + " mounts " + mounts);
    if (args.get(0).equals("executor")) { // what entrypoint.sh does
      cmd.add(System.getProperty("java.home") + "/bin/java");
      for (int i = 0; env.containsKey("SPARK_JAVA_OPT_" + i); i++) cmd.add(env.get("SPARK_JAVA_OPT_" + i));
      String mem = env.get("SPARK_EXECUTOR_MEMORY"); cmd.addAll(List.of("-Xms256m", "-Xmx" + mem, "-cp", home + "/jars/*", "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", env.get("SPARK_DRIVER_URL"), "--executor-id", env.get("SPARK_EXECUTOR_ID"), "--cores", env.get("SPARK_EXECUTOR_CORES"), "--app-id", env.get("SPARK_APPLICATION_ID"),
        "--hostname", "127.0.0.1", "--resourceProfileId", env.get("SPARK_RESOURCE_PROFILE_ID"), "--podName", env.get("SPARK_EXECUTOR_POD_NAME")));
    } else if (args.get(0).equals("driver")) {
      cmd.addAll(List.of(home + "/bin/spark-submit", "--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1", "--deploy-mode", "client"));
      for (String s : args.subList(1, args.size())) { for (Map.Entry<String, String> m : mounts.entrySet()) if (s.startsWith(m.getKey() + "/")) s = m.getValue() + s.substring(m.getKey().length()); cmd.add(s); }
      String conf = env.get("SPARK_CONF_DIR"); if (conf != null && mounts.containsKey(conf)) env.put("SPARK_CONF_DIR", mounts.get(conf));
    } else { System.out.println("unknown args"); return; }
    env.putIfAbsent("SPARK_LOCAL_DIRS", dir.toString());
    if (env.containsKey("SPARK_LOCAL_DIRS")) { env.put("SPARK_LOCAL_DIRS", dir.toString()); }
    for (String k : new ArrayList<>(env.keySet())) if (k.equals("SPARK_CONF_DIR") && env.get(k).startsWith("/opt/spark")) env.put(k, mounts.getOrDefault(env.get(k), dir.toString()));
    ProcessBuilder b = new ProcessBuilder(cmd).directory(dir.toFile()).redirectErrorStream(true).redirectOutput(dir.resolve("log").toFile());
    b.environment().putAll(env); b.environment().put("SPARK_HOME", home); b.environment().put("SPARK_LOCAL_IP", "127.0.0.1"); b.environment().put("SPARK_LOCAL_HOSTNAME", "localhost");
    if (System.getenv("KUBELET_PYTHON") != null) b.environment().put("PYSPARK_PYTHON", System.getenv("KUBELET_PYTHON"));
    b.environment().put("PYTHONPATH", home + "/python/lib/pyspark.zip:" + new File(home + "/python/lib").listFiles((d, n) -> n.startsWith("py4j"))[0]);
    Process p = b.start(); running.put(key, p);
    status(pod, "Running", null);
    int rc = p.waitFor(); boolean ours = running.remove(key) != null;
    System.out.println("ended " + key + " " + rc);
    if (ours) status(pod, rc == 0 ? "Succeeded" : "Failed", rc);
  }

  /** Server-side apply of what is not there makes it. */
  static class Applying extends KubernetesCrudDispatcher {
    Applying() { super(Collections.emptyList()); }
    /** A pod that was just made is pending. */
    @Override public io.fabric8.mockwebserver.http.MockResponse handleCreate(io.fabric8.mockwebserver.http.RecordedRequest r) {
      if (!r.getPath().replaceAll("\\?.*", "").endsWith("/pods")) return super.handleCreate(r);
      Pod p = io.fabric8.kubernetes.client.utils.Serialization.unmarshal(r.getUtf8Body(), Pod.class);
      if (p.getStatus() == null || p.getStatus().getPhase() == null)
        p = new PodBuilder(p).withNewStatus().withPhase("Pending").withStartTime(java.time.Instant.now().toString()).endStatus().build();
      byte[] body = io.fabric8.kubernetes.client.utils.Serialization.asJson(p).getBytes(java.nio.charset.StandardCharsets.UTF_8);
      return super.handleCreate(new io.fabric8.mockwebserver.http.RecordedRequest(r.getHttpVersion(), r.method(), r.getPath(), r.getHeaders(), new io.fabric8.mockwebserver.http.Buffer(body)));
    }
    @Override public io.fabric8.mockwebserver.http.MockResponse handlePatch(io.fabric8.mockwebserver.http.RecordedRequest r) {
      String path = r.getPath().replaceAll("\\?.*", "");
      boolean apply = String.valueOf(r.getHeader("Content-Type")).contains("apply-patch");
      if (apply && handleGet(path).code() == 404) {
        io.fabric8.mockwebserver.http.RecordedRequest post = new io.fabric8.mockwebserver.http.RecordedRequest(r.getHttpVersion(), io.fabric8.mockwebserver.dsl.HttpMethod.POST,
          path.substring(0, path.lastIndexOf('/')), r.getHeaders().newBuilder().set("Content-Type", "application/json").build(), r.getBody());
        io.fabric8.mockwebserver.http.MockResponse made = handleCreate(post);
        System.out.println("apply " + path + " " + made.code());
        return made;
      }
      if (apply) return handleGet(path); // it is there already: nothing that the tests need changes
      return super.handlePatch(r);
    }
  }

  static void status(Pod pod, String phase, Integer exit) {
    try {
      client.pods().inNamespace(pod.getMetadata().getNamespace()).withName(pod.getMetadata().getName()).editStatus(p -> {
        ContainerStateBuilder s = new ContainerStateBuilder();
        if (exit == null) s.withNewRunning().withStartedAt(java.time.Instant.now().toString()).endRunning();
        else s.withNewTerminated().withExitCode(exit).withReason(exit == 0 ? "Completed" : "Error").endTerminated();
        return new PodBuilder(p).withNewStatus().withPhase(phase).withPodIP("127.0.0.1").withHostIP("127.0.0.1").addNewCondition().withType("Ready").withStatus(exit == null ? "True" : "False").endCondition().withStartTime(java.time.Instant.now().toString())
          .addNewContainerStatus().withName(p.getSpec().getContainers().get(0).getName()).withReady(exit == null).withState(s.build()).endContainerStatus().endStatus().build();
      });
    } catch (Throwable t) { System.out.println("status of " + pod.getMetadata().getName() + ": " + t); }
  }
}
