"""The page of ``simulate --out``: its curves by hand, the file by its contents."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.cli.app import app
from spark_sched_lab.runs.simulate.page import busy_slots, completion_curve

EXPERIMENT = """
name = "<small>"
seeds = [1, 2]

[cluster]
nodes = 3
slots = 2

[[workload]]
name = "front"
class = "front"
priority = 5
jobs = 4
gap = "10s"
stages = [{ tasks = 4, mean = "2s", alpha = 1.6 }, { tasks = 4, mean = "2s" }]

[[workload]]
name = "back"
jobs = 10
gap = "2s"
stages = [{ tasks = 3, mean = "5s" }]

[[arm]]
policy = "priority"

[[arm]]
policy = "reservation"
"""


def simulate(folder: Path, *arguments: str) -> Any:
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT)
    return CliRunner().invoke(
        app, ["simulate", str(path), "--out", str(folder / "out"), *arguments], prog_name="spark-sched"
    )


def test_busy_slots_are_averaged_over_each_interval() -> None:
    start, end = np.array([0, 500, 1_000]), np.array([1_000, 1_500, 3_000])
    assert busy_slots(start, end, np.array([0.0, 1_000.0, 2_000.0, 4_000.0])) == pytest.approx(
        [1.5, 1.5, 0.5]
    )


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), min_size=1, max_size=30),
    st.integers(1, 20),
)
def test_busy_slots_lose_no_time(spans: list[tuple[int, int]], bins: int) -> None:
    start = np.array([a for a, _ in spans])
    end = np.array([a + length for a, length in spans])
    edges = np.linspace(0.0, 2_000.0, bins + 1)
    assert (busy_slots(start, end, edges) * np.diff(edges)).sum() == pytest.approx((end - start).sum())


def test_a_completion_curve_counts_jobs_that_did_not_end() -> None:
    assert completion_curve([3.0, 1.0], 4) == [(1.0, 0.25), (3.0, 0.5)]
    assert completion_curve([], 4) == []
    assert len(completion_curve(np.arange(5_000.0).tolist(), 5_000)) == 200


def test_the_page_has_tables_and_plots_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    found = simulate(tmp_path, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["experiment"] == "<small>"
    assert found.stderr.endswith(f"report: {tmp_path / 'out' / 'report.html'}\n")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg ") == 4  # two classes, all jobs, slots in use
    assert "&lt;small&gt;" in page
    assert "3 nodes, 6 slots; 2 arms, seeds 1, 2." in page
    for outside in ("src=", "@import", "<link", "<script", 'href="http'):
        assert outside not in page


def test_the_same_seeds_give_the_same_page(tmp_path: Path) -> None:
    pages = []
    for _ in range(2):
        simulate(tmp_path)
        pages.append((tmp_path / "out" / "report.html").read_bytes())
    assert pages[0] == pages[1]


def test_without_matplotlib_everything_but_the_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    found = simulate(tmp_path)
    assert found.exit_code == 0
    assert "no report.html without matplotlib: run pip install 'spark-sched[report]'" in found.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"results.json", "jobs.parquet", "tasks.parquet"}
