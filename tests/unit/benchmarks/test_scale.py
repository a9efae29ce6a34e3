"""The benchmarks of 16,000 slots: which measurements they refuse, and what they make of the others."""

import json

import pytest
from click.testing import CliRunner

from spark_sched.errors import BadInputError
from tests.unit.benchmarks.test_benchmarks import benchmark  # noqa: F401 (a fixture)

OPERATIONS = ("end", "offer", "result", "round", "burst")


def rows(us=None, times=10):
    us = us or {"stock": 10.0, "ours": 15.0, "null": 11.0}
    return [
        {"arm": arm, "round": n, "operation": name, "times": times, "us": us[arm] * (1 + n)}
        for name in OPERATIONS
        for n in range(3)
        for arm in us
    ]


def end(**more):
    return {
        "ended": {"stock": 30, "ours": 30, "null": 30},
        "held": 0,
        "running": 9,
        "stock_running": 320,
        "complaints": [],
        **more,
    }


@pytest.fixture
def scale(benchmark):  # noqa: F811
    return benchmark("driver_scale")


def test_a_cell_without_a_fault_is_valid(scale):
    assert scale.check(scale.Cell(20, 5, 0), rows(), end()) == []


@pytest.mark.parametrize(
    ("cell", "measured", "last", "said"),
    [
        (("5,0"), rows(), end(stock_running=319), "no task waited any more: stock ran 319 at the end"),
        (("5,0"), rows(), end(complaints=["scheduling failed open"]), "failed open"),
        (("5,0"), rows(), end(ended={"stock": 30, "ours": 29, "null": 30}), "different numbers of tasks"),
        (("5,0"), [row for row in rows() if row["arm"] != "null"], end(), "different numbers of times"),
        (("5,0"), rows() + rows()[:1], end(), "did 'end' different numbers of times"),
        (("5,0,slearn"), rows(), end(), "no plan was given"),
    ],
)
def test_a_cell_whose_arms_did_not_do_the_same_is_refused(scale, cell, measured, last, said):
    (sentence,) = scale.check(scale.Cell.parse(cell, 20), measured, last)[:1]
    assert said in sentence


def test_ratios_and_differences_are_of_the_two_arms_of_one_round(scale):
    found = scale.figures(rows())["end"]
    # 10, 20 and 30 µs beside 15, 30 and 45.
    assert (found["stock_us"], found["ours_us"]) == (20.0, 30.0)
    assert (found["over_us"], found["ratio"]) == (10.0, 1.5)
    assert (found["null_over_us"], found["null_ratio"]) == pytest.approx((2.0, 1.1))


def test_the_figures_of_a_cell_need_both_arms_of_a_round(scale):
    lost = [row for row in rows() if (row["arm"], row["round"]) != ("stock", 2)]
    assert scale.figures(lost)["end"]["over_us"] == 7.5


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("500", "TASK_SETS,HOLDING"),
        ("0,5", "at least 1,0"),
        ("5,0,greedy", "use none or"),
        ("5,0,none,LIFO", "FIFO or"),
    ],
)
def test_a_cell_that_cannot_be_measured_is_refused_with_the_remedy(scale, text, remedy):
    with pytest.raises(BadInputError, match=remedy):
        scale.Cell.parse(text, 20)


def test_a_cell_is_given_to_the_jvm_as_it_was_meant(scale):
    cell = scale.Cell.parse("500,20,3sigma,FAIR,marked,pareto", 1000)
    assert cell.argument == "1000,500,20,3sigma,FAIR,marked,pareto"
    assert cell.title == "500 task sets, 20 holding, 3sigma, FAIR, marked, pareto"
    assert scale.Cell.parse("5,0", 20).argument == "20,5,0,none,FIFO,unmarked,calibrated"


def test_the_planner_is_measured_in_a_quick_form(benchmark):  # noqa: F811
    done = CliRunner().invoke(benchmark("planner_scale").main, ["--quick", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    (found,) = document["policies"]
    assert 60 * 8 < found["running"] <= 60 * 16
    assert found["events_ms_per_1000"] > 0
    assert found["cycle_ms"] >= max(found["parts_ms"].values()) > 0
    assert found["plan_bytes"] > 60 * 100


def test_a_planner_whose_policy_fails_is_not_measured(benchmark, monkeypatch):  # noqa: F811
    scale = benchmark("planner_scale")
    monkeypatch.setattr(scale.Planner, "complaints", ["1 plans failed"])
    with pytest.raises(scale.click.ClickException, match="not valid: 1 plans failed"):
        scale.measure("reservation", 10, 10, 1, seed=1)
