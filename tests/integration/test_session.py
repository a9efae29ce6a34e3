"""Marks on a live scheduler: they reach threads, end with their block, and leave nothing held."""

from __future__ import annotations

import json
import os
import time
from operator import add

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread

import spark_sched
from tests import class_archive
from tests.environment import QUICK_JAVA
from tests.integration.attached import assert_attached
from tests.integration.scenarios import wait_until

pytestmark = pytest.mark.integration


def counters(context):
    entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    return json.loads(entry.counters(context._jsc.sc()))


def two_stages(context):
    pairs = context.range(100, numSlices=8).map(lambda n: (n % 2, n))
    return dict(pairs.reduceByKey(add, 4).collect())


def test_a_marked_job_holds_slots_and_the_end_of_its_block_releases_them(spark_context):
    before = counters(spark_context)
    with spark_sched.job(spark_context, "held", priority=5):
        assert two_stages(spark_context) == {0: 2450, 1: 2500}
        assert counters(spark_context)["slots_held_now"] > 0
    after = counters(spark_context)
    assert after["slots_held_now"] == 0
    assert after["holds_total"] > before["holds_total"]
    assert after["invariant_violations"] == 0


def test_a_job_is_shown_and_cancelled_by_its_name(spark_context):
    tracker, store = spark_context._jsc.sc().statusTracker(), spark_context._jsc.sc().statusStore()
    ended = []

    def run():
        spark_context.addJobTag("mine")
        with spark_sched.job(spark_context, "nightly, report"):
            try:
                spark_context.range(2, numSlices=2).foreach(lambda _: time.sleep(600))
            except Py4JJavaError as error:
                ended.append(str(error))
        ended.append(set(spark_context.getJobTags()))

    thread = InheritableThread(target=run)
    thread.start()
    wait_until(lambda: len(tracker.getJobIdsForTag("sched-job:nightly_ report")) == 1, "the job was to start")
    (spark_job,) = tracker.getJobIdsForTag("sched-job:nightly_ report")
    data = store.job(spark_job)
    assert (data.description().get(), data.jobGroup().get()) == ("nightly, report", "nightly, report")
    assert data.jobTags().toSet().contains("mine")
    spark_context.cancelJobsWithTag("sched-job:nightly_ report")
    thread.join()
    assert "cancelled" in ended[0]
    assert ended[1] == {"mine"}


def test_unmarked_work_holds_nothing(spark_context):
    before = counters(spark_context)["holds_total"]
    assert two_stages(spark_context) == {0: 2450, 1: 2500}
    assert counters(spark_context)["holds_total"] == before


def test_an_inheritable_thread_works_for_the_block_it_was_started_in(spark_context):
    seen = {}

    def look(name):
        seen[name] = spark_context.getLocalProperty("spark.sched.job.name")

    with spark_sched.job(spark_context, "outer"):
        thread = InheritableThread(target=look, args=("inherited",))
        thread.start()
        thread.join()
    look("afterwards")
    assert seen == {"inherited": "outer", "afterwards": None}


def test_a_block_that_fails_releases_what_it_held(spark_context):
    def fail():
        with spark_sched.job(spark_context, "failing", priority=5):
            two_stages(spark_context)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert counters(spark_context)["slots_held_now"] == 0
    assert spark_context.getLocalProperty("spark.sched.job.name") is None


def test_plain_python_with_the_properties_in_the_defaults(spark_context):
    """The session of pytest-spark is attached by a file of defaults and nothing else."""
    with spark_sched.job(spark_context, "attach", priority=5):
        pairs = spark_context.range(1000, numSlices=8).map(lambda n: (n % 3, n))
        sums = sorted(pairs.reduceByKey(add, 4).collect())
    entry = spark_context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    report = {
        "sums": [list(pair) for pair in sums],
        "attached": entry.attached(spark_context._jsc.sc()),
        "counters": json.loads(entry.counters(spark_context._jsc.sc())),
        "argument": [],
    }
    assert_attached(report)


def test_jvms_of_tests_start_with_options_that_save_processor_time(spark_context):
    if os.environ["SPARK_SUBMIT_OPTS"] != class_archive.options()["SPARK_SUBMIT_OPTS"]:
        pytest.skip("SPARK_SUBMIT_OPTS was set for this run")
    running = spark_context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    assert set(QUICK_JAVA.split()) <= set(running.getInputArguments())
    assert f"-XX:SharedArchiveFile={class_archive.path('attached')}" in running.getInputArguments()
    of_executors = spark_context.getConf().get("spark.executor.defaultJavaOptions")
    assert of_executors.startswith(f"{QUICK_JAVA} -XX:SharedArchiveFile={class_archive.path('stock')} ")
