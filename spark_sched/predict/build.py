"""Builds predictors by name from the application's settings, live and in the simulator."""

from __future__ import annotations

from spark_sched.config import Settings, keys
from spark_sched.errors import check_one_of
from spark_sched.predict.forecast import Predictor
from spark_sched.predict.runtimes.active import RuntimeHistory, RuntimeStore
from spark_sched.predict.runtimes.predictor import LIVE_VALUES_KEPT, ThreeSigmaPredict
from spark_sched.predict.stages.earlier_runs import EarlierRunStore
from spark_sched.predict.stages.history import StageHistory
from spark_sched.predict.tasks.history import TaskHistory
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched.predict.tasks.times import TaskTimeStore

#: What policies learn about jobs: nothing; stages from earlier runs of the same name; these and runtimes from
#: the history of all features (3Sigma); or, in the simulator only, the true values.
PREDICTORS = ("none", "history", "3sigma", "oracle")


def build_live(
    settings: Settings,
    *,
    task_times: bool,
    runs: EarlierRunStore | None,
    past: RuntimeStore | None,
    past_tasks: TaskTimeStore | None = None,
) -> tuple[Predictor, RuntimeHistory]:
    """The planner's predictor, and the part of it that predicts runtimes of jobs before their submission. It
    learns runtimes under every policy, so that the first run of 3Sigma finds a history. Task times, of which
    there are many more, it learns for policies that need them. What it learns under a name is the user's own:
    tenants choose names.

    Args:
        task_times: whether the policy needs task times.
        runs, past, past_tasks: stores of what earlier applications learned about stages, runtimes and task
            times; None: nothing is stored.
    """
    runtimes = RuntimeHistory(_stages(settings, runs, own_names=True), past, own_names=True)
    if task_times and past_tasks is not None:
        return TaskTimePredictor(runtimes, TaskHistory(store=past_tasks, own_names=True)), runtimes
    return with_task_times(runtimes, learns=True, own_names=True) if task_times else runtimes, runtimes


def build(name: str, settings: Settings, oracle: Predictor) -> Predictor | None:
    """One of `PREDICTORS`; None for ``none``. Raises BadInputError for another name."""
    if name == "none":
        return None
    if name == "oracle":
        return oracle
    check_one_of("predictor", name, PREDICTORS)
    stages = _stages(settings)
    return stages if name == "history" else RuntimeHistory(stages)


def with_task_times(others: Predictor | None, *, learns: bool, own_names: bool = False) -> TaskTimePredictor:
    """Adds task times to the forecasts of ``others``; if it ``learns``, it also keeps their history."""
    if isinstance(others, TaskTimePredictor):
        return others
    history = TaskHistory(ThreeSigmaPredict(LIVE_VALUES_KEPT), own_names=own_names) if learns else None
    return TaskTimePredictor(others, history)


def _stages(
    settings: Settings, runs: EarlierRunStore | None = None, *, own_names: bool = False
) -> StageHistory:
    return StageHistory(
        runs,
        own_names=own_names,
        prior_alpha=settings[keys.RESERVATION_ALPHA],
        prior_weight=settings[keys.RESERVATION_ALPHA_WEIGHT],
    )
