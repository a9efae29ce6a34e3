"""Faults: processes killed and stopped, an operator's changes, garbage on ports, a history that is locked.

Which faults come when is drawn in advance. Which process or job one meets is drawn from those that are there
then.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import signal
import sqlite3
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spark_sched
from spark_sched.errors import BadInputError
from tests.integration.chaos import garbage
from tests.integration.chaos.tenants import Shared
from tests.integration.processes import descendants_running
from tests.integration.scenarios import counters

#: How often each kind comes in one deal. The audit's run had 88 faults in eight minutes.
DEAL = {
    "planner killed": 4, "planner stopped": 3, "planner paused": 2,
    "executor killed": 4, "executor paused": 3, "executor stopped": 1, "executor decommissioned": 1,
    "worker killed": 3, "hold": 4, "set": 5, "pause": 2, "policy": 2, "mode": 2, "cancel": 2, "end": 1,
    "garbage to the bridge": 2, "garbage to the UI": 2, "garbage to steering": 3, "history locked": 1,
}  # fmt: skip
#: One of each for a short run, which every part of the product notices.
SHORT_DEAL = (
    "planner killed", "executor killed", "worker killed", "hold", "set", "pause", "garbage to the bridge",
    "garbage to the UI", "garbage to steering", "planner paused",
)  # fmt: skip
PER_SECOND = 88 / 480
OTHER_POLICIES = ("fair", "prio", "reservation", "3sigma", "slearn", "priority-evictions")
#: How long one waits for a process or a job that it can meet.
PATIENCE_S = 10.0
#: How long it may take to take one back: an operator asks again while a planner starts.
TAKEN_BACK_S = 300.0

Undo = Callable[[], bool]


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        at_s: when it comes, from the beginning.
        length_s: for how long it stays, where it does.
        choice: a number in [0, 1) that chooses whom it meets.
    """

    at_s: float
    kind: str
    length_s: float
    choice: float


def drawn(seed: int, seconds: float, short: bool) -> list[Fault]:
    """The faults of a run of this length, in the order of their times."""
    draw = random.Random(seed)
    count = len(SHORT_DEAL) if short else max(1, round(seconds * PER_SECOND))
    kinds: list[str] = []
    while len(kinds) < count:
        deal = [*SHORT_DEAL] if short else [kind for kind, times in DEAL.items() for _ in range(times)]
        draw.shuffle(deal)
        kinds += deal
    step_s = seconds / count
    return [
        Fault((number + draw.random()) * step_s, kind, draw.uniform(1.0, 4.0), draw.random())
        for number, kind in enumerate(kinds[:count])
    ]


class Faults:
    """Makes the faults, in a thread of its own, and takes those back that stay.

    Attributes:
        log: one line for each fault and each thing taken back, with the seconds since the beginning.
        done: how many of each kind met something.
        problems: what was answered in a way that no rule allows.
        decommissioned: executors that take no further tasks.
    """

    def __init__(self, shared: Shared, planned: list[Fault], history: Path, policy: str) -> None:
        self._shared, self._spark, self._sc = shared, shared.spark, shared.spark.sparkContext
        self._history, self._policy = history, policy
        gateway: Any = self._sc._gateway
        self._jvm_pid: int = gateway.proc.pid
        self._begun_s = time.monotonic()
        self._order = itertools.count()
        self._due: list[tuple[float, int, str, Callable[[], bool], float]] = []
        self.log: list[str] = []
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self.decommissioned: set[str] = set()
        for fault in planned:
            self._at(fault.at_s, fault.kind, lambda fault=fault: self._meet(fault))
        self.thread = threading.Thread(target=self._run, daemon=True, name="faults")

    def _at(self, at_s: float, what: str, act: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), what, act, at_s + patience_s))

    def _since_s(self) -> float:
        return time.monotonic() - self._begun_s

    def _say(self, what: str) -> None:
        self.log.append(f"{self._since_s():7.2f} s  {what}")

    def _run(self) -> None:
        while self._due:
            at_s, _, what, act, until_s = heapq.heappop(self._due)
            time.sleep(max(0.0, at_s - self._since_s()))
            try:
                met = act()
            except Exception:
                self.problems.append(f"{what}: {traceback.format_exc()}")
                self._say(f"{what}: failed")
                continue
            if not met and self._since_s() < until_s:
                self._at(self._since_s() + 0.5, what, act, until_s - self._since_s() - 0.5)
            elif not met and what in DEAL:
                self._say(f"{what}: met nothing")
            elif not met:
                self.problems.append(f"could not be done in {TAKEN_BACK_S:g} s: {what}")

    def _meet(self, fault: Fault) -> bool:
        name, _, rest = fault.kind.partition(" ")
        act = {
            "planner": self._planner, "executor": self._executor, "worker": self._worker,
            "garbage": self._garbage, "history": self._lock_history,
        }.get(name, self._steer)  # fmt: skip
        met = act(fault, rest)
        if met:
            self.done[fault.kind] += 1
            self._say(f"{fault.kind}: {met}")
        return bool(met)

    def _taken_back(self, after_s: float, what: str, undo: Undo) -> None:
        def act() -> bool:
            done = undo()
            if done:
                self._say(what)
            return done

        self._at(self._since_s() + after_s, what, act, TAKEN_BACK_S)

    # ---- processes ----

    def _planner(self, fault: Fault, how: str) -> str:
        pid = counters(self._sc)["planner_pid"]
        return f"process {pid}" if pid > 0 and self._signal(pid, fault, how) else ""

    def _executor(self, fault: Fault, how: str) -> str:
        if how == "decommissioned":
            return self._decommission(fault)
        pid = chosen(descendants_running(self._jvm_pid, "CoarseGrainedExecutorBackend"), fault)
        return f"process {pid}" if pid is not None and self._signal(pid, fault, how) else ""

    def _worker(self, fault: Fault, how: str) -> str:
        """A Python worker, or the daemon that makes them."""
        executors = descendants_running(self._jvm_pid, "CoarseGrainedExecutorBackend")
        workers = {pid for executor in executors for pid in descendants_running(executor, "daemon")}
        pid = chosen(sorted(workers - {*executors}), fault)
        return f"process {pid}" if pid is not None and self._signal(pid, fault, how) else ""

    def _signal(self, pid: int, fault: Fault, how: str) -> bool:
        try:
            os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        except ProcessLookupError:
            return False
        if how != "killed":
            # Stopped for longer than anybody waits for it, or for less than that.
            length_s = 30.0 if how == "stopped" else fault.length_s
            self._taken_back(length_s, f"process {pid} goes on, if it is still there", lambda: go_on(pid))
        return True

    def _decommission(self, fault: Fault) -> str:
        backend: Any = self._sc._jsc.sc().schedulerBackend()
        found = backend.getExecutorIds()
        names = sorted(found.apply(n) for n in range(found.size()))
        name = chosen(names, fault)
        if name is None or len(names) < 2:
            return ""
        jvm: Any = self._sc._jvm
        why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("on purpose", jvm.scala.Option.empty())
        self.decommissioned.add(name)
        backend.decommissionExecutor(name, why, False, False)
        return f"executor {name}"

    # ---- an operator ----

    def _steer(self, fault: Fault, _: str) -> str:
        steer, spark = spark_sched.steer, self._spark
        if fault.kind == "pause":
            self._taken_back(fault.length_s, "unpaused", lambda: bool(steer.unpause(spark)))
            return steer.pause(spark)
        if fault.kind == "mode":
            self._taken_back(fault.length_s, "the mode is on", lambda: bool(steer.mode(spark, "on")))
            return steer.mode(spark, "off" if fault.choice < 0.5 else "shadow")
        if fault.kind == "policy":
            name = chosen([name for name in OTHER_POLICIES if name != self._policy], fault)
            done = refusable(lambda: steer.policy(spark, name))
            if done:
                self._taken_back(2.0 * fault.length_s, f"the policy is {self._policy}", self._first_policy)
            return done
        return self._steer_job(fault)

    def _steer_job(self, fault: Fault) -> str:
        steer, spark, shared = spark_sched.steer, self._spark, self._shared
        with shared.lock:
            marked = sorted(shared.running)
        if fault.kind in ("cancel", "end"):
            key = chosen(marked, fault)
            if key is None:
                return ""
            noted, change = (
                (shared.cancelled, steer.cancel) if fault.kind == "cancel" else (shared.ended, steer.end)
            )
            # Before the change: its owner may see what comes of it at once.
            before = key in noted
            noted.add(key)
            done = refusable(lambda: change(spark, key))
            if not done and not before:
                noted.discard(key)
            return done
        key = chosen([job.job for job in spark_sched.status(spark).jobs if job.state != "ended"], fault)
        if key is None:
            return ""
        if fault.kind == "hold":
            done = refusable(lambda: steer.hold(spark, key))
            if done:
                self._taken_back(fault.length_s, f"job {key} is resumed", lambda: self._resumed(key))
            return done
        changes: list[dict[str, Any]] = [
            {"priority": int(8 * fault.choice)},
            {"isolation": round(fault.choice, 2)},
            {"deadline": 60.0 * fault.length_s},
            {"isolation": "default", "deadline": "none"},
        ]
        marks = changes[int(1_000 * fault.choice) % len(changes)]
        return refusable(lambda: steer.change(spark, key, **marks))

    def _first_policy(self) -> bool:
        return bool(refusable(lambda: spark_sched.steer.policy(self._spark, self._policy)))

    def _resumed(self, key: str) -> bool:
        """Refused if the job is over: then there is nothing to take back, either."""
        refusable(lambda: spark_sched.steer.resume(self._spark, key))
        return True

    # ---- ports and files ----

    def _garbage(self, fault: Fault, to: str) -> str:
        if to == "to the bridge":
            pid = counters(self._sc)["planner_pid"]
            port = garbage.port_that_is_called(pid) if pid > 0 else None
            return "" if port is None else garbage.to_bridge(port, random.Random(fault.choice))
        url = self._sc.uiWebUrl
        assert url is not None
        if to == "to the UI":
            return garbage.to_ui(url, random.Random(fault.choice))
        said, problems = garbage.to_steering(url)
        self.problems += problems
        return said

    def _lock_history(self, fault: Fault, _: str) -> str:
        """Another client writes to the history for a while."""
        if not self._history.exists():
            return ""
        other = sqlite3.connect(self._history, timeout=5.0, check_same_thread=False, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            other.close()
            return ""

        def unlock() -> bool:
            other.rollback()
            other.close()
            return True

        # Longer than the planner waits for a lock.
        length_s = 2.0 + fault.length_s
        self._taken_back(length_s, "the history is unlocked", unlock)
        return f"for {length_s:.1f} s"


def chosen(among: list[Any], fault: Fault) -> Any:
    return among[int(fault.choice * len(among))] if among else None


def refusable(change: Callable[[], str]) -> str:
    """What was changed; empty if it was refused: a job may be over, and a planner may be starting."""
    try:
        return change()
    except BadInputError:
        return ""


def go_on(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    return True
