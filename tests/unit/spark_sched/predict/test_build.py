"""One wiring of predictors, for the planner and for the simulator."""

from __future__ import annotations

import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.predict import RuntimeHistory, StageHistory
from spark_sched.predict.build import build, build_live, with_task_times
from spark_sched.predict.tasks.pilots import TaskTimePredictor

SETTINGS = validate({})
ORACLE = StageHistory()  # any predictor


def test_each_name_has_its_predictor():
    assert build("none", SETTINGS, ORACLE) is None
    assert isinstance(build("history", SETTINGS, ORACLE), StageHistory)
    assert isinstance(build("3sigma", SETTINGS, ORACLE), RuntimeHistory)
    assert build("oracle", SETTINGS, ORACLE) is ORACLE


def test_an_unknown_name_is_refused_with_a_hint():
    with pytest.raises(BadInputError, match=r"predictor is 'orakel' \(did you mean 'oracle'\?\) but must be"):
        build("orakel", SETTINGS, ORACLE)


@pytest.mark.parametrize(("task_times", "kind"), [(False, RuntimeHistory), (True, TaskTimePredictor)])
def test_a_planner_learns_runtimes_whether_or_not_its_policy_wants_task_times(task_times: bool, kind: type):
    predictor, runtimes = build_live(SETTINGS, task_times=task_times, runs=None, past=None)
    assert type(predictor) is kind
    assert (predictor is runtimes) is not task_times


def test_task_times_are_not_put_around_task_times():
    times = with_task_times(None, learns=False)
    assert with_task_times(times, learns=True) is times
