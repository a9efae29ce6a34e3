package org.apache.spark.scheduler.sparksched
package planner

import java.io.{BufferedReader, File, InputStreamReader, IOException, UncheckedIOException}
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.security.SecureRandom
import java.util.{HexFormat, UUID}
import java.util.concurrent.{CompletableFuture, CountDownLatch, TimeUnit, TimeoutException}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.internal.Logging
import org.apache.spark.util.Utils
import py4j.{CallbackClient, GatewayServer}
import schedcore.settings.{Modes, PlannerSettings, Settings}
import schedcore.status.PlannerFacts

/**
 * Keeps one planner process alive for as long as the application lives.
 *
 * The planner is a py4j client of a gateway on the loopback interface. Address, port and secret reach it as the first
 * line of its standard input, so no process list, log or UI shows them. That pipe stays open: when the driver ends,
 * however it ends, the planner reads end-of-file and exits. A planner that died or has not called for the stall timeout
 * is replaced after a delay. The delay doubles up to a maximum and is reset after a planner that worked.
 *
 * Python programs that do not exist or have no planner are skipped. If none is left, the rules of the configuration apply, and the
 * driver logs this once.
 *
 * The planner starts in an empty folder of its own, because Python may import modules from its working directory, and a driver's
 * working directory may contain anything.
 */
private[sparksched] final class PlannerProcess(
    settings: PlannerSettings, pythons: PlannerPythons, entry: PlannerEntry, application: String, onStart: () => Unit) extends Logging {

  private val secret = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    HexFormat.of().formatHex(bytes)
  }
  // Identifies this run of the application, since its name and id may come again: event numbers are unique within a run.
  private val session = UUID.randomUUID.toString
  private val loopback = InetAddress.getLoopbackAddress
  private var gateway: GatewayServer = _
  private var keeper: Thread = _
  private val folders = new PlannerFolders
  // The sentence with which a planner refused its settings, if one did; done when it is known.
  private val refused = new CompletableFuture[Option[String]]
  entry.taken.thenRun(() => refused.complete(None))
  @volatile private var lastError = ""
  private var relay: Thread = _ // copies the lines of the planner that runs now; the keeper's own
  @volatile private var process: Option[Process] = None
  @volatile private var stopping = false
  private val closing = new CountDownLatch(1) // open: the application ends, and a planner is started at most once more
  @volatile private var replacing = false // its end is wanted, and the next one is to come at once
  @volatile private var starts = 0L
  @volatile private var stalls = 0L

  /** Starts the planner. Further calls have no effect. */
  def start(): Unit = synchronized(if (keeper == null) {
    folders.create()
    gateway = new GatewayServer.GatewayServerBuilder(entry)
      .javaPort(0).javaAddress(loopback).authToken(secret).callbackClient(PlannerProcess.noCallbacks).build()
    // Threads of the gateway inherit being daemons from the one that accepts, and must not keep the driver alive.
    daemon("spark-sched-gateway")(gateway.start(false))
    keeper = daemon("spark-sched-planner-keeper")(keep())
  })

  /** Waits until the planner has looked at its settings. @return the sentence with which it refuses them, if it does */
  def refusal(): Option[String] = {
    try refused.get(settings.startTimeoutMs, TimeUnit.MILLISECONDS)
    catch {
      case _: TimeoutException =>
        logWarning("The planner has not checked its settings yet; if it refuses them, the configured rules apply")
        None
      case interrupted: InterruptedException =>
        stop(patient = false) // The application is given up before it began, and Spark stops nothing of it.
        throw interrupted
    }
  }

  /**
   * Lets the planner take in the last events and store what it learned, and does not start it again. One that died is
   * replaced for this, once and within the same time.
   *
   * @param finish marks the last batch of events as the last one
   * @return whether it is ready to be ended: it has stored everything, or stores nothing
   */
  def drain(finish: () => Unit): Boolean = {
    val keeps = (settings.records || settings.learns) && keeper != null
    if (!keeps) stopping = true
    finish()
    closing.countDown()
    val deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.drainTimeoutMs)
    def waits = keeps && keeper.isAlive && System.nanoTime() < deadlineNs
    while (waits && !entry.drained.await(20, TimeUnit.MILLISECONDS)) ()
    stopping = true
    if (keeps) unstored.foreach(logWarning(_))
    !keeps || entry.drained.getCount == 0
  }

  /** A sentence on what is missing from the history and the event file at the end of the application. */
  private def unstored: Option[String] = {
    val missed = if (settings.learns) entry.endsUnstored else entry.endsMissed
    val lacks = if (missed > 0) s"what it keeps lacks $missed of the jobs that ended" else "what it keeps may lack the last jobs"
    if (entry.drained.getCount == 0)
      Option.when(missed > 0)(s"Jobs ended that no planner could learn from, or record in time: $lacks")
    else if (process.exists(_.isAlive))
      Some(s"The planner has not stored all that it learned within ${settings.drainTimeoutMs} ms " +
        s"(${Settings.PlannerDrainTimeout.name}): $lacks")
    // A planner that never called has learned nothing.
    else Option.when(missed > 0 || entry.taken.isDone)(s"The planner has ended before it stored all that it learned: $lacks")
  }

  /** @param patient wait for the process to end by itself */
  def stop(patient: Boolean): Unit = {
    stopping = true
    if (keeper != null) keeper.interrupt()
    process.foreach(end(_, patient))
    if (gateway != null) gateway.shutdown()
    folders.delete()
  }

  /** Another planner takes over, with the settings that are in force by then. */
  def replace(): Unit = process.filter(_.isAlive).foreach { planner =>
    replacing = true
    planner.destroyForcibly() // It ignores SIGTERM, which service managers send to all of the driver's children.
  }

  def counters: Map[String, Long] = Map(
    "planner_starts" -> starts,
    "planner_restarts" -> math.max(0, starts - 1),
    "planner_stalls" -> stalls,
    "planner_pid" -> process.filter(_.isAlive).fold(-1L)(_.pid()))

  /** @param mode one of [[Modes]]: nothing needs a planner while it is off */
  def facts(mode: String): PlannerFacts = {
    val pid = process.filter(_.isAlive).map(_.pid())
    PlannerFacts(settings.enabled && mode != Modes.Off, pid, pid.flatMap(_ => entry.heartbeat.silentMs), math.max(0, starts - 1), stalls)
  }

  /** No further planner is needed. */
  private def over: Boolean = stopping || entry.drained.getCount == 0

  private def keep(): Unit = try {
    var backoffMs = settings.restartBackoffMs
    var hopeless = false
    var last = false
    while (!over && !hopeless && !last) {
      last = closing.getCount == 0
      val (planner, worked) = attempt()
      if (!over && pythons.lack.isDefined) {
        last = false
        hopeless = !pythons.next()
        if (hopeless) {
          logWarning(s"No planner runs (${pythons.reasons}), and the configured rules apply. ${pythons.remedy}")
          refused.complete(None)
        }
      } else {
        hopeless = planner.exists(_.exitValue() == PlannerProcess.RefusedItsSettings) && !entry.settingsRefused()
        refused.complete(if (hopeless) Some(lastError) else None)
        if (hopeless && !stopping) logError("The planner refused its settings (see its last line) and is not started " +
          "again; the configured rules apply")
        else if (!over && !last) {
          if (worked) backoffMs = settings.restartBackoffMs
          if (replacing) replacing = false else closing.await(backoffMs, TimeUnit.MILLISECONDS)
          backoffMs = math.min(settings.restartBackoffMaxMs, math.max(1, backoffMs) * 2)
        }
      }
    }
  } catch { case _: InterruptedException => }

  /** A planner that ran until now, and whether it had been heard of. Whatever fails here fails once: the next one is tried. */
  private def attempt(): (Option[Process], Boolean) = try {
    pythons.starts()
    val planner = launch()
    val worked = planner.exists(watch)
    // The next planner learns from jobs that end from now on.
    if (!over) onStart()
    (planner, worked)
  } catch {
    case thrown @ (NonFatal(_) | _: OutOfMemoryError) =>
      logWarning(s"The planner could not be started with ${pythons.current}, or its process could not be watched; the configured rules apply", thrown)
      process.foreach(end(_, patient = false))
      (None, false)
  }

  private def launch(): Option[Process] = try {
    val folder = if (pythons.runsPackageInJar) folders.packageOfJar() else settings.packageFolder
    val builder = new ProcessBuilder((pythons.current +: PlannerProcess.arguments(folder, PlannerProcess.Module)): _*)
    if (pythons.runsPackageInJar) builder.environment.put("PYTHONPATH", PlannerInJar.pythonPath)
    builder.directory(folders.empty)
    // The planner must not see the driver's own gateway and secrets.
    Seq("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "_PYSPARK_DRIVER_CONN_INFO_PATH").foreach(builder.environment.remove)
    builder.environment.put("OMP_NUM_THREADS", "1")
    builder.environment.put("OPENBLAS_NUM_THREADS", "1")
    builder.redirectOutput(ProcessBuilder.Redirect.DISCARD)
    while (gateway.getListeningPort <= 0 && !stopping) Thread.sleep(5)
    onStart()
    entry.heartbeat.forget()
    val started = builder.start()
    process = Some(started)
    starts += 1
    val handshake = new ObjectMapper().createObjectNode()
      .put("address", loopback.getHostAddress).put("port", gateway.getListeningPort).put("secret", secret)
      .put("app", application).put("session", session).put("folder", new File("").getAbsolutePath)
    relay = daemon("spark-sched-planner-log")(relayLog(started))
    // A planner that ended at once, or is stopped while it starts, reads nothing: its exit status says more than this error.
    try {
      started.getOutputStream.write((handshake.toString + "\n").getBytes(UTF_8))
      started.getOutputStream.flush()
    } catch { case _: IOException => }
    if (stopping) end(started, patient = false)
    Some(started)
  } catch {
    case e: IOException =>
      pythons.failed(e)
      // One that is stopped while it starts loses its folder.
      if (!stopping && pythons.lack.isEmpty)
        logWarning(s"The planner could not be started with ${pythons.current}: ${e.getMessage}; the configured rules apply")
      None
  }

  /** Blocks until the planner is gone; returns whether it had been heard of. */
  private[sparksched] def watch(planner: Process): Boolean = {
    val start = new Heartbeat
    start.beat()
    var killed = false // A process may take long to end, for example one that waits for a disk.
    while (!planner.waitFor(100, TimeUnit.MILLISECONDS)) {
      val silent = entry.heartbeat.silentMs.fold(start.silentMs.exists(_ > settings.startTimeoutMs))(_ > settings.stallTimeoutMs)
      if (silent && !killed) {
        killed = true
        stalls += 1
        logWarning(s"The planner (pid ${planner.pid()}) has been silent for too long and is replaced")
        planner.destroyForcibly()
      }
    }
    // The last line may still come: it says why a planner that never called ended.
    Option(relay).foreach(_.join(if (entry.heartbeat.silentMs.isDefined) 1000 else 10000))
    val heard = entry.heartbeat.silentMs.isDefined
    pythons.ended(heard, planner.exitValue())
    if (!over && !replacing && pythons.lack.isEmpty) logWarning(s"The planner (pid ${planner.pid()}) ended with status ${planner.exitValue()}; " +
      "scheduling continues with the last valid rules")
    heard
  }

  private def relayLog(planner: Process): Unit = try {
    val lines = new BufferedReader(new InputStreamReader(planner.getErrorStream, UTF_8))
    Utils.tryWithResource(lines)(_.lines().forEach { line =>
      pythons.said(line)
      if (line.startsWith(PlannerProcess.ErrorLine)) lastError = line.stripPrefix(PlannerProcess.ErrorLine)
      val said = s"planner: ${line.replace(secret, "***")}"
      // Its lines begin with their level; a traceback has none.
      if (line.startsWith("INFO")) logInfo(said) else logWarning(said)
    })
  } catch { case _: UncheckedIOException => } // Its process was ended, and nothing more comes.

  private def end(planner: Process, patient: Boolean): Unit = Utils.tryLogNonFatalError {
    Utils.tryLogNonFatalError(planner.getOutputStream.close())
    if (!patient || !planner.waitFor(2, TimeUnit.SECONDS)) planner.destroyForcibly()
  }

  private def daemon(name: String)(body: => Unit): Thread = {
    val thread = new Thread(() => body, name)
    thread.setDaemon(true)
    thread.start()
    thread
  }
}

private[sparksched] object PlannerProcess {
  /**
   * Nothing here calls the planner. Py4J's own default begins a thread that looks for old connections: no daemon, it would keep the
   * JVM of a program that fails, or does not stop its context, from ever ending. Connections that are kept for 0 s have none.
   */
  private def noCallbacks = new CallbackClient(GatewayServer.DEFAULT_PYTHON_PORT, InetAddress.getLoopbackAddress, 0, TimeUnit.SECONDS)

  /** The planner's exit status for settings that no restart fixes, such as a policy that does not exist. */
  val RefusedItsSettings = 2

  private val ErrorLine = "ERROR "
  private val Module = "spark_sched.planner.process"

  /** Python's arguments for a module's `main`: the package is run from its folder where that is known and there. */
  def arguments(packageFolder: String, module: String, given: String*): Seq[String] = {
    val script = new File(packageFolder, "isolated.py")
    (if (packageFolder.nonEmpty && script.isFile) Seq(script.getAbsolutePath, module, "main") else Seq("-m", module)) ++ given
  }
}
