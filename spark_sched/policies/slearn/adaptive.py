"""How many of a job's tasks are pilots: SLearn's adaptive sampling (figure 3), step for step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

#: Ratios of the first, second and third T jobs, in percent (lines 2-7).
_FIRST = (3, 2, 4)
#: A step from 3 % that helps by this much is worth another one (lines 10 and 13).
_WORTH = 1.1


@dataclass(frozen=True, slots=True)
class AdaptiveRatio:
    """The sampling ratio with the lowest recent mean of normalised JCTs. Immutable: each step returns a new
    one.

    Attributes:
        window: T, the number of jobs that try a ratio at first, and on which its score is based.
        started: jobs that were given a ratio.
        scores: normalised JCTs by ratio in percent, the oldest first (jobWiseSrScoresMap).
    """

    window: int = 100
    started: int = 0
    scores: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    def percent(self) -> int:
        """GetCurrentSamplingPercentage: the ratio for the next job, 1 to 5 percent.

        If scores are equal, the smaller ratio wins. Without any score the ratio is 3 %.
        """
        stage = self.started // self.window
        if stage < len(_FIRST):
            return _FIRST[stage]
        means = {ratio: sum(values) / len(values) for ratio, values in self.scores.items() if values}
        if not means:
            return _FIRST[0]
        best = min(means, key=lambda ratio: (means[ratio], ratio))
        helped = 3 in means and _WORTH * means[best] < means[3]
        if best == 2 and helped:
            return 1
        if best == 4 and helped:
            return 5
        return best

    def next_job(self) -> AdaptiveRatio:
        """After a job took `percent`."""
        return replace(self, started=self.started + 1)

    def ended(self, percent: int, normalised_jct: float) -> AdaptiveRatio:
        """UpdateScoreOnJobCompletion: after a job of that ratio ended.

        Args:
            normalised_jct: its completion time over the slot time that its attempts had.
        """
        known = self.scores.get(percent, ())
        # Lines 21-23 drop one only when there are more than T, so that T + 1 are kept.
        kept = known[1:] if len(known) > self.window else known
        return replace(self, scores={**self.scores, percent: (*kept, normalised_jct)})

    def to_json(self) -> dict[str, Any]:
        """The state as JSON has it."""
        scores = {str(ratio): list(values) for ratio, values in self.scores.items()}
        return {"started": self.started, "scores": scores}

    def restored(self, state: Mapping[str, Any]) -> AdaptiveRatio:
        """With the state that `to_json` returned. Raises one of the errors of `LastingMemory` for another."""
        scores = {
            int(ratio): tuple(float(value) for value in values[-self.window - 1 :])
            for ratio, values in state["scores"].items()
        }
        if not set(scores) <= set(range(1, 6)) or not all(
            math.isfinite(v) for of in scores.values() for v in of
        ):
            raise ValueError("no scores of ratios")
        return replace(self, started=max(0, int(state["started"])), scores=scores)


def pilot_count(tasks: int, percent: float) -> int:
    """max(1, ratio · S), rounded (§4.3)."""
    return max(1, int(percent * tasks / 100.0 + 0.5))
