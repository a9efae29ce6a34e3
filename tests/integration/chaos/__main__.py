"""The application: ``python -m tests.integration.chaos POLICY [--seconds N] [--seed N] [--json]``.

It runs in a folder of its own, which gets the history and what streams keep. Standard error is the driver's
log. The exit status is 0 if all counts are zero.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

import spark_sched
from tests.integration import lifecycles, scenarios
from tests.integration.chaos import learned, streams, tenants
from tests.integration.chaos.faults import Faults, drawn
from tests.integration.chaos.report import Load, table
from tests.integration.chaos.streams import Stream
from tests.integration.chaos.tenants import JobRecord, Shared, Tenant
from tests.integration.chaos.watch import Looks, Watch, stalls_counted_twice
from tests.integration.scenarios import counters, wait_until

THREADS, STREAMS = 24, 2
THREADS_SHORT, STREAMS_SHORT = 11, 1
#: How long the last jobs may take once the faults are over: only a hang takes that long.
PATIENCE_S = 300.0
#: The share of the time in which jobs begin; the faults go on while the last ones end.
BEGINS = 0.8
GAP_S = 5.0


def settings(policy: str, history: Path) -> dict[str, str]:
    return {
        "spark.app.name": f"chaos-{policy}",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        # Spark applies a regular expression to the long text that the stop of a stream in Python raises, and
        # that takes a deep stack. A small young generation keeps a heap small that is mostly garbage.
        "spark.driver.extraJavaOptions": "-Xss8m -Xmn48m",
        "spark.executor.extraJavaOptions": "-Xmn24m",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.shuffle.partitions": "3",
        "spark.locality.wait": "0",
        # An executor that is stopped is given up after this.
        "spark.network.timeout": "15s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "3s",
        # What faults do to executors must end no application and no job.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.stage.maxConsecutiveAttempts": "100",
        "spark.task.maxFailures": "8",
        "spark.decommission.enabled": "true",
        # Waiting is what tenants are here for.
        "spark.sql.broadcastTimeout": "3600",
        "spark.testing.schedInvariants": "true",
        "spark.sched.planner.policy": policy,
        "spark.sched.planner.startTimeout": "5min",
        "spark.sched.planner.restartBackoff": "200ms",
        "spark.sched.planner.restartBackoffMax": "1s",
        "spark.sched.planner.planValidity": "4s",
        "spark.sched.planner.drainTimeout": "1min",
        "spark.sched.reservation.gap": f"{GAP_S:g}s",
        "spark.sched.history.path": str(history),
        # Made for jobs of seconds.
        "spark.sched.policy.3sigma.firstStep": "1s",
        "spark.sched.policy.3sigma.window": "2min",
        "spark.sched.policy.slearn.firstQueue": "10s",
    }


class Chaos:
    """One run: the application, its tenants, the faults and the watch."""

    def __init__(self, spark: SparkSession, asked: argparse.Namespace, folder: Path, history: Path) -> None:
        self._spark, self._asked, self._history = spark, asked, history
        stop_s = time.monotonic() + BEGINS * asked.seconds
        self._shared = Shared(spark, asked.seed, stop_s, 0.15 if asked.short else 0.75, folder)
        threads, flows = (THREADS_SHORT, STREAMS_SHORT) if asked.short else (THREADS, STREAMS)
        self._tenants: list[Tenant | Stream] = []
        self._tenants += [Tenant(self._shared, number) for number in range(threads - flows)]
        # That of `warm_up`.
        self._shared.records.append(JobRecord("unmarked query", "", "", "", "right", (1, 1)))
        self._tenants += [Stream(self._shared, number) for number in range(flows)]
        planned = drawn(asked.seed, asked.seconds, asked.short)
        self._faults = Faults(self._shared, planned, history, asked.policy)
        self._looks = Looks(self._shared.gangs, self._faults.decommissioned, GAP_S)
        self._watch = Watch(spark.sparkContext, self._looks)
        self._lines: dict[str, list[str]] = {}

    def run(self) -> dict[str, Any]:
        """All of it, with the application's end. Counts that must be zero are in ``counts``."""
        self._watch.thread.start()
        for tenant in self._tenants:
            tenant.thread.start()
        self._faults.thread.start()
        self._faults.thread.join()
        until_s = time.monotonic() + PATIENCE_S
        for tenant in self._tenants:
            tenant.thread.join(max(0.0, until_s - time.monotonic()))
        hung = [tenant.thread.name for tenant in self._tenants if tenant.thread.is_alive()]
        self._lines["never ended"] = [f"{name}: {self._shared.doing.get(name)}" for name in hung]
        if hung:
            self._lines["never ended"].append(lifecycles.stacks())
        left = self._idle()
        self._watch.stop()
        sc = self._spark.sparkContext
        last, user = counters(sc), sc.sparkUser()
        # An application that hangs does not stop.
        left_stopped = [] if hung else self._stop()
        return self._result(last, left, left_stopped, user)

    def _idle(self) -> dict[str, list[str]]:
        """What the application still holds and knows when all jobs have ended."""
        sc = self._spark.sparkContext
        left: dict[str, list[str]] = {}

        def nothing() -> bool:
            held = counters(sc)["slots_held_now"]
            left["holds left"] = [f"{held} slots are held"] if held else []
            jobs = [f"{job['job']} ({job['name']}) is {job['state']}" for job in self._looks.last["jobs"]]
            active = [f"Spark job {number} runs" for number in sc.statusTracker().getActiveJobsIds()]
            left["jobs left"] = jobs + active
            return not any(left.values())

        with suppress(TimeoutError):
            wait_until(nothing, "the application was to be idle", 60.0)
        if not self._asked.short and not any(left.values()):
            left["jobs left"] += lifecycles.left_idle(sc)
        return left

    def _stop(self) -> list[str]:
        """Ends the application. What looks at its remains must be compiled, and short runs do without."""
        found: Callable[[], list[str]] = list
        if not self._asked.short:
            found = lifecycles.left_stopped(self._spark.sparkContext)
        self._spark.stop()
        return found()

    def _result(
        self, last: dict[str, int], left: dict[str, list[str]], left_stopped: list[str], user: str
    ) -> dict[str, Any]:
        records, log = self._shared.records, driver_log()
        lost_rows, extra_rows = learned.missing(records, user, learned.rows(self._history))
        self._lines |= {
            "lost results": [str(each) for each in records if each.outcome == "lost"],
            "wrong results": [str(each) for each in records if each.outcome == "wrong"],
            **left,
            "processes and threads left": left_stopped,
            "ends not learned": lost_rows + learned.admitted(log),
            "ends learned twice": extra_rows,
            "invariants broken": [*self._looks.broken, *lines_with(log, "spark_sched invariant")],
            "idle beside waiting": self._looks.idle,
            "stalls counted twice": stalls_counted_twice(log, last["planner_stalls"]),
            "failed open": lines_with(log, "spark_sched failed at") if last["failed_open"] else [],
            "steering gone wrong": self._faults.problems,
        }
        counts = {kind: len(sentences) for kind, sentences in self._lines.items()}
        counts["invariants broken"] = max(counts["invariants broken"], last["invariant_violations"])
        counts["failed open"] = last["failed_open"]
        return {
            "policy": self._asked.policy,
            "seed": self._asked.seed,
            "seconds": self._asked.seconds,
            "counts": counts,
            "jobs": tenants.outcomes(records),
            "faults": dict(sorted(self._faults.done.items())),
            "looks": self._looks.count,
            "counters": last,
            "fault_log": self._faults.log,
            "lines": self._lines,
        }


def driver_log() -> str:
    """What was logged so far, if that goes to a file."""
    log = Path("/proc/self/fd/2")
    return log.read_text(errors="replace") if log.is_file() else ""


def lines_with(log: str, text: str) -> list[str]:
    """The first ones."""
    return [line for line in log.splitlines() if text in line][:20]


def warm_up(spark: SparkSession) -> None:
    """One query, and a planner that plans: the first one on a machine compiles its loops."""
    spark.range(10).count()
    wait_until(lambda: counters(spark.sparkContext)["plans_accepted"] > 0, "no plan came", within_s=600.0)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.chaos", description=__doc__)
    parser.add_argument("policy")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SPARK_SCHED_CHAOS_S", "480")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SPARK_SCHED_CHAOS_SEED", "1")))
    parser.add_argument(
        "--short", action="store_true", help="fewer threads, short tasks, one fault of each kind"
    )
    parser.add_argument("--json", action="store_true", help="print all of the result as one JSON document")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    asked = parsed(arguments)
    load = Load()
    load.start()
    with tempfile.TemporaryDirectory(prefix="spark-sched-chaos-") as name:
        folder = Path(name)
        history = folder / "history.db"
        for module in (scenarios, tenants, streams):
            register_pickle_by_value(module)  # executors need not find the tests
        cluster = "local-cluster[2,2,1024]" if asked.short else "local-cluster[3,2,1024]"
        spark = SparkSession.builder.config(
            map=spark_sched.conf(cluster, settings(asked.policy, history))
        ).getOrCreate()
        gateway: Any = spark.sparkContext._gateway
        try:
            warm_up(spark)
            result = Chaos(spark, asked, folder, history).run()
        except Exception:
            traceback.print_exc()
            gateway.proc.kill()
            return 1
        # The JVM ends with its input. Only then its time is known.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
    result |= load.so_far()
    print(json.dumps(result) if asked.json else table(result), flush=True)
    return 1 if any(result["counts"].values()) else 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    # Tenants that hang are threads that do not end.
    os._exit(status)
