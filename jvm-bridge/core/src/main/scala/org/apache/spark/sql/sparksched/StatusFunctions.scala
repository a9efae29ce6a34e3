package org.apache.spark.sql.sparksched

import scala.annotation.tailrec

import org.apache.spark.scheduler.sparksched.SparkSched
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression, ExpressionInfo, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String
import schedcore.marks.{MarkSources, SessionUsers}

/**
 * The table functions `spark_sched_status()` and `spark_sched_explain('JOB')`: one row with one text, the status document.
 *
 * They are for those who have a SQL session and nothing else of the driver, such as clients of Spark Connect and of a Thrift server. The
 * document is read when the query is analysed, so that it is a constant of the plan: Spark runs no job for it.
 */
private[sparksched] object StatusFunctions {
  private val Status = "spark_sched_status"
  private val Explain = "spark_sched_explain"

  def inject(extensions: SparkSessionExtensions): Unit = {
    function(extensions, Status, s"$Status() - The status document of the application's scheduler.") {
      case Seq() => ReadStatus(None)
      case _ => throw new RefusedStatus(s"$Status takes no argument: use $Explain('JOB') for one job")
    }
    function(extensions, Explain, s"$Explain('JOB') - The status document of the jobs of this key, id or name, with their stories.") {
      case Seq(Literal(job: UTF8String, _: StringType)) => ReadStatus(Some(job.toString))
      case _ => throw new RefusedStatus(s"$Explain takes one argument, the key, id or name of a job as a text: $Explain('JOB')")
    }
    extensions.injectResolutionRule(new StatusReader(_))
  }

  private def function(extensions: SparkSessionExtensions, name: String, usage: String)(build: Seq[Expression] => LogicalPlan): Unit =
    extensions.injectTableFunction((FunctionIdentifier(name), new ExpressionInfo(getClass.getName, null, name, usage, ""), build))
}

/** A call that the rule of the session that analyses it has yet to answer. */
private[sparksched] final case class ReadStatus(job: Option[String]) extends LeafNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
}

/** Answers calls in plans of one session, for the session's user. */
private[sparksched] final class StatusReader(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case ReadStatus(job) =>
      val document = SparkSched.read(session.sparkContext, job, StatementUser.of(session, _)).fold(why => throw new RefusedStatus(why), identity)
      LocalRelation(Seq(AttributeReference("document", StringType, nullable = false)()), Seq(InternalRow(UTF8String.fromString(document))))
  }
}

/** A call that gets no document. It is no AnalysisException: pyspark looks up the error class of those, and fails if there is none. */
private[sparksched] final class RefusedStatus(sentence: String) extends IllegalArgumentException(sentence)

/** The user who runs a statement, as its server knows them. `SET` has no influence. */
private[sparksched] object StatementUser {
  /**
   * Of the statement that the calling thread analyses. Sessions are not asked whose they were before: users of a Thrift server may share
   * one.
   */
  def of(session: SparkSession, users: SessionUsers): Option[String] = session match {
    case s: SqlLine.Session =>
      val sources = new MarkSources(key => Option(session.sparkContext.getLocalProperty(key)), SqlSessions.originIn(s))
      // The Connect server of Spark 3.5 has no records to ask, but names the user in a tag.
      def named = sources.group.fold(sources.connectUser)(group => waited(System.nanoTime() + DeliveryNs)(users.ofGroup(group)))
      SqlSessions.connectUser(s.sessionUUID).orElse(named)
    case _ => None
  }

  /** A Thrift server reports a statement's user on the listener bus, before it analyses the statement. */
  @tailrec private def waited[A](untilNs: Long)(known: => Option[A]): Option[A] = {
    val found = known
    if (found.isDefined || System.nanoTime() - untilNs > 0) found
    else { Thread.sleep(PauseMs); waited(untilNs)(known) }
  }

  private val DeliveryNs = 5000000000L
  private val PauseMs = 10L
}
