"""What history predicts for one stage of a job."""

from __future__ import annotations

from dataclasses import dataclass

from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.tasks.bayes import USUAL_DOUBT


@dataclass(frozen=True, slots=True)
class StageExpectation:
    """What history predicts for one stage of a job before any of its tasks has ended.

    Attributes:
        tasks: how many it has or is expected to have.
        task_s: its mean task time over runs like this one, in seconds; None: nothing is known.
        spread: standard deviation of the logarithm of task times within one run; None: nothing is known.
        spread_log_sd: how far such stages differ in ``spread``: standard deviation of its logarithm.
        source: for people.
        calibrated: ``task_s`` corrected by the accuracy of earlier predictions of this kind.
        doubt: probability that this run is unlike all earlier ones: new code, other data.
        alike: exponent that relates history's error factor on the job's sampled stage to its error factor on
            this stage: 1 as in SLearn-DAG, 0 if one error does not predict the other.
    """

    tasks: int
    task_s: RuntimeDistribution | None = None
    spread: float | None = None
    source: str = "none"
    calibrated: RuntimeDistribution | None = None
    doubt: float = USUAL_DOUBT
    alike: float = 1.0
    spread_log_sd: float = 0.0
