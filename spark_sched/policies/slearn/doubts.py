"""Whether history still holds for a recurring job: checked by its pilots, doubted again as time goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from spark_sched.predict.tasks.bayes import surprised
from spark_sched.predict.tasks.pilots import StageExpectation

__all__ = ["Doubts", "Recurs"]

#: A recurring job: whose, and its name.
Recurs: TypeAlias = tuple[str | None, str | None]

#: Chance that history does not hold for a recurring job whose pilots nobody has seen yet. History so far is
#: what it was made of, so it cannot tell.
_AT_FIRST = 0.1
#: Chance that it ceases to hold from one run to the next.
_CHANGES = 0.005
#: Nobody is believed or doubted for good.
_LEAST, _MOST = 0.002, 0.98
#: Recurring jobs that are remembered, the latest ones.
_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Doubts:
    """The chance that history does not hold, by recurring job: a hidden state that pilots tell of, with a
    change between any two runs that is as probable as the next. Immutable: each step gives a new one.

    With a twentieth that is too much to do without pilots (`BayesSizing`) a job's history is checked by one
    pilot the first time, and every tenth time or so after it held.
    """

    known: Mapping[Recurs, float] = field(default_factory=dict)

    def of(self, recurs: Recurs) -> float:
        """The doubt about such a job's history."""
        return self.known.get(recurs, _AT_FIRST)

    def came(self, recurs: Recurs) -> Doubts:
        """Such a job came: what held for the last one may have changed."""
        before = self.of(recurs)
        return self._with(recurs, before + (1.0 - before) * _CHANGES)

    def checked(self, recurs: Recurs, expected: StageExpectation, pilots_ms: Sequence[float]) -> Doubts:
        """Its pilots ended: Bayes' rule. Where history said nothing nothing is learned."""
        if not pilots_ms or expected.calibrated is None or expected.spread is None:
            return self
        seconds = [ms / 1000.0 for ms in pilots_ms]
        doubt = surprised(expected.calibrated, expected.spread, seconds, self.of(recurs))
        return self._with(recurs, min(_MOST, max(_LEAST, doubt)))

    def _with(self, recurs: Recurs, doubt: float) -> Doubts:
        known = {key: value for key, value in self.known.items() if key != recurs}
        known[recurs] = doubt
        return replace(self, known=dict(islice(known.items(), max(0, len(known) - _KEPT), None)))
