"""Where the tasks of a recorded application preferred to run, and what another place cost them.

A log has neither. Spark prefers, for each task: the executors that cache the nearest RDD of its lineage;
else the hosts of its input file's blocks; else the hosts that wrote a fifth or more of the map outputs it
reads. It logs a task that prefers nothing as ``PROCESS_LOCAL``, as one that ran where its input is cached.

* Where the log has the updates of blocks, cached blocks are known.
* Else the executor that first ran a task of a partition, in a stage whose lineage contains the cached RDD,
  stored the partition's block, unless the log contradicts it. A later task that ran ``PROCESS_LOCAL`` on
  another executor preferred nothing: it computed the block again, and stored it there. One that ran
  ``NODE_LOCAL`` or farther away was away from the block if a task found it there at another time, or if the
  RDD has no other preferred place.
* Otherwise a task that ran ``NODE_LOCAL`` prefers its host; if it reads map outputs, the hosts that wrote
  enough of them.
* Otherwise a task that ran farther away prefers hosts without executors if it did not wait. If it waited, it
  prefers other hosts that had no free slot; those where tasks of its stage ran ``NODE_LOCAL``, if there are.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from spark_sched_lab.traces.jobs import StageRecord
from spark_sched_lab.traces.tables import Machine
from spark_sched_lab.whatif.overheads import Occupancy
from spark_sched_lab.whatif.recorded import RecordedAttempt

#: A host that wrote this share of the map outputs is preferred (``REDUCER_PREF_LOCS_FRACTION``) …
_SHARE = 0.2
#: … unless there are this many map or reduce tasks.
_MANY = 1_000
#: Fewer tasks away from their blocks are too few for a measurement.
_LEAST = 3
#: Levels at which a task ran away from its host.
_FAR = ("RACK_LOCAL", "ANY")

_Block = tuple[int, int]


class Stage(Protocol):
    """A stage as it ran."""

    record: StageRecord
    attempts: list[RecordedAttempt]
    submit_ms: int


@dataclass(frozen=True, slots=True)
class TaskPlaces:
    """What the tasks of a stage prefer, by task, in order.

    Attributes:
        cached: executors that cache its input.
        near: executors of the hosts that it prefers.
        away: how many times as long a task runs elsewhere than on one that caches its input.
    """

    cached: tuple[frozenset[str], ...] = ()
    near: tuple[frozenset[str], ...] = ()
    away: float = 1.0


@dataclass(frozen=True, slots=True)
class Away:
    """What tasks away from their cached blocks cost.

    Attributes:
        cached: tasks whose input was cached.
        tasks: those of them that ran elsewhere, and whose time can be compared.
        factor: median of their times over times near the block; None: too few.
    """

    cached: int
    tasks: int
    factor: float | None


class _Stored(NamedTuple):
    at_ms: int
    executor: str


@dataclass(slots=True)
class _Blocks:
    """Where the log's stages stored a block, in order, and where tasks found it."""

    stored: list[_Stored] = field(default_factory=list)
    found_on: set[str] = field(default_factory=set)
    source_prefers: bool = False

    def at(self, now_ms: int) -> str | None:
        return next((stored.executor for stored in reversed(self.stored) if stored.at_ms <= now_ms), None)


class Places:
    """The preferences of all tasks of an application.

    Args:
        stages: those that ran tasks.
        executors: of the application.
        waits_ms: how long a task waits at least before it runs away from a preferred host.
    """

    def __init__(self, stages: Iterable[Stage], executors: Sequence[Machine], waits_ms: int) -> None:
        self._waits_ms = waits_ms
        self._host = {machine.machine: machine.host or machine.machine for machine in executors}
        self._on: dict[str, frozenset[str]] = {
            host: frozenset(name for name, at in self._host.items() if at == host)
            for host in set(self._host.values())
        }
        self._all = frozenset(self._host)
        self._stages = sorted(stages, key=lambda stage: stage.submit_ms)
        self._busy = self._occupancies(executors)
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._writers = self._hosts_of_outputs()
        self._blocks: dict[_Block, _Blocks] = defaultdict(_Blocks)
        self._found: dict[int, TaskPlaces] = {}
        self._data: dict[int, set[str]] = {}
        self._follow_blocks()
        wanted = {id(stage): [self._wanted(stage, a) for a in _first(stage)] for stage in self._stages}
        factors, self.away = _away(self._stages, {key: [c for c, _ in own] for key, own in wanted.items()})
        for stage in self._stages:
            pairs = wanted[id(stage)]
            cached, near = tuple(c for c, _ in pairs), tuple(n for _, n in pairs)
            # Where each task's places are all places, waiting for one of them means nothing.
            matters = any(cached) and len(self._all) > 1
            self._found[id(stage)] = TaskPlaces(
                cached if matters else (),
                near if matters or (len(self._on) > 1 and any(near)) else (),
                factors.get(stage.record.name, self.away.factor or 1.0),
            )

    def of(self, stage: Stage, executors: frozenset[str]) -> TaskPlaces:
        """The preferences of a stage's tasks, as far as they are among these executors."""
        found = self._found[id(stage)]
        among = {names: names & executors for names in {*found.cached, *found.near}}
        return replace(
            found,
            cached=tuple(among[names] for names in found.cached),
            near=tuple(among[names] for names in found.near),
        )

    def tied(self, stage: Stage) -> frozenset[int]:
        """The tasks that wait for one executor's slots."""
        tasks = (attempt.task for attempt in _first(stage))
        found = self._found[id(stage)].cached
        return frozenset(task for task, names in zip(tasks, found, strict=False) if names)

    # ---- cached blocks ----

    def _follow_blocks(self) -> None:
        for stage in self._stages:
            read = stage.record.input
            if read is None or not read.cached:
                continue
            for attempt in stage.attempts:
                partition = read.partition_of(attempt.task)
                if partition is None or not attempt.finished:
                    continue
                for rdd in read.cached:
                    blocks = self._blocks[rdd, partition]
                    at = blocks.at(stage.submit_ms)
                    if at is None or at not in self._host:
                        if not blocks.stored:
                            blocks.source_prefers = attempt.locality != "PROCESS_LOCAL"
                        blocks.stored.append(_Stored(attempt.end_ms, attempt.executor))
                        continue  # computed from the next cached RDD of its lineage
                    if attempt.locality == "PROCESS_LOCAL":
                        if attempt.executor == at:
                            blocks.found_on.add(at)
                        else:
                            blocks.stored.append(_Stored(attempt.end_ms, attempt.executor))
                    break

    def _wanted(self, stage: Stage, attempt: RecordedAttempt) -> tuple[frozenset[str], frozenset[str]]:
        """The executors that cache the input of the task, and those of the hosts that it prefers."""
        at = self._cached_on(stage, attempt)
        if at:
            near = frozenset().union(*(self._on[self._host[executor]] for executor in at))
        else:
            near = self._near(stage, attempt)
        # Many tasks have equal sets: one of each is kept.
        return self._sets.setdefault(at, at), self._sets.setdefault(near, near)

    def _cached_on(self, stage: Stage, attempt: RecordedAttempt) -> frozenset[str]:
        read = stage.record.input
        partition = None if read is None else read.partition_of(attempt.task)
        if read is None or partition is None:
            return frozenset()
        if read.blocks is not None:
            return read.blocks.get(partition, frozenset()) & self._all
        for rdd in read.cached:
            blocks = self._blocks.get((rdd, partition))
            at = None if blocks is None else blocks.at(stage.submit_ms)
            if blocks is None or at is None or at not in self._host:
                continue
            here = attempt.executor == at
            if attempt.locality == "PROCESS_LOCAL":
                return frozenset({at}) if here else frozenset()
            same_host = self._host[attempt.executor] == self._host[at]
            sure = at in blocks.found_on or not blocks.source_prefers
            fits = same_host and not here if attempt.locality == "NODE_LOCAL" else not same_host
            return frozenset({at}) if sure and fits else frozenset()
        return frozenset()

    # ---- hosts ----

    def _occupancies(self, executors: Sequence[Machine]) -> dict[str, Occupancy]:
        attempts: dict[str, list[RecordedAttempt]] = defaultdict(list)
        machines: dict[str, list[Machine]] = defaultdict(list)
        for machine in executors:
            machines[self._host[machine.machine]].append(machine)
        for stage in self._stages:
            for attempt in stage.attempts:
                attempts[self._host[attempt.executor]].append(attempt)
        return {host: Occupancy(attempts[host], machines[host], 0.0) for host in self._on}

    def _hosts_of_outputs(self) -> dict[int, Counter[str]]:
        """By number of a stage, how many of its tasks ended last on which host."""
        found: dict[int, Counter[str]] = {}
        for stage in self._stages:
            number = int((stage.record.source_id or "-1").partition(".")[0])
            last = {a.task: self._host[a.executor] for a in stage.attempts if a.finished}
            found.setdefault(number, Counter()).update(last.values())
        return found

    def _near(self, stage: Stage, attempt: RecordedAttempt) -> frozenset[str]:
        host, locality = self._host[attempt.executor], attempt.locality
        if locality != "NODE_LOCAL" and locality not in _FAR:
            return frozenset()
        if locality == "NODE_LOCAL":
            writers = self._writing(stage)
            hosts = writers if host in writers else {host}
        elif attempt.start_ms - stage.submit_ms < self._waits_ms:
            hosts = set()
        else:
            at_ms = attempt.start_ms
            busy = {h for h in self._on if h != host and self._busy[h].full_before(at_ms)}
            hosts = busy & self._near_hosts(stage) or busy
        return frozenset().union(*(self._on[each] for each in hosts))

    def _near_hosts(self, stage: Stage) -> set[str]:
        """The hosts where tasks of the stage ran NODE_LOCAL."""
        found = self._data.get(id(stage))
        if found is None:
            near = (a.executor for a in stage.attempts if a.locality == "NODE_LOCAL")
            found = self._data[id(stage)] = {self._host[executor] for executor in near}
        return found

    def _writing(self, stage: Stage) -> set[str]:
        """The hosts that tasks prefer which read the outputs of other stages."""
        read = stage.record.input
        if read is None or read.cached or (stage.record.tasks or 0) >= _MANY:
            return set()
        found: set[str] = set()
        for number in read.shuffles_of:
            writers = self._writers.get(number, Counter())
            if writers.total() < _MANY:
                found |= {host for host, tasks in writers.items() if tasks >= _SHARE * writers.total()}
        return found


def _first(stage: Stage) -> list[RecordedAttempt]:
    """By task, in order, the attempt whose place tells what the task prefers: the last that is no copy."""
    found: dict[int, RecordedAttempt] = {}
    for attempt in stage.attempts:
        if attempt.task not in found or not attempt.copy:
            found[attempt.task] = attempt
    return [found[task] for task in sorted(found)]


def _away(
    stages: Sequence[Stage], cached: Mapping[int, Sequence[frozenset[str]]]
) -> tuple[dict[str | None, float], Away]:
    """By name of a stage, how many times as long its tasks ran away from their cached blocks; and for all.

    A task's time is compared with those of tasks near the same block. A busy machine slows all tasks of a
    stage: the same ratio of the stage's tasks near their blocks is what it is compared with.
    """
    near: dict[tuple[str | None, tuple[int, ...], int], list[int]] = defaultdict(list)
    times: list[tuple[Stage, tuple[str | None, tuple[int, ...], int], int, bool]] = []
    for stage in stages:
        read = stage.record.input
        for attempt, on in zip(_first(stage), cached[id(stage)], strict=True):
            partition = None if read is None else read.partition_of(attempt.task)
            if read is None or partition is None or not on or not attempt.finished:
                continue
            took_ms = max(1, attempt.end_ms - attempt.start_ms)
            key = (stage.record.name, read.cached, partition)
            times.append((stage, key, took_ms, attempt.executor in on))
            if attempt.executor in on:
                near[key].append(took_ms)
    usual_ms = {key: statistics.median(own) for key, own in near.items()}
    slowed: dict[int, list[float]] = defaultdict(list)
    for stage, key, took_ms, is_near in times:
        if is_near:
            slowed[id(stage)].append(took_ms / usual_ms[key])
    ratios: dict[str | None, list[float]] = defaultdict(list)
    for stage, key, took_ms, is_near in times:
        if not is_near and key in usual_ms:
            busy = statistics.median(slowed.get(id(stage)) or [1.0])
            ratios[stage.record.name].append(took_ms / usual_ms[key] / busy)
    every = [ratio for own in ratios.values() for ratio in own]
    factors = {name: statistics.median(own) for name, own in ratios.items() if len(own) >= _LEAST}
    factor = statistics.median(every) if len(every) >= _LEAST else None
    return factors, Away(len(times), len(every), factor)
