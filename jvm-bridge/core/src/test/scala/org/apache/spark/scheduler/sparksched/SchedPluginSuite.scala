package org.apache.spark.scheduler.sparksched

import java.util.{Collections, Map => JMap}

import org.apache.spark.{SparkConf, SparkContext, SparkException}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.scalatest.funsuite.AnyFunSuite

class SchedPluginSuite extends AnyFunSuite {
  private val ours = classOf[SchedPlugin].getName
  private val other = classOf[OtherPlugin].getName

  private def conf(master: String, plugins: String): SparkConf = new SparkConf(loadDefaults = false)
    .setMaster(master).setAppName("plugin").set("spark.plugins", plugins)
    .set("spark.ui.enabled", "false").set("spark.sched.planner.enabled", "false")

  private def running[A](conf: SparkConf)(body: SparkContext => A): A = {
    val context = new SparkContext(conf)
    try body(context)
    finally context.stop()
  }

  test("it attaches to the master as it is, and other plugins keep their parts, their order and their settings") {
    for (plugins <- Seq(s"$other,$ours", s" $ours , $other ", s"$ours,$other,$ours")) {
      OtherPlugin.started = Nil
      running(conf("local[2]", plugins)) { context =>
        assert(SparkSched.attached(context))
        assert(context.master == "local[2]")
        assert(context.conf.get("spark.plugins") == other)
        assert(context.conf.get(s"spark.plugins.internal.conf.$other.key") == "value")
        assert(context.range(0, 100, numSlices = 4).map(_ * 2).sum() == 9900.0)
      }
      assert(OtherPlugin.started == Seq("driver", "executor value"))
    }
  }

  test("executors are not told of it, whichever list names it") {
    for (list <- Seq("spark.plugins", "spark.plugins.defaultList"))
      running(conf("local[2]", "").remove("spark.plugins").set(list, ours)) { context =>
        assert(!context.conf.contains(list))
        assert(SparkSched.attached(context) == (list == "spark.plugins" || context.version >= "4"))
      }
  }

  test("contexts of one JVM attach one after another") {
    val shared = conf("local[2]", ours)
    for (_ <- 1 to 2) running(shared)(context => assert(SparkSched.attached(context)))
    assert(shared.get("spark.plugins") == ours, "the user's own configuration stays as it is")
    running(conf("local[2]", other))(context => assert(!SparkSched.attached(context)))
  }

  test("a master with our prefix keeps its own door") {
    running(conf("spark-sched:local[2]", ours))(context => assert(SparkSched.attached(context) && context.master == "local[2]"))
  }

  test("a master that Spark does not know is left to Spark") {
    val refused = intercept[Exception](running(conf("locl[2]", ours))(_ => ()))
    assert(refused.getMessage.contains("locl[2]") && !refused.getMessage.contains("spark-sched:"))
  }

  test("the prefix is refused for masters that spark-submit prepares") {
    for (master <- Seq("yarn", "k8s://https://host:443")) {
      val plain = conf(s"spark-sched:$master", "").remove("spark.plugins")
      val refused = intercept[SparkException](running(plain)(_ => ()))
      assert(refused.getMessage.contains(s"set spark.master to '$master' and spark.plugins to $ours"))
    }
  }

  test("a wrong setting stops the application by this door, too") {
    val refused = intercept[SparkException](running(conf("local[2]", ours).set("spark.sched.sed", "1"))(_ => ()))
    assert(refused.getMessage.contains("did you mean spark.sched.seed"))
  }
}

/** A plugin with a part in the driver, which configures its part in the executors. */
class OtherPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): JMap[String, String] = {
      OtherPlugin.started :+= "driver"
      Collections.singletonMap("key", "value")
    }
  }
  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(plugin: PluginContext, extra: JMap[String, String]): Unit =
      OtherPlugin.started :+= s"executor ${extra.get("key")}"
  }
}

object OtherPlugin {
  @volatile var started: Seq[String] = Nil
}
