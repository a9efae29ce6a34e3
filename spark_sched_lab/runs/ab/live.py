"""Runs of an A/B test on one real cluster: a warm application for each set of properties.

Arms that differ in marks only share an application. An application that is not measured is idle, so arms
share nothing but the machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from spark_sched.config import keys, validate
from spark_sched_lab.runs.ab.background import background_jobs
from spark_sched_lab.runs.ab.schedule import RunKey, run_seed
from spark_sched_lab.runs.ab.store import Record
from spark_sched_lab.runs.ab.suite import ALONE, Suite
from spark_sched_lab.runs.paired.application import ArmApplication, ArmError, Mark, at_once
from spark_sched_lab.runs.paired.arms import Arm
from spark_sched_lab.runs.paired.live import applications
from spark_sched_lab.runs.paired.properties import POOL
from spark_sched_lab.runs.workloads.background import BackgroundJob
from spark_sched_lab.runs.workloads.programs import PROGRAMS

_PLANNER_LIMIT_S = 300.0
_WARM_UP_JOBS = 6
_SLEEP = {p.name: p.default for p in PROGRAMS["sleep"].parameters} | {"sleepms": 50, "stages": 2}


class LiveRunner:
    """Runs on applications that are warm; `live_runner` starts and stops them."""

    def __init__(self, suite: Suite, applications: dict[tuple[object, ...], ArmApplication]) -> None:
        self._suite = suite
        self._applications = applications
        self._workloads = {job.label: job for job in suite.workloads}

    def run(self, key: RunKey) -> Record:
        """One run. Raises ArmError if its application fails."""
        suite = self._suite
        arm, seed = suite.arm(key.setting), run_seed(suite, key)
        job = self._workloads[key.workload]
        background = None
        if suite.background is not None and key.setting != ALONE:
            background = background_jobs(suite, seed)
        done = self._applications[arm.application].run(
            job.program.name,
            job.parameters,
            seed,
            mark=_mark(arm, key.workload),
            pool=POOL if arm.scheduler == "fair" else None,
            background=background,
        )
        counters = done.counters
        return Record(
            key.block,
            key.workload,
            key.setting,
            seed,
            jct_s=round(done.jct_s, 4),
            held_idle_slot_s=counters.get("held_idle_slot_ms", 0.0) / 1000,
            holds_expired=int(counters.get("holds_expired", 0)),
            copies_launched=int(counters.get("copies_launched", 0)),
            copies_won=int(counters.get("copies_won", 0)),
            copies_wasted_s=counters.get("copies_wasted_ms", 0.0) / 1000,
            background_jct_s=done.background_jct_s,
            background_makespan_s=done.background_makespan_s,
            values=done.values,
        )

    def warm_up(self, arm: Arm) -> None:
        """Run each workload unmeasured, and until the planner's plans are in force.

        A planner may take minutes to start on a busy machine, and until then its application runs by the
        configured order. Raises ArmError if it makes no plan.
        """
        application = self._applications[arm.application]
        application.wait_ready()
        mark = _mark(arm, "warm-up")
        for job in self._suite.workloads:
            for _ in range(self._suite.runs.warm_up):
                application.run(job.program.name, job.parameters, 0, mark=mark)
        if self._suite.background is not None:
            slots = self._suite.cluster.all_slots
            short = [BackgroundJob(n, 0.1 * n, (50,) * slots) for n in range(_WARM_UP_JOBS)]
            application.run("sleep", _SLEEP, 0, mark=mark, background=short)
        if arm.stock or not validate(dict(arm.properties))[keys.PLANNER_ENABLED]:
            return
        began_s = time.monotonic()
        while not application.run("sleep", _SLEEP, 0, mark=mark).counters.get("plans_accepted"):
            if time.monotonic() - began_s > _PLANNER_LIMIT_S:
                raise ArmError(f"the planner of {arm.name} made no plan within {_PLANNER_LIMIT_S:g} s")


@contextlib.contextmanager
def live_runner(
    suite: Suite, note: Callable[[str], None], master_url: str | None = None
) -> Iterator[LiveRunner]:
    """A cluster with its applications, warm, for as long as the block lasts; ``note`` receives progress
    messages.

    ``master_url``: of a cluster that runs already; None: one of this machine.
    Raises ArmError or ClusterError if something does not start.
    """
    with applications(suite.cluster, suite.arms, "spark_sched A/B", note, master_url) as running:
        runner = LiveRunner(suite, running)
        firsts = {arm.application: arm for arm in reversed(suite.arms)}
        at_once(runner.warm_up, firsts.values(), running.values())
        yield runner


def _mark(arm: Arm, workload: str) -> Mark | None:
    """One name per arm and workload: history learned from one arm's runs must not help another arm."""
    if arm.stock:
        return None
    return Mark(f"{workload} under {arm.name}", arm.priority, arm.isolation, arm.copies, arm.deadline_s)
