"""Chapters 5 to 9 of the thesis: every figure is made of runs, with and without the real trace."""

from __future__ import annotations

import pytest

from spark_sched.experiments.reproduce.figures import Scale
from spark_sched.experiments.reproduce.thesis.evictions import FIGURES, priority_runs
from spark_sched.experiments.reproduce.thesis.evictions.arms import SETTINGS, absolute, lower

SCALE = Scale(True, (1, 2))


@pytest.fixture(autouse=True)
def no_trace(monkeypatch):
    monkeypatch.delenv(priority_runs.SOURCE, raising=False)


@pytest.fixture(scope="module")
def summary():
    return priority_runs.priorities("W-A-generated", 1, "mrs", "SC1", True, False, "LSF", False, 0.5, None)


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_every_figure_is_built_of_its_runs(spec, summary):
    arrivals = {
        "tasks": 1,
        "max_in_1_min": 1,
        "max_in_10_min": 1,
        "max_gap_s": 1.0,
        "demand": 1.0,
        "in_10_min": [1],
    }
    needed = spec.runs(SCALE)
    results = {run: arrivals if run.function.endswith("characteristics") else summary for run in needed}
    figure = spec.build(SCALE, results)
    assert figure.id == spec.id
    assert len({value.name for value in figure.values}) == len(figure.values)
    if needed:
        assert figure.rows


def test_figures_differ_in_name():
    assert len({spec.id for spec in FIGURES}) == len(FIGURES)


def test_without_the_trace_chapter_5_says_what_to_name():
    figure = FIGURES[0].build(SCALE, {})
    assert priority_runs.SOURCE in figure.notes
    assert not figure.values


def test_table_8_1_comes_out():
    (spec,) = [spec for spec in FIGURES if spec.id == "table8.1"]
    figure = spec.build(SCALE, {})
    assert all(value.ours == value.paper for value in figure.values)


def test_settings_are_those_of_table_6_2():
    assert [name for name, arm in SETTINGS.items() if not arm.memory] == ["S1", "S2", "S3"]
    assert {arm.configuration for arm in SETTINGS.values()} == {"SC3"}
    assert (SETTINGS["S11"].rule, SETTINGS["S11"].memory_eviction) == ("mrs", "LSF")


def test_numbers_of_arms(summary):
    worse = {**summary, "WE": 2.0 * summary["WE"] + 1.0}
    found = {"a": {**summary, "WE": 1.0}, "b": {**worse, "WE": 4.0}}
    assert lower("WE", "a", "b")(found) == pytest.approx(75.0)
    assert absolute("R/9", "a")(found) == summary["classes"]["9"]["response_s"]
