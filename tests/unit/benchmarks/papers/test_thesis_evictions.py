"""Chapters 5 to 9 of the thesis: every figure is made of runs, with and without the real trace."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.runs import Scale
from benchmarks.papers.thesis.evictions import FIGURES, priority_runs
from benchmarks.papers.thesis.evictions.bars import BARS
from benchmarks.papers.thesis.evictions.comparisons import absolute, lower
from benchmarks.papers.thesis.evictions.offline_optimum import best_response, small_instances
from spark_sched.errors import BadInputError
from spark_sched_lab.evictions import TaskTable
from spark_sched_lab.evictions.settings import SETTINGS

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
    made = {"characteristics": arrivals, "small_instances": small_instances(1, 1)}
    results = {run: made.get(run.function.rpartition(":")[2], summary) for run in needed}
    figure = spec.build(SCALE, results)
    assert figure.id == spec.id
    assert len({value.name for value in figure.values}) == len(figure.values)
    if needed:
        assert figure.rows


def changed(found):
    """The result with other numbers, whose ratios differ, too."""
    if isinstance(found, dict):
        return {key: changed(value) for key, value in found.items()}
    if isinstance(found, list):
        return [changed(value) for value in found]
    if found is None:
        return 0.5
    return found if isinstance(found, bool) or not isinstance(found, int | float) else 3 * found + 1


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
def test_what_a_figure_says_comes_from_its_runs(spec, summary):
    """The result of the first and of the last run changes a row, a value or a chart."""
    kinds = ("characteristics", "small_instances")
    needed = [run for run in spec.runs(SCALE) if run.function.rpartition(":")[2] not in kinds]
    results = {run: run() if run not in needed else summary for run in spec.runs(SCALE)}
    before = spec.build(SCALE, results)
    for run in dict.fromkeys([*needed[:1], *needed[-1:]]):
        after = spec.build(SCALE, {**results, run: changed(summary)})
        assert (before.rows, before.values, before.charts) != (after.rows, after.values, after.charts), run


@pytest.mark.parametrize(
    ("figure_id", "titles"),
    [
        ("fig7.1", ["Evicted tasks up to a number of evictions"]),
        ("fig7.4", ["Slots in use", "Waiting tasks", "Servers that are on"]),
        ("fig8.4", ["Free slots", "CPU in use", "Memory in use"]),
        ("fig9.2", ["Response time of the lowest class"]),
    ],
)
def test_what_the_thesis_plots_as_lines_is_plotted_as_lines(figure_id, titles, summary):
    summary = {**summary, "evictions_of_tasks": {"1": 3, "2": 0, "10": 1}}
    (spec,) = [spec for spec in FIGURES if spec.id == figure_id]
    figure = spec.build(SCALE, dict.fromkeys(spec.runs(SCALE), summary))
    lines = [chart for chart in figure.charts if chart.kind == "lines"]
    assert [chart.title.split(",")[0] for chart in lines] == titles
    arms = {row["arm"] for row in figure.rows}
    for chart in lines:
        assert chart.series.keys() == arms
        for points in chart.series.values():
            assert points
            assert [x for x, _ in points] == sorted(x for x, _ in points)
    if figure_id == "fig7.1":
        assert set(map(tuple, lines[0].series.values())) == {((1, 0.75), (2, 0.75), (10, 1.0))}


def test_figures_differ_in_name():
    assert len({spec.id for spec in FIGURES}) == len(FIGURES)


def test_without_the_trace_chapter_5_says_what_to_name():
    figure = FIGURES[0].build(SCALE, {})
    assert priority_runs.SOURCE in figure.notes
    assert not figure.values


def test_a_folder_without_the_tables_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(priority_runs.SOURCE, str(tmp_path))
    with pytest.raises(BadInputError, match="no folder task_events: set it to the folder"):
        FIGURES[0].runs(SCALE)
    (tmp_path / "task_events").mkdir()
    assert priority_runs.source_folder() == str(tmp_path)


def papers_of(figure_id, summary):
    (spec,) = [spec for spec in FIGURES if spec.id == figure_id]
    figure = spec.build(SCALE, dict.fromkeys(spec.runs(SCALE), summary))
    return {value.name: value.paper for value in figure.values}


def test_table_9_3_has_the_thesis_value_of_each_workload(summary):
    papers = papers_of("table9.3", summary)
    assert papers["w_a_generated_r_9_better"] == 26.85
    assert papers["w_b_low_r_1_better"] == 0.70
    assert papers["w_e_low_r_9_better"] == -0.66
    assert None not in papers.values()
    fig_9_3 = papers_of("fig9.3", summary)
    assert fig_9_3 == {name: papers[name] for name in fig_9_3}


def test_tables_7_2_7_3_and_9_1_have_all_values_of_the_thesis(summary):
    table_7_2, table_7_3 = papers_of("table7.2", summary), papers_of("table7.3", summary)
    assert table_7_2["w_a_generated_we_lrs"] == 1014e3
    assert (table_7_2["w_a_generated_r_mrs"], table_7_2["w_a_generated_r_mrs_resume"]) == (1779, 1305)
    assert (table_7_3["w_a_generated_ne_lrs"], table_7_3["w_a_generated_ne_lrs_resume"]) == (28398, 15970)
    table_9_1 = papers_of("table9.1", summary)
    assert (table_9_1["w_a_generated_we_hybrid"], table_9_1["w_a_generated_we_wasp"]) == (20.9e3, 141e3)
    assert papers_of("fig7.3", summary)["w_a_generated_dropped_lrs5"] == 3.6


def test_table_5_2_has_usage(monkeypatch, tmp_path):
    (tmp_path / "task_events").mkdir()
    monkeypatch.setenv(priority_runs.SOURCE, str(tmp_path))
    rows = [(1, 0, 9), (1, 1, 9), (11, 4, 9)]
    text = "".join(f"{s}000000,,1,0,7,{kind},u,0,{p},0.1,0.2,0,0\n" for s, kind, p in rows)
    (tmp_path / "task_events" / "part-00000-of-00500.csv").write_text(text)
    (spec,) = [spec for spec in FIGURES if spec.id == "table5.2"]
    found = priority_runs.trace_evictions(str(tmp_path))
    figure = spec.build(SCALE, dict.fromkeys(spec.runs(SCALE), found))
    values = {value.name: (value.paper, value.ours) for value in figure.values}
    assert values["cpu_usage_of_priority_9"] == (0.0071297, 0.1)
    assert values["memory_usage_of_priority_9"] == (0.0042992, 0.2)


def test_table_8_1_comes_out():
    (spec,) = [spec for spec in FIGURES if spec.id == "table8.1"]
    figure = spec.build(SCALE, {})
    assert {value.name: value.ours for value in figure.values} == {
        "powerful_servers": 5.0,
        "slots_of_a_powerful_server": 24.0,
        "slots_of_another_D_server": 48.0,
        "slots_in_all": 3072.0,
    }
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


def test_a_bar_tells_the_direction_from_what_is_wanted():
    (victims,) = [bar for bar in BARS if bar.name == "WE_MRS_below_LRS"]
    assert [(victims.has_direction(x), victims.met(x)) for x in (-1.0, 0.0, 40.0, 70.0)] == [
        (False, False), (False, False), (True, False), (True, True),
    ]  # fmt: skip
    (dropped,) = [bar for bar in BARS if bar.name == "dropped_mrs5"]
    assert [dropped.met(x) for x in (0.0, 5.0, 5.1)] == [True, True, False]


def test_the_optimum_lets_a_slot_wait_for_what_is_worth_more():
    """One slot, a second of class 9 after a long task of class 0 could have begun: V is the mean of 3 and 12
    per second of response time. The long one first costs (3 * 10 + 12 * 10) / 2, the urgent one first
    (3 * 12 + 12 * 1) / 2."""
    numbers = np.array
    tasks = TaskTable(numbers([0.0, 1.0]), numbers([0, 9]), numbers([10.0, 1.0]), numbers([0.0, 0.0]))
    assert best_response(tasks, 1) == pytest.approx(24.0)
    assert best_response(tasks, 2) == pytest.approx((3 * 10 + 12 * 1) / 2)


def test_no_rule_is_better_than_the_optimum():
    assert min(ratio for ratios in small_instances(2, 2).values() for ratio in ratios) >= 1.0 - 1e-9
