"""``spark-sched simulate --on MASTER``: the same bytes as without it, and Ctrl-C leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sched_lab.runs.clusters import LocalCluster
from tests.environment import QUICK_WORKERS
from tests.integration.processes import descendants_running, until

pytestmark = pytest.mark.integration

EXPERIMENT = """
name = "spread"
seeds = [1, 2, 3]
[cluster]
nodes = 4
slots = 2
[[workload]]
name = "front"
jobs = {jobs}
gap = "5s"
priority = 5
stages = [{{ tasks = 6, mean = "2s", alpha = 1.6 }}, {{ tasks = 6, mean = "1s", alpha = 1.6 }}]
[[workload]]
name = "back"
jobs = {jobs}
gap = "2s"
stages = [{{ tasks = 8, mean = "3s", alpha = 1.3 }}]
[[arm]]
policy = "reservation"
predictor = "history"
[[arm]]
policy = "priority"
"""


def command(folder: Path, jobs: int, *options: str) -> list[str]:
    file = folder / "experiment.toml"
    file.write_text(EXPERIMENT.format(jobs=jobs))
    return [sys.executable, "-m", "spark_sched", "simulate", str(file), *options]


@pytest.mark.slow
def test_spread_over_spark_the_files_have_the_same_bytes(tmp_path: Path, standalone: LocalCluster) -> None:
    def run(name: str, *options: str) -> tuple[str, dict[str, bytes]]:
        out = tmp_path / name
        full = command(tmp_path, 30, "--json", "--jobs", "2", "--out", str(out), *options)
        done = subprocess.run(full, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout, {path.name: path.read_bytes() for path in sorted(out.iterdir())}

    here = run("here")
    assert list(here[1]) == ["jobs.parquet", "report.html", "results.json", "tasks.parquet"]
    assert run("local", "--on", "local[2]") == here
    assert standalone.master_url.startswith("spark://")
    assert run("cluster", "--on", standalone.master_url) == here


def test_interrupted_it_stops_spark_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    full = command(tmp_path, 20_000, "--on", "local[2]", "--out", str(out))
    running = subprocess.Popen(full, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        # Python workers are there once its driver runs tasks. On Spark 3.5 only the daemon's module is named.
        _, _, daemon = QUICK_WORKERS.partition("=")
        assert until(lambda: descendants_running(running.pid, f"-m\0{daemon}"), 600)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode == 130, said
    assert "interrupted" in said
    assert not out.exists() or not any(out.iterdir())
