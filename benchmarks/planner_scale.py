#!/usr/bin/env python3
"""The planner at 1,000 jobs on 16,000 slots: processor time of a cycle, and of taking events.

    python benchmarks/planner_scale.py [--policy NAME,…] [--jobs N] [--executors N] [--cycles N] [--events N]
        [--ends N] [--json]

The planner's own loop with a driver that is a function call. Jobs have a hundred names, three priorities, and
20 or 60 tasks; a third of them have a deadline. 300 earlier runs are learned first. Between two cycles 1,000
events arrive in one batch (``--events``): two jobs end and two begin (``--ends``), and tasks end while others
start on their slots. The clock is simulated: a second passes from cycle to cycle, and the processor time of
the planner beside it, by which the loop paces what it does less often. Per cycle:

- ``events``: parsing the batch, applying it and learning from it, per 1,000 events;
- ``cycle``: from the snapshot to the plan's text. Parts of it: ``snapshot``, ``forecasts``, ``decide``,
  ``ends`` (expected ends of jobs, for people: not in every cycle) and ``text``.

Printed are medians over cycles, and the longest cycle.
"""

from __future__ import annotations

import gc
import io
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import click
import numpy as np
from _common import publish, stderr
from rich.progress import track

from spark_sched.planner.log import make_log
from spark_sched.planner.process import make_loop, settle_collector
from spark_sched.policies.registry import for_use
from spark_sched.protocol.events import parse_batch

_POLICIES = ",".join(for_use())
_SLOTS_EACH = 16
_NAMES, _USERS, _EARLIER = 100, 20, 300
_START_MS = 1_790_000_000_000
_EVENTS = 1_000
_BETWEEN_MS = 1_000.0


class Change(NamedTuple):
    """What happens between two cycles: events in all, and jobs that end, each with one that begins."""

    events: int = _EVENTS
    ends: int = 2


_USUAL = Change()


class NearDriver:
    """What a planner needs of a driver: its settings, and a place for its plans."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self.plan = ""

    def config(self) -> str:
        return json.dumps({"spark.sched.planner.policy": self._policy})

    def settings_taken(self) -> None: ...

    def alive(self) -> None: ...

    def policies_known(self, names: Sequence[str]) -> None: ...

    def stored(self) -> None: ...

    def submit_plan(self, text: str) -> str:
        self.plan = text
        return "accepted"


class Laps:
    """Processor time by part, in ms, since the last `take`."""

    def __init__(self) -> None:
        self._ms: dict[str, float] = defaultdict(float)

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return call(*given, **named)
            finally:
                self._ms[part] += 1000.0 * (time.process_time() - began)

        return timed

    def take(self) -> dict[str, float]:
        found, self._ms = dict(self._ms), defaultdict(float)
        return found


class Cluster:
    """Executors whose slots are all busy, as events; nothing of it decides anything."""

    def __init__(self, executors: int, now_ms: Callable[[], int], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._now_ms = now_ms
        self._free = self.rng.permutation(np.repeat(np.arange(executors), _SLOTS_EACH)).tolist()
        self._running: list[dict[str, Any]] = []
        self._waiting: dict[
            str, list[dict[str, Any]]
        ] = {}  # tasks of active jobs to launch, the next one last
        self._numbers = 0
        self._tasks = 0
        self.executors = [
            self._event("executor_added", executor=f"{e}", host=f"h{e}", slots=_SLOTS_EACH)
            for e in range(executors)
        ]

    @property
    def jobs(self) -> list[str]:
        return list(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def begin(self, tasks: int | None = None) -> list[dict[str, Any]]:
        number, self._numbers = self._numbers, self._numbers + 1
        job, stage = f"mark-job-{number:06d}", f"{number}.0"
        tasks = int(self.rng.choice([20, 60])) if tasks is None else tasks
        self._waiting[job] = [{"stage": stage, "index": index} for index in reversed(range(tasks))]
        started = self._event(
            "job_started", job=job, name=f"report-{number % _NAMES}", user=f"user{number % _USERS}",
            priority=number % 3, isolation=None, copies=True, marked=True,
            deadline_ms=self._now_ms() + 600_000 if number % 3 == 0 else None, **{"class": None},
        )  # fmt: skip
        ready = self._event(
            "stage_started", job=job, stage=stage, name="count at Report.scala:10", index=0, tasks=tasks,
            next_tasks=20, last=False, barrier=False,
        )  # fmt: skip
        return [started, ready]

    def launch(self, job: str) -> list[dict[str, Any]]:
        if not self._free or not self._waiting[job]:
            return []
        self._tasks += 1
        task = {"job": job, "task": self._tasks, "executor": f"{self._free.pop()}", "copy": False}
        launched = self._event("task_launched", **task, **self._waiting[job].pop())
        self._running.append(launched)
        return [launched]

    def fill(self) -> list[dict[str, Any]]:
        """Launches one task of each job in turn until all slots are busy."""
        found: list[dict[str, Any]] = []
        before = -1
        while self._free and len(found) > before:
            before = len(found)
            for job in self._waiting:
                found += self.launch(job)
        return found

    def end_task(self, at: int) -> dict[str, Any]:
        launched = self._running[at]
        self._running[at] = self._running[-1]
        self._running.pop()
        self._free.append(int(launched["executor"]))
        ran_ms = self._now_ms() - launched["time_ms"]
        return {**launched, **self._event("task_ended", duration_ms=ran_ms, outcome="success")}

    def end(self, job: str) -> list[dict[str, Any]]:
        """The job's running tasks end, and it with them."""
        found = [
            self.end_task(at) for at in reversed(range(len(self._running))) if self._running[at]["job"] == job
        ]
        del self._waiting[job]
        stage = f"{int(job.rpartition('-')[2])}.0"
        return [
            *found,
            self._event("stage_ended", job=job, stage=stage, completed=True),
            self._event("job_ended", job=job, outcome="ended"),
        ]

    def churn(self, events: int, ends: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(ends):
            found += self.end(self.jobs[int(self.rng.integers(len(self._waiting)))])
            found += self.begin(60)
        jobs = self.jobs
        while len(found) < events and self._running:
            found.append(self.end_task(int(self.rng.integers(len(self._running)))))
            for at in self.rng.integers(len(jobs), size=20):
                if launched := self.launch(jobs[int(at)]):
                    found += launched
                    break
        return found

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "time_ms": self._now_ms(), **fields}


class Planner:
    """The planner's loop, taken apart where it waits for its driver."""

    def __init__(self, policy: str, laps: Laps) -> None:
        self._driver = NearDriver(policy)
        self._laps = laps
        self._passed_ms = 0.0
        self._version = 0
        self._loop = loop = make_loop(self._driver, make_log(io.StringIO()))
        loop._pace.clock_ms = loop._outlook._clock_ms = self._clock_ms
        parts = (
            ("snapshot", loop.state, "snapshot"),
            ("forecasts", loop._forecasts, "of"),
            ("decide", loop._policy, "decide"),
            ("text", loop._plans.texts, "of"),
            ("ends", loop._outlook, "ends"),
        )
        for part, owner, method in parts:
            setattr(owner, method, laps.timed(part, getattr(owner, method)))

    def _clock_ms(self) -> float:
        return self._passed_ms + 1000.0 * time.process_time()

    def now_ms(self) -> int:
        return _START_MS + int(self._clock_ms())

    def wait(self, ms: float) -> None:
        self._passed_ms += ms

    def take(self, events: list[dict[str, Any]], *, reset: bool = False) -> int:
        """Returns the batch's bytes."""
        self._version += len(events)
        head = {"schema": 1, "version": self._version, "reset": reset, "dropped": 0, "now_ms": self.now_ms()}
        text = json.dumps({**head, "events": events}, separators=(",", ":"))
        self._laps.timed("events", lambda: self._loop._take(parse_batch(text)))()
        return len(text)

    def plan(self) -> int:
        """Returns the plan's bytes."""
        self._laps.timed("cycle", self._loop._plan)()
        return len(self._driver.plan)

    @property
    def complaints(self) -> list[str]:
        counters = self._loop.counters
        found = [f"{counters.plans_failed} plans failed"] if counters.plans_failed else []
        ignored = sum(self._loop.state.ignored.values())
        return found + ([f"{ignored} events were ignored"] if ignored else [])

    @property
    def jobs(self) -> int:
        return len(self._loop.state.snapshot().jobs)


def measure(
    policy: str, jobs: int, executors: int, cycles: int, seed: int, change: Change = _USUAL
) -> dict[str, Any]:
    """Figures of one policy. Raises ClickException if a plan failed or an event was not understood."""
    laps = Laps()
    planner = Planner(policy, laps)
    cluster = Cluster(executors, planner.now_ms, seed)
    planner.take(cluster.executors, reset=True)
    for _ in range(_EARLIER):
        begun = cluster.begin(20)
        (job,) = cluster.jobs
        begun += cluster.fill()
        planner.wait(float(cluster.rng.exponential(2_000.0)) + 100.0)
        planner.take([*begun, *cluster.end(job)])
    planner.take([event for _ in range(jobs) for event in cluster.begin()] + cluster.fill())
    planner.wait(2_000.0)
    settle_collector()
    planner.plan()
    rows, parts = [], []
    for _ in track(range(cycles), policy, console=stderr, transient=True):
        planner.wait(_BETWEEN_MS)
        events = cluster.churn(min(change.events, executors * _SLOTS_EACH // 4), change.ends)
        laps.take()
        batch_bytes = planner.take(events)
        plan_bytes = planner.plan()
        parts.append(laps.take())
        rows.append({"events": len(events), "batch_bytes": batch_bytes, "plan_bytes": plan_bytes})
    wrong = planner.complaints
    if planner.jobs != jobs:
        wrong.append(f"{planner.jobs} jobs are known, not {jobs}")
    if wrong:
        raise click.ClickException(f"the measurement of {policy} is not valid: {'; '.join(wrong)}")
    return {"policy": policy, "running": cluster.running, **figures(rows, parts)}


def figures(rows: list[dict[str, Any]], parts: list[dict[str, float]]) -> dict[str, Any]:
    """Medians of cycles; of ``ends`` the mean over all cycles, and the longest."""
    per = [1000.0 * each["events"] / row["events"] for each, row in zip(parts, rows, strict=True)]
    cycle = [each["cycle"] for each in parts]
    ends = [each.get("ends", 0.0) for each in parts]
    return {
        "events_ms_per_1000": median(per),
        "cycle_ms": median(cycle),
        "longest_cycle_ms": max(cycle),
        "mean_cycle_ms": sum(cycle) / len(cycle),
        "longest_ends_ms": max(ends),
        "mean_ends_ms": sum(ends) / len(ends),
        "parts_ms": {
            part: median(each.get(part, 0.0) for each in parts)
            for part in ("snapshot", "forecasts", "decide", "text")
        },
        "batch_bytes": median(row["batch_bytes"] for row in rows),
        "plan_bytes": median(row["plan_bytes"] for row in rows),
    }


@click.command(help=__doc__)
@click.option(
    "--policy", "policies", default=_POLICIES, help="Names, separated by commas.", show_default=True
)
@click.option("--jobs", default=1000, show_default=True)
@click.option("--executors", default=1000, help="Of 16 slots.", show_default=True)
@click.option("--cycles", default=16, show_default=True)
@click.option("--events", default=_EVENTS, help="Between two cycles.", show_default=True)
@click.option("--ends", default=2, help="Jobs that end between two cycles.", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--quick", is_flag=True, help="One policy, 60 jobs on 60 executors, four cycles.")
@click.option("--json", "json_output", is_flag=True, help="One JSON document on standard output.")
def main(
    policies: str,
    jobs: int,
    executors: int,
    cycles: int,
    events: int,
    ends: int,
    seed: int,
    quick: bool,
    json_output: bool,
) -> None:
    if quick:
        policies, jobs, executors, cycles = "reservation", 60, 60, 4
    # Imports and first calls cost more than cycles.
    change = Change(events, ends)
    measure("reservation", 20, 20, 2, seed, change)
    collector = gc.get_threshold()
    found = []
    for policy in policies.split(","):
        found.append(measure(policy, jobs, executors, cycles, seed, change))
        gc.unfreeze()
        gc.set_threshold(*collector)
    lines = []
    for each in found:
        parts = ", ".join(f"{part} {ms:.1f}" for part, ms in each["parts_ms"].items())
        lines.append(
            f"{each['policy']}: cycle {each['cycle_ms']:.0f} ms (longest {each['longest_cycle_ms']:.0f}, "
            f"mean {each['mean_cycle_ms']:.0f}), events {each['events_ms_per_1000']:.1f} ms per 1,000; "
            f"parts: {parts}, ends {each['mean_ends_ms']:.1f} on average; "
            f"plan {each['plan_bytes'] / 1e3:.0f} kB"
        )
    publish({"runs": cycles, "jobs": jobs, "executors": executors, "policies": found}, lines, json_output)


if __name__ == "__main__":
    main()
