"""The demo, end to end on a real cluster, on sizes small enough for a test."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_sched.terminal import EXIT_INTERRUPTED
from spark_sched_lab.runs.demo import design
from spark_sched_lab.runs.demo.demo import run_demo
from tests.integration.processes import until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SMALL = dataclasses.replace(
    design.QUICK,
    passes=3,
    min_read_s=0.4,
    max_read_s=0.6,
    batch=dataclasses.replace(design.QUICK.batch, work_s=5.0, max_task_s=5.0, backlog_s=3.0),
)

INTERRUPTED = """
import pathlib, sys
from spark_sched_lab.runs.demo.demo import run_demo
sys.exit(run_demo(quick=True, out=pathlib.Path(sys.argv[1])))
"""


def test_the_demo_measures_all_settings_and_writes_its_two_files(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(design, "QUICK", SMALL)
    assert run_demo(quick=True, out=tmp_path / "out", seed=1, json_output=True) == 0

    document = json.loads(capfd.readouterr().out)  # the JSON document and nothing else
    assert document == json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["results_equal"] is True
    rows = {(row["workload"], row["setting"]): row for row in document["results"]}
    assert set(rows) == {(w, s) for w in ("kmeans", "svm", "pagerank") for s in design.SETTINGS}
    for (workload, setting), row in rows.items():
        assert len(row["jct_s"]) == document["runs"] == 1
        # Three reads of 0.6 s at least, whoever schedules them.
        assert row["jct_s"][0] > 3 * SMALL.max_read_s
        assert bool(row["background_makespan_s"]) == (setting != "alone")
        if setting == "spark_sched":
            counters = row["counters"][0]
            assert counters["holds_total"] > 0, workload
            assert counters["invariant_violations"] == 0

    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg ") == 1 + 2 * 3  # slowdowns, and a timeline per workload and contended setting
    assert "held" in page
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "results.json"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
def test_ctrl_c_stops_everything_and_writes_nothing(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    demo = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    # The applications' logs appear when the cluster is up and they are starting.
    deadline_s = time.monotonic() + 600
    while not list(temporary.glob("spark-sched-demo-*/*.log")):
        assert demo.poll() is None, demo.stderr.read()
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=300)
    assert demo.returncode == EXIT_INTERRUPTED
    assert "nothing was written" in said
    assert not (tmp_path / "out").exists()
    # A planner that was starting leaves when its driver has gone, and then removes its folder.
    assert until(lambda: not _left(temporary)), _left(temporary)


def _left(temporary: Path) -> list[str]:
    """Our folders in the temporary directory, and processes that name it."""
    folders = [path.name for path in temporary.iterdir() if path.name.startswith("spark-sched")]
    lines = (_command_line(process) for process in Path("/proc").glob("[0-9]*"))
    return folders + [line for line in lines if str(temporary) in line]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
