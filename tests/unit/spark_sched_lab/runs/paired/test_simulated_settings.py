"""Each setting of an arm reaches the simulator of ``ab`` and ``bench``, or is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sched.config import ALL, JOB_PREFIX, keys
from spark_sched.config.queue_file import read_queues
from spark_sched.errors import BadInputError
from spark_sched_lab.engine.settings import APPLIED
from spark_sched_lab.runs.ab.run import RunKey
from spark_sched_lab.runs.ab.simulated import SimulatedRunner
from spark_sched_lab.runs.ab.store import Record
from spark_sched_lab.runs.ab.suite import parse_suite
from spark_sched_lab.runs.bench.run import run_simulated
from spark_sched_lab.runs.bench.suite import parse_bench

CONF = Path(__file__).parents[5] / "conf"
#: These are marks or arguments of the simulated run.
OWN = (
    keys.RESERVATION_ISOLATION, keys.COPIES_ENABLED, keys.PLANNER_POLICY, keys.PLANNER_INTERVAL,
)  # fmt: skip
REACHES = [key for key in ALL if key in APPLIED and key not in OWN]
REFUSED = [
    key for key in ALL if key not in APPLIED and key not in OWN and not key.name.startswith(JOB_PREFIX)
]
#: Settings without a default or with one that needs others.
VALUES = {
    keys.PLANNER_PYTHON.name: "python3",
    keys.HISTORY_PASSWORD.name: "secret",
    keys.QUEUES.name: read_queues(CONF / "queues.toml").to_json(),
}


def ab(name: str, text: str) -> SimulatedRunner:
    return SimulatedRunner(
        parse_suite(
            '[[workload]]\nname = "sleep"\nsleepms = 100\n[[arm]]\nname = "stock"\nscheduler = "fair"\n'
            f'[[arm]]\nname = "ours"\n[arm.settings]\n"{name}" = {json.dumps(text)}\n',
            "suite.toml",
        )
    )


def bench(name: str, text: str) -> Any:
    return parse_bench(
        "[cluster]\nworkers = 1\nslots = 4\n[scheduler]\n"
        f'[scheduler.settings]\n"{name}" = {json.dumps(text)}\n'
        '[[suite]]\n[[suite.workload]]\nname = "sleep"\nsleepms = 1000\ntasks = 4\n',
        "bench.toml",
    )


def value(key: Any) -> str:
    return VALUES.get(key.name) or key.default or "x"


@pytest.mark.parametrize("key", REFUSED, ids=lambda key: key.name)
def test_a_setting_that_would_do_nothing_is_refused_by_name(key: Any) -> None:
    text = value(key)
    said = f"{key.name} is {text!r} but does nothing in the simulator: "
    for run in (lambda: ab(key.name, text), lambda: run_simulated(bench(key.name, text), lambda *_: None)):
        with pytest.raises(BadInputError) as refused:
            run()
        assert said in str(refused.value)


@pytest.mark.parametrize("scheduler", ["spark_sched", "fair"])
def test_a_property_of_spark_is_refused_too(scheduler: str) -> None:
    suite = parse_suite(
        '[[workload]]\nname = "sleep"\nsleepms = 100\n[[arm]]\nname = "stock"\nscheduler = "fifo"\n'
        f'[[arm]]\nname = "b"\nscheduler = "{scheduler}"\n[arm.settings]\n"spark.locality.wait" = "0s"\n',
        "suite.toml",
    )
    with pytest.raises(BadInputError, match="arm 'b': spark.locality.wait is '0s' but does nothing"):
        SimulatedRunner(suite)


@pytest.mark.parametrize("key", REACHES, ids=lambda key: key.name)
def test_a_setting_of_the_simulator_reaches_it(key: Any) -> None:
    assert bench(key.name, value(key)).scheduler.simulated_settings == {key.name: value(key)}


def test_the_interval_of_plans_is_that_of_the_simulated_planner() -> None:
    arm = bench(keys.PLANNER_INTERVAL.name, "3s").scheduler
    assert arm.simulated_plan_every_ms == 3_000
    assert bench(keys.RESERVATION_GAP.name, "3s").scheduler.simulated_plan_every_ms == 0


def test_plans_at_intervals_change_a_simulated_comparison() -> None:
    """A job of priority 10 that arrives between two plans waits for its rank."""

    def record(interval: str) -> Record:
        suite = parse_suite(
            '[[workload]]\nname = "sleep"\nsleepms = 1000\ntasks = 8\n'
            '[background]\nsource = "google2011"\nwork = "60s"\n[[arm]]\nname = "stock"\nscheduler = "fair"\n'
            f'[[arm]]\nname = "ours"\n[arm.settings]\n"{keys.PLANNER_POLICY.name}" = "las"\n'
            f'"{keys.PLANNER_INTERVAL.name}" = "{interval}"\n',
            "suite.toml",
        )
        return SimulatedRunner(suite).run(RunKey(0, "sleep", "ours"))

    assert record("1ms") != record("60s")
