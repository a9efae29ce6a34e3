"""The speed of each executor relative to the others, from the tasks that it ran (SLearn §7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from spark_sched.predict.recent import Recent

#: Number of tasks of an executor from which on its speed is used.
_LEAST_TASKS = 10
#: Standard errors by which it must differ from the others: fewer than one in 10,000 equal executors does.
_SURE = 4.0
#: Share of an executor's record that a new task replaces in the long run.
_KEEPS = 0.999
#: Executors remembered: a stage that ends may report some that have been removed.
EXECUTORS_KEPT = 10_000


class _Record:
    __slots__ = ("squares", "total", "weight")

    def __init__(self) -> None:
        self.total = self.squares = self.weight = 0.0


class ExecutorSpeeds:
    """Learns from stages that ended: the ratio of a task's time to the average of its stage's tasks
    (geometric mean). Tasks of one stage do similar work, so in the long run the ratio depends on the executor
    only.

    Plans place tasks by speed. A stage that ran on fast executors alone has a low average, beside which these
    would seem average. So if one of a stage's executors surely differs, the average is taken of what the
    tasks would have taken on an average one of all executors that are known.
    """

    def __init__(self) -> None:
        self._records: Recent[str, _Record] = Recent(EXECUTORS_KEPT)
        self._differing: Mapping[str, float] = MappingProxyType({})  # as last shown
        self._gone: Recent[str, float] = Recent(EXECUTORS_KEPT)  # as shown last of those that differed
        self._changed = False  # since then

    def learn(self, tasks_ms: Mapping[int, int], ran_on: Mapping[int, str]) -> None:
        """Learn a stage that ended: durations and executors by task index."""
        known = [(ran_on[i], math.log(max(1, ms))) for i, ms in tasks_ms.items() if i in ran_on]
        if len({executor for executor, _ in known}) < 2:
            return
        self._changed = True
        effects = self._effects({executor for executor, _ in known})
        mean = sum(value - effects.get(executor, 0.0) for executor, value in known) / len(known)
        for executor, value in known:
            record = self._records.setdefault(executor, _Record())
            off = value - mean
            record.total = record.total * _KEEPS + off
            record.squares = record.squares * _KEEPS + off * off
            record.weight = record.weight * _KEEPS + 1.0

    def _effects(self, executors: set[str]) -> Mapping[str, float]:
        """Logarithms of slowness, less their average over all executors; none where no difference among
        these executors is sure: noise would last if they shared no stage any more."""
        if all(self.slowness(executor) == 1.0 for executor in executors):
            return {}
        believed = {e: r.total / r.weight for e, r in self._records.items() if r.weight >= _LEAST_TASKS}
        average = sum(believed.values()) / len(believed)
        return {executor: believed[executor] - average for executor in executors & believed.keys()}

    def slowness(self, executor: str) -> float:
        """A task's time there over its time on an average executor; 1 where no difference is sure."""
        record = self._records.get(executor)
        if record is None or record.weight < _LEAST_TASKS:
            return 1.0
        mean = record.total / record.weight
        variance = max(0.0, record.squares / record.weight - mean * mean)
        if abs(mean) <= _SURE * math.sqrt(variance / record.weight) + 1e-9:
            return 1.0
        return math.exp(mean)

    def differing(self) -> Mapping[str, float]:
        """`slowness` of the executors that surely differ from the average one, to two decimals. The same
        object until one of these changes: forecasts are made again for a new one.
        """
        if self._changed:
            self._changed = False
            slowness = {executor: round(self.slowness(executor), 2) for executor in self._records}
            found = {executor: each for executor, each in slowness.items() if each != 1.0}
            if found != self._differing:
                self._differing = MappingProxyType(found)
        return self._differing

    @property
    def all_alike(self) -> bool:
        """Whether `as_shown` is 1 for every executor."""
        return not self._differing and not self._gone

    def as_shown(self, executor: str) -> float:
        """The slowness that `differing` returned last; the tasks of a removed executor keep it."""
        return self._differing.get(executor, self._gone.get(executor, 1.0))

    def forget(self, executor: str) -> None:
        if self._records.pop(executor, None) is not None:
            self._changed = True
        if executor in self._differing:
            self._gone[executor] = self._differing[executor]
