import re
from io import StringIO

import pytest
from rich.console import Console

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.clusters import LocalCluster
from spark_sched_lab.runs.demo.demo import DemoRuns, build_document, run_demo
from spark_sched_lab.runs.demo.design import FULL, QUICK, SETTINGS, pairs
from spark_sched_lab.runs.demo.report import headline, render_report, table_rows
from spark_sched_lab.runs.demo.timeline import Span, Timeline
from spark_sched_lab.runs.paired.application import RunResult
from spark_sched_lab.runs.paired.properties import allocation_file
from spark_sched_lab.runs.workloads.background import trace_fit

JCT_S = {"alone": 10.0, "stock": 25.0, "spark_sched": 10.5}
MAKESPAN_S = {"alone": None, "stock": 40.0, "spark_sched": 42.0}


def result(setting, values=(1.0, 2.0)):
    held = {"holds_total": 40.0} if setting == "spark_sched" else {}
    return RunResult(JCT_S[setting], values, 0, 1, MAKESPAN_S[setting], 3, held)


def document(**changed):
    planned = pairs(QUICK, 0, trace_fit())
    runs = {(pair.workload, setting): [result(setting)] for pair in planned for setting in SETTINGS}
    return build_document(runs | changed.pop("runs", {}), planned, QUICK, 0, True, LocalCluster())


def test_the_document_has_a_row_per_workload_and_setting_with_paired_slowdowns():
    rows = document()["results"]
    assert [(row["workload"], row["setting"]) for row in rows] == [
        (workload, setting) for workload in ("kmeans", "svm", "pagerank") for setting in SETTINGS
    ]
    assert [row["slowdown"] for row in rows[:3]] == [1.0, 2.5, 1.05]
    assert rows[2]["jct_s"] == [10.5]
    assert rows[2]["background_makespan_ratio"] == 1.05
    assert rows[2]["counters"] == [{"holds_total": 40.0}]


def test_equal_results_are_stated_and_a_different_one_is_too():
    assert document()["results_equal"] is True
    wrong = {("svm", "spark_sched"): [result("spark_sched", values=(1.0, 2.1))]}
    assert document(runs=wrong)["results_equal"] is False


def test_the_table_shows_no_interval_for_too_few_runs():
    row = table_rows(document()["results"])[2]
    assert row["slowdown"] == "1.05"
    assert row["interval"] == "–"
    assert row["makespan_ratio"] == "1.05"


def test_the_page_needs_nothing_from_elsewhere():
    timeline = Timeline(0, 1000, {"0": "executor 0"}, {"0": 1}, (Span("0", 0, 500, "held"),))
    page = render_report(document(), {"kmeans": [("stock", timeline), ("spark_sched", timeline)]})
    assert page.count("<svg ") == 3
    for outside in ("src=", "@import", "<link", "<script", 'href="http'):
        assert outside not in page


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param({"seed": -1}, "seed is -1", id="a negative seed"),
        pytest.param({"out": "file"}, "is a file", id="an output directory that is a file"),
        pytest.param({"out": "file/out"}, "cannot be written", id="an output directory below a file"),
        pytest.param({"out": "/proc/out"}, "cannot be written", id="an output directory that cannot be made"),
    ],
)
def test_a_wrong_input_is_refused_before_anything_starts(tmp_path, changed, named):
    (tmp_path / "file").write_text("")
    arguments = {"quick": True, "seed": 0, **changed, "out": tmp_path / changed.get("out", "out")}
    with pytest.raises(BadInputError, match=named):
        run_demo(**arguments)
    assert not (tmp_path / "out").exists()


def test_each_run_is_a_line_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(DemoRuns, "_run", lambda *_: result("stock"))
    console = Console(file=StringIO(), force_terminal=False)
    found = DemoRuns(1, QUICK, console).run_all()
    said = console.file.getvalue().splitlines()
    assert len(said) == sum(map(len, found.values())) == 9
    assert re.fullmatch(r"9 of 9: pagerank, \w+, run 1: \d+\.\d s, background \d+\.\d s", said[-1])


def test_every_workload_runs_in_every_setting_on_the_same_input_run_after_run():
    planned = pairs(FULL, 1, trace_fit())
    assert [(pair.run, pair.workload) for pair in planned[:4]] == [
        (0, "kmeans"),
        (0, "svm"),
        (0, "pagerank"),
        (1, "kmeans"),
    ]
    assert len(planned) == 3 * FULL.runs >= 15
    assert all(sorted(pair.order) == sorted(SETTINGS) for pair in planned)
    assert len({pair.order for pair in planned}) > 1
    assert len({pair.seed for pair in planned}) == len(planned)
    assert planned == pairs(FULL, 1, trace_fit())
    assert planned != pairs(FULL, 2, trace_fit())


def test_stock_gets_the_strongest_pool_that_spark_can_say():
    xml = allocation_file(16)
    assert "<minShare>16</minShare>" in xml
    assert "<weight>1000</weight>" in xml


def test_the_page_begins_with_what_came_of_it():
    assert headline(document()["results"])[0] == (
        "kmeans: 2.50 × slower than alone became 1.05 ×; the background ended 5% later than stock's."
    )
