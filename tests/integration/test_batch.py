"""Applications that end: what their planner has learned then, and where it was started."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

APP = Path(__file__).with_name("batch_app.py")
ROOT = Path(__file__).parents[2]


def run(
    ending: str, *settings: str, runs: int = 1, cwd: Path, master: str = "local[2]", java: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the application in a working directory; its package is found by an absolute path alone."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if java:
        environment |= {"JAVA_TOOL_OPTIONS": java, "SPARK_PREFER_IPV6": "true"}
    return subprocess.run(
        [sys.executable, str(APP), ending, str(runs), master, *settings],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


def learned(history: Path) -> int:
    with sqlite3.connect(history) as db:
        (count,) = db.execute("SELECT count(*) FROM sigma_jobs").fetchone()
    return int(count)


def test_the_last_job_before_the_end_is_learned_every_time(tmp_path: Path) -> None:
    # A relative path is one of the driver's working directory. A busy machine may need more than 2 s.
    settings = ("spark.sched.history.path=history.db", "spark.sched.planner.drainTimeout=1min")
    done = run("stop", *settings, runs=4, cwd=tmp_path)
    assert "ended" in done.stdout, done.stderr[-3000:]
    assert learned(tmp_path / "history.db") == 4


def runs(history: Path) -> dict[str, list[list[int]]]:
    """Tasks of the stages of each run, by the job's name."""
    found: dict[str, list[list[int]]] = {}
    with sqlite3.connect(history) as db:
        for name, stages in db.execute("SELECT name, phases FROM runs"):
            found.setdefault(name, []).append([stage[1] for stage in json.loads(stages)])
    return found


TWO_ACTIONS = [4, 2, 4, 2]


def test_every_job_is_learned_once_however_often_the_planner_is_killed_or_hangs(tmp_path: Path) -> None:
    done = run(
        "killed", "spark.sched.history.path=history.db", "spark.sched.planner.drainTimeout=1min",
        "spark.sched.planner.restartBackoff=50ms", "spark.sched.planner.restartBackoffMax=50ms",
        "spark.sched.planner.stallTimeout=5s", "spark.sched.planner.planValidity=1s", cwd=tmp_path,
    )  # fmt: skip
    assert "ended" in done.stdout, done.stderr[-3000:]
    names = [f"{kind}-{n}" for kind in ("calm", "killed-within", "next") for n in range(3)]
    names += [f"hung-{n}" for n in range(3)] + ["last"]
    assert runs(tmp_path / "history.db") == {name: [TWO_ACTIONS] for name in names}
    assert learned(tmp_path / "history.db") == len(names)
    assert "lacks" not in done.stderr


def test_jobs_that_end_while_the_history_is_locked_are_stored_when_it_is_free(tmp_path: Path) -> None:
    done = run(
        "locked", "spark.sched.history.path=history.db", "spark.sched.planner.drainTimeout=1min",
        "spark.sched.planner.planValidity=1s", "spark.sched.planner.restartBackoff=50ms", cwd=tmp_path,
    )  # fmt: skip
    assert "UNSTORED 5" in done.stdout, done.stderr[-3000:]
    assert "UNLEARNED 0" in done.stdout
    names = ["before", *(f"locked-{n}" for n in range(5))]
    assert runs(tmp_path / "history.db") == {name: [TWO_ACTIONS] for name in names}
    assert learned(tmp_path / "history.db") == 6


def test_a_history_that_is_locked_until_the_end_lacks_a_number_of_jobs(tmp_path: Path) -> None:
    done = run(
        "locked-to-the-end", "spark.sched.history.path=history.db", "spark.sched.planner.drainTimeout=2s",
        "spark.sched.planner.planValidity=1s", cwd=tmp_path,
    )  # fmt: skip
    assert "UNSTORED 5" in done.stdout, done.stderr[-3000:]
    assert "what 5 jobs taught is lost to it" in done.stderr
    assert "what it keeps lacks 5 of the jobs that ended" in done.stderr
    assert learned(tmp_path / "history.db") == 1


@pytest.mark.slow
def test_the_last_job_before_an_exception_is_learned(tmp_path: Path) -> None:
    # A planner that looks at events every ten seconds has not seen the job when the driver ends.
    settings = (
        "spark.sched.history.path=history.db",
        "spark.sched.planner.interval=10s",
        "spark.sched.planner.drainTimeout=1min",
    )
    # By the second time there is a history, as there is ever after.
    for count in (1, 2):
        done = run("raise", *settings, cwd=tmp_path)
        assert "the application fails here" in done.stderr
        assert done.returncode == 1
        assert learned(tmp_path / "history.db") == count


def test_a_planner_that_hangs_does_not_keep_the_application_from_ending(tmp_path: Path) -> None:
    done = run(
        "hang", "spark.sched.history.path=history.db", "spark.sched.planner.stallTimeout=10min",
        "spark.sched.planner.drainTimeout=300ms", cwd=tmp_path,
    )  # fmt: skip
    assert "ended" in done.stdout, done.stderr[-3000:]
    assert "has not stored all that it learned within 300 ms" in done.stderr


def test_an_application_that_ends_without_a_planner_starts_one_more_which_learns(tmp_path: Path) -> None:
    dies_once = tmp_path / "python.sh"
    dies_once.write_text(
        f"#!/bin/sh\ncd {tmp_path}\n"
        f'[ -e once ] || {{ touch once; exit 1; }}\ntouch twice\nexec {sys.executable} "$@"\n'
    )
    dies_once.chmod(0o700)
    done = run(
        "stop", "spark.sched.history.path=history.db", f"spark.sched.planner.python={dies_once}",
        "spark.sched.planner.restartBackoff=1h", "spark.sched.planner.restartBackoffMax=1h",
        "spark.sched.planner.drainTimeout=5min", cwd=tmp_path,
    )  # fmt: skip
    assert (tmp_path / "twice").exists()
    assert "ended" in done.stdout, done.stderr[-3000:]
    assert learned(tmp_path / "history.db") == 1


@pytest.mark.slow
def test_the_planner_imports_nothing_from_the_drivers_working_directory(tmp_path: Path) -> None:
    # Spark's own Python workers are started there, too, and do import them.
    for module in ("numpy", "sqlalchemy", "spark_sched"):
        (tmp_path / f"{module}.py").write_text(
            f"import sys\nopen({str(tmp_path / 'imported')!r}, 'a').write(f'{{sys.orig_argv}}\\n')\n"
        )
    settings = ("spark.sched.history.path=history.db", "spark.sched.planner.drainTimeout=1min")
    # With such modules in the way our daemon could not be imported, but Spark's own can.
    settings += ("spark.python.daemon.module=pyspark.daemon",)
    done = run("plan", *settings, cwd=tmp_path)
    assert "ended" in done.stdout, done.stderr[-3000:]
    imported = tmp_path / "imported"
    assert not imported.exists() or "spark_sched.planner" not in imported.read_text()
    assert learned(tmp_path / "history.db") == 1


@pytest.mark.slow
def test_a_driver_that_prefers_ipv6_has_a_planner(tmp_path: Path) -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    options = "-Djava.net.preferIPv6Addresses=true"
    done = run("plan", "spark.driver.host=localhost", cwd=tmp_path, java=options)
    assert "ended" in done.stdout, done.stderr[-3000:]


REFUSED = {
    "spark.sched.planner.policy=resrvation": "(did you mean 'reservation'?)",
    "spark.sched.planner.solver=price": "(did you mean 'prices'?)",
    "spark.sched.policy.3sigma.window=1s": (
        "spark.sched.policy.3sigma.window is 1000 ms but must be at least 5000 ms"
    ),
    "spark.sched.history.path=mysql://host/db": "the history's URL begins with mysql://",
}


def test_what_the_planner_refuses_stops_an_application_before_any_executor(tmp_path: Path) -> None:
    done = run("refused", *REFUSED, cwd=tmp_path, master="local-cluster[1,1,512]")
    said = [line for line in done.stdout.splitlines() if line.startswith("REFUSED ")]
    assert len(said) == len(REFUSED), done.stderr[-3000:]
    for line, words in zip(said, REFUSED.values(), strict=True):
        assert words in line
    assert "Executor added" not in done.stderr
    assert "Launching executor" not in done.stderr
    assert not list(tmp_path.glob("work/app-*"))
