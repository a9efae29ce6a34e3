"""Marks on a live scheduler: they reach threads, end with their block, and leave nothing held."""

from __future__ import annotations

import json
from operator import add

import pytest

import spark_sched

# One process has the session.
pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("session")]


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


def test_unmarked_work_holds_nothing(spark_context):
    before = counters(spark_context)["holds_total"]
    assert two_stages(spark_context) == {0: 2450, 1: 2500}
    assert counters(spark_context)["holds_total"] == before


def test_an_inheritable_thread_works_for_the_block_it_was_started_in(spark_context):
    from pyspark import InheritableThread

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
