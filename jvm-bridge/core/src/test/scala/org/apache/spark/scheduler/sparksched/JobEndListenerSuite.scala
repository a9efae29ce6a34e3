package org.apache.spark.sql.hive.thriftserver.ui {
  import org.apache.spark.scheduler.SparkListenerEvent

  /** Has the name of an event of the Thrift server's, of another Spark's than this one. */
  final class SparkListenerThriftServerOperationStart(thrown: Error) extends SparkListenerEvent with Product {
    override def productArity: Int = throw thrown
    override def productElement(n: Int): Any = throw thrown
    override def canEqual(that: Any): Boolean = false
  }
}

package org.apache.spark.scheduler.sparksched {
  import org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart
  import org.scalatest.funsuite.AnyFunSuite

  final class JobEndListenerSuite extends AnyFunSuite {
    for (thrown <- Seq(new NoSuchMethodError("a test"), new StackOverflowError))
      test(s"the listener bus, and with it the application, survives an event that cannot be read for ${thrown.getClass.getSimpleName}") {
        new JobEndListener(null).onOtherEvent(new SparkListenerThriftServerOperationStart(thrown))
      }
  }
}
