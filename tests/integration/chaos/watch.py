"""Looks at the status document again and again: at each look it must be valid and consistent.

A look is one moment of the driver's records, but for figures beside them such as the mode. So what depends on
these must be seen in two looks in a row.
"""

from __future__ import annotations

import json
import re
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from pyspark import SparkContext

EVERY_S = 1.0
#: Looks in a row at which nothing of a job has moved and after which a rule must explain idle slots beside
#: its waiting tasks.
REST_LOOKS = 7
#: Of a kind: what is wrong may be so for minutes.
MOST_SENTENCES = 20
#: What the look adds to the longest pause in which slots stay held.
TOLERANCE_S = 5.0
#: How counters end that say what is, or would be in shadow mode, and not how often.
_GAUGES = ("slots_held_now", "planner_pid", "jobs_unstored")
_SCHEMA = Path(__file__).parents[3] / "protocol" / "status.schema.json"
_STALLED = re.compile(r"The planner \(pid (\d+)\) has been silent")


class Watch:
    """A thread that looks about once a second."""

    def __init__(self, sc: SparkContext, looks: Looks) -> None:
        self._sc, self._looks = sc, looks
        self._over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True, name="watch")

    def stop(self) -> None:
        self._over.set()
        self.thread.join()

    def _run(self) -> None:
        entry: Any = self._sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched
        while not self._over.wait(EVERY_S):
            try:
                document = json.loads(entry.status(self._sc._jsc.sc()))
                self._looks.look(document, time.monotonic())
            except Exception:
                self._looks.found(f"the status cannot be looked at: {traceback.format_exc()}")


class Looks:
    """What many status documents, one after the other, say that must not be so.

    Args:
        gangs: keys of jobs with barrier stages.
        decommissioned: executors that take no further tasks.
        gap_s: longest time that slots stay held between two actions.

    Attributes:
        count: how many there were.
        broken: sentences on what was not as it must be.
        idle: sentences on slots that idle beside tasks that wait, where no rule says why.
        last: the last document.
    """

    def __init__(self, gangs: Set[str], decommissioned: Set[str], gap_s: float) -> None:
        self._gangs, self._decommissioned, self._gap_s = gangs, decommissioned, gap_s
        self._validator = Draft202012Validator(json.loads(_SCHEMA.read_text()))
        self._counted: dict[str, int] = {}
        self._rest: dict[str, tuple[object, int]] = {}
        self._before: set[str] = set()
        self._idle_since_s: dict[str, float] = {}
        self.count = 0
        self.broken: list[str] = []
        self.idle: list[str] = []
        self.last: Any = None

    def found(self, sentence: str) -> None:
        if sentence not in self.broken and len(self.broken) < MOST_SENTENCES:
            self.broken.append(sentence)

    def look(self, document: Any, now_s: float) -> None:
        """``now_s``: of any clock that goes on."""
        self.count += 1
        self.last = document
        for error in self._validator.iter_errors(document):
            self.found(f"look {self.count}: the status is not valid at {error.json_path}: {error.message}")
        for sentence in _executors(document):
            self.found(f"look {self.count}: {sentence}")
        self._counters(document["counters"])
        over = set(self._limits(document, now_s))
        for sentence in over & self._before:
            self.found(sentence)
        self._before = over
        for sentence in self._unexplained(document):
            if len(self.idle) < MOST_SENTENCES:
                self.idle.append(f"look {self.count}: {sentence}")

    def _counters(self, counted: dict[str, int]) -> None:
        for name, count in counted.items():
            if not name.endswith(_GAUGES) and count < self._counted.get(name, 0):
                self.found(f"{name} was {self._counted[name]} and is {count}")
        self._counted = counted

    def _limits(self, document: Any, now_s: float) -> Iterator[str]:
        """Jobs that hold slots although they may not, or for longer than between two actions."""
        idle = {job["job"] for job in document["jobs"] if job["state"] == "idle" and job["slots"]["held"] > 0}
        self._idle_since_s = {job: self._idle_since_s.get(job, now_s) for job in idle}
        if document["mode"] != "on":
            return  # Holds are on paper only.
        for job in document["jobs"]:
            if job["slots"]["held"] == 0:
                continue
            what = f"{job['job']} ({job['name']}) holds slots"
            if document["reservations_paused"]:
                yield f"{what} although reservations are paused"
            if job["state"] in ("on_hold", "ended") or job["isolation"] == 0:
                yield f"{what} in state {job['state']} at isolation {job['isolation']}"
            if now_s - self._idle_since_s.get(job["job"], now_s) > self._gap_s + TOLERANCE_S:
                yield f"{what} and has been idle for longer than the gap of {self._gap_s:g} s"

    def _unexplained(self, document: Any) -> Iterator[str]:
        """Free slots that nobody holds beside tasks that wait and that neither the plan nor an operator keeps
        from them."""
        free = sum(
            each["slots"] - each["running"] - sum(held["slots"] for held in each["held"])
            for each in document["executors"]
            if each["executor"] not in self._decommissioned
        )
        rest = {}
        for job in document["jobs"]:
            waiting = job["slots"]["waiting"] - job["slots"]["deferred"]
            # A barrier stage takes all its slots at once.
            least = waiting if job["job"] in self._gangs else 1
            if document["mode"] == "on" and job["state"] != "on_hold" and waiting > 0 and free >= least:
                stages = tuple(each["stage"] for each in job["stages"])
                moved = (job["tasks_done"], job["slots"]["running"], stages)
                before, looks = self._rest.get(job["job"], (moved, 0))
                rest[job["job"]] = (moved, looks + 1 if before == moved else 1)
        self._rest = rest
        for key, (_, looks) in rest.items():
            if looks >= REST_LOOKS:
                yield f"{free} slots are free and not held beside {key}: {_about(document, key)}"


def _about(document: Any, key: str) -> str:
    """All that tells why a job waits, with this job first."""
    told = ("job", "name", "state", "reason", "priority", "slots")
    jobs = [{name: each[name] for name in told} for each in document["jobs"]]
    jobs.sort(key=lambda each: each["job"] != key)
    return json.dumps({"plan": document["plan"], "executors": document["executors"], "jobs": jobs})


def _executors(document: Any) -> Iterator[str]:
    """What the slots of executors, jobs and the application contradict."""
    held_by: Counter[str] = Counter()
    for each in document["executors"]:
        held = sum(one["slots"] for one in each["held"])
        held_by.update({one["job"]: one["slots"] for one in each["held"]})
        if each["running"] + held > each["slots"]:
            used = f"{each['running']} in use and {held} held"
            yield f"executor {each['executor']} has {each['slots']} slots, {used}"
    for job in document["jobs"]:
        if held_by.pop(job["job"], 0) != job["slots"]["held"]:
            yield f"job {job['job']} holds {job['slots']['held']} slots, and its executors say otherwise"
    if held_by:
        yield f"slots are held for {dict(held_by)}, which are no jobs"


def stalls_counted_twice(log: str, counted: int) -> list[str]:
    """Sentences on planners that stalled once and were counted or logged more often."""
    times = Counter(_STALLED.findall(log))
    found = [f"planner {pid} was said to stall {count} times" for pid, count in times.items() if count > 1]
    if log and counted != len(times):
        found.append(f"{len(times)} planners stalled and {counted} stalls were counted")
    return found
