"""The probability that history no longer holds for a recurring job: each run raises it; pilots test it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from spark_sched.predict.tasks.bayes import surprised
from spark_sched.predict.tasks.expectation import StageExpectation

#: A recurring job: whose, and its name.
Recurs: TypeAlias = tuple[str | None, str | None]

#: Probability that history does not hold for a recurring job that has not run pilots yet. The history was
#: learned from the job's own runs, so it cannot serve as a test.
_AT_FIRST = 0.1
#: Probability that it ceases to hold from one run to the next.
_CHANGES = 0.005
#: Bounds that keep a job's doubt from reaching 0 or 1, where evidence could not change it.
_LEAST, _MOST = 0.002, 0.98
#: Recurring jobs that are remembered, the latest ones.
_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Doubts:
    """The probability that history does not hold, by recurring job. This is a hidden state that pilots
    observe and that changes between two runs with a constant probability. Immutable: each step returns a new
    value.

    A doubt above 1/20 requires pilots (`BayesSizing`). So one pilot checks a job's history the first time,
    and about every tenth time after a check that history passed.
    """

    known: Mapping[Recurs, float] = field(default_factory=dict)

    def of(self, recurs: Recurs) -> float:
        """The doubt about such a job's history."""
        return self.known.get(recurs, _AT_FIRST)

    def came(self, recurs: Recurs) -> Doubts:
        """A run of the job was submitted: its history may have ceased to hold since the last run."""
        before = self.of(recurs)
        return self._with(recurs, before + (1.0 - before) * _CHANGES)

    def checked(self, recurs: Recurs, expected: StageExpectation, pilots_ms: Sequence[float]) -> Doubts:
        """Its pilots ended: apply Bayes' rule. Without a forecast from history the doubt stays the same."""
        if not pilots_ms or expected.calibrated is None or expected.spread is None:
            return self
        seconds = [ms / 1000.0 for ms in pilots_ms]
        doubt = surprised(expected.calibrated, expected.spread, seconds, self.of(recurs))
        return self._with(recurs, min(_MOST, max(_LEAST, doubt)))

    def _with(self, recurs: Recurs, doubt: float) -> Doubts:
        known = {key: value for key, value in self.known.items() if key != recurs}
        known[recurs] = doubt
        return replace(self, known=dict(islice(known.items(), max(0, len(known) - _KEPT), None)))

    def to_json(self) -> list[list[Any]]:
        """The state as JSON has it, the latest job last."""
        return [[user, name, doubt] for (user, name), doubt in self.known.items()]

    def restored(self, state: Sequence[Sequence[Any]]) -> Doubts:
        """With the state that `to_json` returned. Raises ValueError or TypeError for another one."""
        known = {(user, name): min(_MOST, max(_LEAST, float(doubt))) for user, name, doubt in state[-_KEPT:]}
        return replace(self, known=known)
