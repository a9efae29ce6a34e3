"""Applications whose plans the test writes itself: what the driver makes of start times, shares and pilots.

Run like those of `scenarios`; there is no planner (``spark.sched.planner.enabled=false``).
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkContext, TaskContext
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.api.admission import PlannerSilentError
from tests.integration.scenarios import (
    Result,
    counters,
    more_events,
    running_tasks,
    settled,
    wait_until,
    waits,
    warm_up,
)

Row = tuple[int, int, int, float]


class Plans:
    """Writes plans in the order of their numbers."""

    def __init__(self, sc: SparkContext) -> None:
        self._scheduler: Any = sc._jsc.sc().taskScheduler()
        self._number = 0

    def submit(self, *jobs: dict[str, Any], valid_ms: int = 60_000, **more: Any) -> int:
        """Put a plan in force; its time in ms. One that runs out on its way is made anew."""
        while True:
            now_ms, answer = self._offer(jobs, valid_ms, more)
            if answer == "accepted":
                return now_ms
            if not answer.startswith("rejected: expired"):
                raise AssertionError(answer)

    def _offer(
        self, jobs: tuple[dict[str, Any], ...], valid_ms: int, more: dict[str, Any]
    ) -> tuple[int, str]:
        self._number += 1
        now_ms = int(time.time() * 1000)
        version = self._scheduler.records().events().currentVersion()
        entries = [
            {"rank": rank, "priority": 0, "reservation": None, "reason": "a test", **entry}
            for rank, entry in enumerate(jobs)
        ]
        plan = {
            "schema": 1, "plan": self._number, "snapshot": version, "made_at_ms": now_ms,
            "valid_for_ms": valid_ms, "policy": "test", "ordered": True, "jobs": entries, **more,
        }  # fmt: skip
        return now_ms, str(self._scheduler.planOffered(json.dumps(plan)))

    def make_wait(self, spark: SparkSession, *jobs: Running) -> None:
        """Begin the jobs under a plan that lets them wait for another one."""
        later_ms = int(time.time() * 1000) + 3_600_000
        self.submit(*({"job": job.key, "deferred": True, "start_ms": later_ms} for job in jobs))
        for job in jobs:
            job.begin()
        wait_until(lambda: all(waits(spark, job.name, job.tasks) for job in jobs), "jobs were to wait")


class Running:
    """A job of one stage in a thread of its own; its key is known at once, its rows when it ended.

    Where it is not to begin at once, plans can tell of it before it does: whom they do not know waits for a
    while only.
    """

    def __init__(
        self, spark: SparkSession, name: str, tasks: int, body: Callable[[int], Row], *, at_once: bool = True
    ) -> None:
        self.name, self.tasks = name, tasks
        self.rows: list[Row] = []
        self.key = ""
        self.error = ""
        named = threading.Event()
        self._begins = threading.Event()
        if at_once:
            self.begin()

        def work() -> None:
            try:
                with spark_sched.job(spark, name) as job_id:
                    self.key = f"mark-{job_id}"
                    named.set()
                    self._begins.wait()
                    self.rows = spark.sparkContext.parallelize(range(tasks), tasks).map(body).collect()
            except Exception as error:
                self.error = str(error)

        self._thread = InheritableThread(target=work)
        self._thread.daemon = True
        self._thread.start()
        named.wait()

    def begin(self) -> None:
        self._begins.set()

    def join(self) -> list[Row]:
        self._thread.join(600)
        if self._thread.is_alive() or self.error:
            raise AssertionError(self.error or f"{self.key} never ended")
        return self.rows

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def first_ms(self) -> float:
        return min(start for _, _, _, start in self.rows) * 1000


def attempts(seconds: Callable[[int, int], float]) -> Callable[[int], Row]:
    """A task body: (partition, attempt, stage, time of its start)."""

    def body(partition: int) -> Row:
        told = this_attempt(partition)
        time.sleep(seconds(partition, told[1]))
        return told

    return body


def this_attempt(partition: int) -> Row:
    """The running task's row: (partition, attempt, stage, now)."""
    context = TaskContext.get()
    return partition, context.attemptNumber(), context.stageId(), time.time()


def plan_followed(spark: SparkSession) -> Result:
    """Four slots: an eviction for a planned job, a deferred and a new one that wait, a plan that runs out."""
    sc = spark.sparkContext
    plans = Plans(sc)
    warm_up(sc, 4)
    quick = attempts(lambda _p, _a: 0.3)
    # 1. The victim has all slots; its first attempts would take a minute.
    victim = Running(spark, "victim", 4, attempts(lambda _p, attempt: 60.0 if attempt == 0 else 0.2))
    wait_until(lambda: running_tasks(sc) == 4, "the victim was to run")
    planned = Running(spark, "planned", 4, attempts(lambda _p, _a: 1.5))
    evicted_ms = plans.submit(
        {"job": planned.key, "start_ms": 0, "share": {"0": 4}},
        {"job": victim.key, "deferred": True, "evict": True},
        new_jobs_wait=True,
    )
    planned_rows = planned.join()
    # All slots are free now and nobody may take them: the victim is offered them, and refused.
    refused = counters(sc)["offers_refused"]
    wait_until(lambda: counters(sc)["offers_refused"] > refused, "free slots were to be offered")
    wait_until(lambda: running_tasks(sc) == 0, "the planned job was to leave the slots idle")
    idle = spark_sched.status(spark)
    evictions = counters(sc)["evictions"]
    goes_on_ms = time.time() * 1000
    # 2. The victim goes on, the new job has a start of its own, of four tasks of another one may run.
    new = Running(spark, "new", 2, quick, at_once=False)
    shared = Running(spark, "shared", 4, quick, at_once=False)
    at_ms = int(time.time() * 1000) + 2_500
    plans.submit(
        {"job": victim.key},
        {"job": shared.key, "start_ms": 0, "share": {"0": 1}},
        {"job": new.key, "start_ms": at_ms, "deferred": True},
        new_jobs_wait=True,
    )
    new.begin()
    shared.begin()
    victim_rows = victim.join()
    new_rows = new.join()
    shared_alive = shared.alive
    # 3. A job without a start takes what nobody waits for.
    last = Running(spark, "last", 4, quick)
    plans.submit({"job": shared.key}, {"job": last.key, "deferred": True})
    shared_rows, last_rows = shared.join(), last.join()
    # 4. A plan that knows nobody, and no planner: who is new waits for a while, though the plan goes on.
    plans.submit({"job": "nobody"}, new_jobs_wait=True)
    unknown_rows = Running(spark, "unknown", 2, quick).join()
    # 5. A plan that lets a job wait for an hour, and no planner: its time runs out.
    stuck = Running(spark, "stuck", 2, quick, at_once=False)
    later_ms = int(time.time() * 1000) + 3_600_000
    ends_ms = 2_000 + plans.submit({"job": stuck.key, "deferred": True, "start_ms": later_ms}, valid_ms=2_000)
    stuck.begin()
    stuck.join()
    return {
        "evictions": evictions,
        "kept_free": idle.application.kept_free_slots,
        "idle_states": {job.name: job.state for job in idle.jobs if job.slots.waiting},
        "victim_waited_ms": victim.first_ms - goes_on_ms,
        "victim": sorted(row[:2] for row in victim_rows),
        "victim_stage": _stage(sc, victim_rows[0][2]),
        "planned_after_ms": planned.first_ms - evicted_ms,
        "planned": len(planned_rows),
        "new_late_ms": new.first_ms - at_ms,
        "new": len(new_rows),
        "shared_alive": shared_alive,
        "shared": len(shared_rows),
        "last": len(last_rows),
        "unknown": len(unknown_rows),
        "stuck_late_ms": stuck.first_ms - ends_ms,
        "counters": settled(sc),
    }


def _stage(sc: SparkContext, number: int) -> dict[str, int]:
    info = sc.statusTracker().getStageInfo(number)
    assert info is not None
    return {"attempt": info.currentAttemptId, "failed_tasks": info.numFailedTasks}


def pilots_first(spark: SparkSession) -> Result:
    """Two pilots of twelve tasks beside another job: the others wait for them, and one pilot fails once."""
    sc = spark.sparkContext
    plans = Plans(sc)
    warm_up(sc, 4)
    with tempfile.TemporaryDirectory(prefix="spark-sched-tests-") as name:
        started, here = Path(name) / "started", Path(name)

        def body(partition: int) -> Row:
            attempt = TaskContext.get().attemptNumber()
            if attempt == 0:
                with started.open("a") as order:
                    order.write(f"{partition}\n")
            time.sleep(1.2 if partition in (5, 9) else 0.2)
            if partition == 9 and attempt == 0:
                raise ValueError("on purpose")
            return this_attempt(partition)

        def beside(partition: int) -> Row:
            wait_until(
                lambda: started.exists() and len(started.read_text().split()) >= 2, "two were to start"
            )
            time.sleep(0.4)
            return this_attempt(partition)

        sampled = Running(spark, "sampled", 12, body, at_once=False)
        other = Running(spark, "other", 12, beside, at_once=False)
        # Both must be there: slots that no other job can use would go to tasks that are no pilots.
        plans.make_wait(spark, sampled, other)
        plans.submit(
            {"job": sampled.key, "pilots": {"stage": 0, "tasks": [5, 9]}},
            {"job": other.key},
            new_jobs_wait=True,
        )
        sampled_rows, other_rows = sampled.join(), other.join()
        # Alone on the cluster: nobody else can use the slots, so all four are in use at once.
        alone = Running(spark, "alone", 4, lambda partition: _meets(partition, here, 4), at_once=False)
        plans.make_wait(spark, alone)
        plans.submit({"job": alone.key, "pilots": {"stage": 0, "tasks": [3]}}, new_jobs_wait=True)
        alone_rows = alone.join()
        return {
            "by_first_start": [int(line) for line in started.read_text().split()],
            "partitions": sorted(row[0] for row in sampled_rows),
            "other": len(other_rows),
            "silent": _silence(spark),
            "alone": sorted(row[0] for row in alone_rows),
            "counters": settled(sc),
        }


def _meets(partition: int, here: Path, tasks: int) -> Row:
    """A task that needs all the tasks of its stage to run at the same time."""
    (here / f"met-{partition}").touch()
    wait_until(lambda: len(list(here.glob("met-*"))) == tasks, "the others did not run beside it")
    return this_attempt(partition)


def _silence(spark: SparkSession) -> str:
    """What one hears who asks where no planner is."""
    try:
        return str(spark_sched.admission(spark, "nightly", tasks=4, timeout_s=0.2))
    except PlannerSilentError as error:
        return str(error)


def sigma_killed(spark: SparkSession) -> Result:
    """kill -9 of a 3Sigma planner in the middle of its cycles, while jobs come and wait for its plans."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    # The first planner of a machine compiles its loops.
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came")
    sums: list[int] = []
    killed = []
    for number in range(6):
        threads = []
        for tenant in range(3):

            def work(tenant: int = tenant) -> None:
                deadline = "2 min" if tenant == 0 else None
                with spark_sched.job(spark, f"tenant-{tenant}", deadline=deadline):
                    rows = sc.parallelize(range(40), 4).map(lambda x: (time.sleep(0.01), (x % 4, x))[1])
                    sums.append(sum(v for _, v in rows.reduceByKey(lambda a, b: a + b, 4).collect()))

            threads.append(InheritableThread(target=work))
            threads[-1].daemon = True  # one that is stuck must not keep this process
            threads[-1].start()
        more_events(sc, 8 * number)
        pid = counters(sc)["planner_pid"]
        if pid > 0:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        for thread in threads:
            thread.join(600)
        if any(thread.is_alive() for thread in threads):
            raise AssertionError("a job is stuck")
        wait_until(
            lambda pid=pid: counters(sc)["planner_pid"] not in (pid, -1), "the planner did not come back"
        )
    before = counters(sc)["plans_accepted"]
    wait_until(lambda: counters(sc)["plans_accepted"] > before, "no plan after the last kill")
    return {"sums": sums, "killed": len(killed), "counters": settled(sc)}


def recurring_slo(spark: SparkSession) -> Result:
    """3Sigma learns a job from three runs of it, and says what becomes of a fourth."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    # The first planner of a machine compiles its loops.
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came")
    first = spark_sched.admission(spark, "nightly", tasks=4, deadline="5 min")
    for _ in range(3):
        with spark_sched.job(spark, "nightly", deadline="2 min"):
            sc.parallelize(range(4), 4).map(lambda p: time.sleep(1.0)).collect()
    wait_until(
        lambda: "3 runs" in spark_sched.admission(spark, "nightly", tasks=4).runtime_source,
        "three runs were to be learned",
    )
    told = spark_sched.admission(spark, "nightly", tasks=4, deadline="5 min")
    late = spark_sched.admission(spark, "nightly", tasks=4, deadline=0.001)
    return {
        "first": str(first),
        "told": str(told),
        "probabilities": [told.probability, late.probability],
        "start_s": told.start_s,
        "runtime_s": told.runtime_s,
        "earliest_deadline_s": told.earliest_deadline_s,
        "counters": settled(sc),
    }
