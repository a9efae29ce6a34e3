import java.net.InetAddress;
import py4j.GatewayServer;

/** A driver that plays one batch, prints the plans it is sent, and stays until its standard input ends. */
public class FakeDriver {
  private final String settings;
  private String batch;

  FakeDriver(String settings, String batch) {
    this.settings = settings;
    this.batch = batch;
  }

  public String config() {
    return settings;
  }

  public synchronized String poll(int maxEvents, long timeoutMs) throws InterruptedException {
    String next = batch;
    if (next == null) Thread.sleep(timeoutMs);
    batch = null;
    return next != null
        ? next
        : "{\"schema\":1,\"version\":14,\"reset\":false,\"dropped\":0,\"now_ms\":1,\"events\":[]}";
  }

  public String submitPlan(String json) {
    System.out.println(json);
    return "accepted";
  }

  public void settingsTaken() {
    System.out.println("taken");
  }

  public void policiesKnown(String names) {
    System.out.println("policies " + names);
  }

  public void alive() {}

  public void storedUpTo(long version, long abandoned) {
    System.out.println("stored up to " + version + ", abandoned " + abandoned);
  }

  public void stored() {
    System.out.println("stored");
  }

  public static void main(String[] arguments) throws Exception {
    GatewayServer server =
        new GatewayServer.GatewayServerBuilder(new FakeDriver(arguments[1], arguments[2]))
            .javaPort(0)
            .javaAddress(InetAddress.getLoopbackAddress())
            .authToken(arguments[0])
            .build();
    server.start(true);
    System.out.println(InetAddress.getLoopbackAddress().getHostAddress() + " " + server.getListeningPort());
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
