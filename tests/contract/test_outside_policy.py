"""A policy of another package, as ``docs/how-to/write-a-policy.md`` makes one: contract, simulator, live."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import PolicySettings, available, create
from tests.environment import clean_environment

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "write-a-policy.md"
NAME = "few-tasks-first"
#: Until a planner plans, jobs start in the order in which they come.
PLANNED = """
import json
entry = spark._jvm.org.apache.spark.scheduler.sparksched.SparkSched
while not json.loads(entry.counters(spark._jsc.sc()))["plans_accepted"]:
    time.sleep(0.1)
"""
LATE_START = '"spark.sched.planner.startTimeout": "5min",'
_FILE = r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$"


@pytest.fixture
def settings() -> PolicySettings:
    return PolicySettings.from_config(validate({}))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder for the search path that has the page's files, as if its package were installed there."""
    for name, text in re.findall(_FILE, PAGE.read_text(), re.M | re.S):
        (tmp_path / name).write_text(text)
    points = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["entry-points"]
    install(tmp_path, points["spark_sched.policies"])
    return tmp_path


def install(folder: Path, points: dict[str, str], package: str = "few_tasks_first") -> None:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    rows = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[spark_sched.policies]", *rows, ""]))


def python(package: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


def test_it_keeps_every_promise_of_the_contract(package: Path) -> None:
    tests = ["-m", "pytest", "-q", "-n", "0", "tests/contract/test_policies.py", "-k", NAME]
    done = python(package, *tests, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"^\d+ passed", done.stdout, re.M), done.stdout


def test_it_simulates_with_options_of_each_arm(package: Path) -> None:
    done = python(package, "-m", "spark_sched", "simulate", "experiment.toml", "--json", cwd=package)
    assert done.returncode == 0, done.stderr
    short_s = {
        arm["arm"]: next(each["jct_mean_s"] for each in arm["classes"] if each["class"] == "short")
        for arm in json.loads(done.stdout)["arms"]
    }
    assert short_s[NAME] < short_s["impatient"] < short_s["fifo"]


@pytest.mark.integration
def test_it_plans_for_a_live_application(package: Path) -> None:
    application = package / "application.py"
    text = application.read_text()
    assert "ended = []\n" in text
    application.write_text(text.replace("ended = []\n", f"{PLANNED}ended = []\n"))
    done = python(package, "application.py", cwd=package)
    assert "ended: narrow wide" in done.stdout, done.stdout + done.stderr[-3000:]


@pytest.mark.integration
def test_its_planner_refuses_a_wrong_option_before_the_application_starts(package: Path) -> None:
    application = package / "application.py"
    text = application.read_text().replace("first.patience", "first.patiense")
    # On a crowded machine the application is to wait for a planner that starts late.
    application.write_text(text.replace("settings = {", f"settings = {{{LATE_START}"))
    done = python(package, "application.py", cwd=package)
    assert done.returncode == 1
    assert f"not an option of the policy '{NAME}' (did you mean 'patience'?)" in done.stderr, done.stderr


def test_a_name_that_two_packages_register_is_refused(
    package: Path, monkeypatch: pytest.MonkeyPatch, settings: PolicySettings
) -> None:
    install(package, {NAME: "elsewhere:Policy"}, package="elsewhere")
    monkeypatch.syspath_prepend(package)
    with pytest.raises(BadInputError, match="registered more than once"):
        create(NAME, settings)


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("nowhere_at_all:Policy", r"cannot be loaded from nowhere_at_all:Policy \(No module named"),
        ("json:Policy", r"cannot be loaded from json:Policy"),
        ("json:loads", r"must have capabilities and options"),
    ],
)
def test_an_entry_point_that_is_no_policy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: PolicySettings, point: str, words: str
) -> None:
    install(tmp_path, {NAME: point})
    monkeypatch.syspath_prepend(tmp_path)
    assert NAME in available()
    with pytest.raises(BadInputError, match=words):
        create(NAME, settings)


def test_a_built_in_name_cannot_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: PolicySettings
) -> None:
    install(tmp_path, {"fifo": "json:loads"})
    monkeypatch.syspath_prepend(tmp_path)
    assert create("fifo", settings).name == "fifo"
