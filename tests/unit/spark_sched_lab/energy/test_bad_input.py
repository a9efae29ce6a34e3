"""Numbers that no data centre has are refused by name, before they make a total of nonsense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.energy import SERVER_TYPES, SMALL, Tasks
from spark_sched_lab.energy.optimum import Optimum

INF, NAN = float("inf"), float("nan")


def two_tasks(**given: list[float]) -> Tasks:
    columns = {"duration_s": [10.0, 10.0], "cpu": [0.1, 0.1], "memory": [0.1, 0.1],
               "external_b": [1e3, 1e3], "internal_b": [1e3, 1e3]}  # fmt: skip
    arrays: dict[str, Any] = {name: np.array(values) for name, values in {**columns, **given}.items()}
    return Tasks(**{"arrival_s": np.array([0, 1]), "job": np.array([0, 0]), **arrays})


@pytest.mark.parametrize(
    ("column", "value", "range_"),
    [
        ("duration_s", INF, "above 0"),
        ("cpu", NAN, "above 0"),
        ("memory", INF, "at least 0"),
        ("external_b", -1.0, "at least 0"),
        ("internal_b", NAN, "at least 0"),
    ],
)
def test_a_task_has_finite_demands(column: str, value: float, range_: str) -> None:
    with pytest.raises(BadInputError, match=f"{column} of task 1 is {value:g} but must be {range_} and fin"):
        two_tasks(**{column: [0.1, value]})


@pytest.mark.parametrize("arrivals", [[-1, 0], [0.5, 1.5]])
def test_tasks_arrive_in_whole_seconds_from_0_on(arrivals: list[float]) -> None:
    with pytest.raises(BadInputError, match="arrival_s of tasks must be whole numbers of seconds from 0"):
        two_tasks(arrival_s=arrivals)


@pytest.mark.parametrize(
    ("name", "value", "range_"),
    [("cpu", 0.0, "above 0"), ("memory", NAN, "above 0"), ("idle_w", -5, "at least 0")],
)
def test_a_server_type_has_capacities_and_powers(name: str, value: float, range_: str) -> None:
    with pytest.raises(
        BadInputError, match=f"{name} of server type A is {value} but must be {range_} and fin"
    ):
        replace(SERVER_TYPES[0], **{name: value})


@pytest.mark.parametrize("accesses", [1.5, float("inf"), NAN])
def test_no_layer_has_half_a_switch(accesses: float) -> None:
    with pytest.raises(BadInputError, match=f"accesses is {accesses} but must be a whole number above 0"):
        replace(SMALL, accesses=accesses)


def test_servers_wake_up_at_last() -> None:
    with pytest.raises(BadInputError, match="server_wake_s is inf but must be at least 0 and finite"):
        replace(SMALL, server_wake_s=INF)


def test_an_unknown_optimum_is_not_taken_for_msec() -> None:
    with pytest.raises(BadInputError, match="kind is 'mtec2' but must be mtec or msec"):
        Optimum("mtec2")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="limit_s is 0 but must be above 0"):
        Optimum("mtec", 0)
