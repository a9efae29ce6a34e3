"""SLearn and the schedulers that it is compared with: GS with different size estimates (§5.1.3)."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.slearn.gs import THIN_LIMIT, GenericScheduler
from spark_sched.policies.slearn.sizing import BayesSizing, HistorySizing, PilotSizing
from spark_sched.predict.runtimes.points import inverse_square_s, median_s


class SLearnPolicy(GenericScheduler):
    """Sized by pilots; thin jobs first."""

    def __init__(
        self, settings: PolicySettings, *, fixed_percent: float | None = None, thin_limit: int = THIN_LIMIT
    ) -> None:
        sizing = PilotSizing(inverse_square_s)
        super().__init__(settings, sizing, name="slearn", thin_limit=thin_limit, fixed_percent=fixed_percent)


class BayesPolicy(GenericScheduler):
    """Sized by history and pilots together, with history checked now and then; thin jobs are sized by history
    if it is reliable."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(
            settings,
            BayesSizing(),
            name="slearn-bayes",
            thin_limit=THIN_LIMIT,
            thin_by_history=True,
            doubts=True,
        )


class ThreeSigmaGsPolicy(GenericScheduler):
    """Sized by 3Sigma's history with the utility 1/t²."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, HistorySizing(inverse_square_s), name="3sigma-gs")


class ThreeSigmaTlPolicy(GenericScheduler):
    """The same with thin jobs first."""

    def __init__(self, settings: PolicySettings) -> None:
        sizing = HistorySizing(inverse_square_s)
        super().__init__(settings, sizing, name="3sigma-tl", thin_limit=THIN_LIMIT)


class PointEstPolicy(GenericScheduler):
    """Sized by the median of history."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, HistorySizing(median_s), name="point-est")


class GsOraclePolicy(GenericScheduler):
    """Sized by the true size under the simulator's ``predictor = "oracle"``; else by history's median."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, HistorySizing(median_s), name="gs-oracle")
