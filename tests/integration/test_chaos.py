"""Applications under random faults lose nothing and leave nothing (`tests.integration.chaos`).

``SPARK_SCHED_CHAOS_S`` is how long faults last under each policy, eight minutes by default, and
``SPARK_SCHED_CHAOS_SEED`` what jobs and faults are drawn from. Each test prints a table of counts. If
``SPARK_SCHED_CHAOS_JSON`` names a folder, it gets the whole result of each run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment
from tests.integration.chaos.report import table
from tests.integration.harness import ROOT
from tests.integration.processes import until

pytestmark = pytest.mark.integration

POLICIES = ("reservation", "3sigma", "slearn")
SECONDS = float(os.environ.get("SPARK_SCHED_CHAOS_S", "480"))
SECONDS_SHORT = 15.0
#: How long the start and the end of an application may take beside the faults: only a hang takes that long.
PATIENCE_S = 1_800.0
#: Each process of a run has it in its environment.
MARK = "SPARK_SCHED_CHAOS_RUN"


class Run:
    """One application in a process of its own."""

    def __init__(self, policy: str, seconds: float, *options: str) -> None:
        self._policy, self._seconds = policy, seconds
        self._mark = uuid.uuid4().hex
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as this object lives
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.chaos",
                policy,
                "--json",
                f"--seconds={seconds}",
                *options,
            ],
            cwd=ROOT,
            env={**clean_environment(), MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def result(self) -> dict[str, Any]:
        """All that was counted; fails if there is no result."""
        try:
            output, _ = self._process.communicate(timeout=self._seconds + PATIENCE_S)
        except subprocess.TimeoutExpired:
            output = ""
        self._log.seek(0)
        said = self._log.read().decode(errors="replace")
        assert output, f"chaos under {self._policy} gave no result:\n{said[-8000:]}"
        found: dict[str, Any] = json.loads(output)
        folder = os.environ.get("SPARK_SCHED_CHAOS_JSON")
        if folder:
            Path(folder, f"chaos-{self._policy}.json").write_text(
                json.dumps({**found, "log": said}, indent=1)
            )
        return found

    def left(self) -> list[int]:
        """Processes of the run that are there now."""
        wanted = f"{MARK}={self._mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # another user's, or ended while being looked at
        return found

    def stop(self) -> None:
        """End all that is there of it."""
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Run]]:
    """Under each policy, all at once: they sleep for most of their time."""
    begun = {policy: Run(policy, SECONDS) for policy in POLICIES}
    yield begun
    for run in begun.values():
        run.stop()


def check(run: Run) -> dict[str, Any]:
    result = run.result()
    text = table(result)
    print(text)
    assert until(lambda: not run.left(), 60.0), f"processes {run.left()} are left\n{text}"
    assert not any(result["counts"].values()), text
    # The run was what it was to be.
    assert result["looks"] > 0
    assert sum(result["faults"].values()) > 0
    return result


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_chaos_loses_nothing_and_leaves_nothing(runs: dict[str, Run], policy: str) -> None:
    result = check(runs[policy])
    for kind in ("stream", "gang", "query", "etl"):
        assert result["jobs"].get(f"{kind}: right", 0) > 0, kind
    assert result["counters"]["planner_restarts"] > 0
    assert result["counters"]["planner_stalls"] > 0


def test_a_short_chaos_loses_nothing_and_leaves_nothing() -> None:
    run = Run("reservation", SECONDS_SHORT, "--short")
    try:
        result = check(run)
    finally:
        run.stop()
    assert result["jobs"]["stream: right"] == 1
    assert result["jobs"]["gang: right"] >= 1
    assert result["faults"]["planner killed"] == result["faults"]["executor killed"] == 1
