"""Runs scenarios in a driver program that many tests share (`driver`)."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.environment import clean_environment

ROOT = Path(__file__).parents[2]
MARKER = "SCENARIO "
#: Settings of an application whose UI and metrics are looked at.
WITH_METRICS = (
    "spark.ui.enabled=true",
    "spark.ui.port=0",
    "spark.metrics.conf.*.sink.prometheusServlet.class=org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path=/metrics/prometheus",
    "spark.metrics.namespace=spark",
)
Scenario = Callable[..., dict[str, Any]]


def on(master: str, *settings: str) -> pytest.MarkDecorator:
    """Marks a test whose scenario runs on this master with these settings.

    Tests with equal marks share an application and run one after another in one process (`conftest`).
    """
    return pytest.mark.application(master, *settings)


class Driver:
    """The driver program: started when first asked, started again after it died.

    Args:
        environment: for the program, beside that of this process.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment or {}
        self._process: subprocess.Popen[str] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as this object lives
        self._lines: queue.Queue[str | None] = queue.Queue()

    def run(self, name: str, master: str, *settings: str, timeout_s: float = 600.0) -> dict[str, Any]:
        """The scenario's result, with what was logged meanwhile as ``log``; fails if there is none."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        begin = self._log.seek(0, 2)
        request = {"name": name, "master": master, "settings": settings}
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            line, why = None, f"was not over after {timeout_s:g} s"
        else:
            why = "ended without a result"
        if line is None:
            self.stop(at_once=True)
            raise AssertionError(f"{name} on {master} {why}:\n{self._said(begin)[-6000:]}")
        result: dict[str, Any] = json.loads(line)
        if result.get("kill"):
            self.stop()
        return {**result, "log": self._said(begin)}

    def stop(self, at_once: bool = False) -> None:
        """End it, with its application."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=0.1 if at_once else 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.driver"],
            cwd=ROOT,
            env={**clean_environment(), **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        threading.Thread(target=_listen, args=(self._process, self._lines), daemon=True).start()

    def _said(self, begin: int) -> str:
        self._log.seek(begin)
        return self._log.read().decode(errors="replace")


def _listen(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if line.startswith(MARKER):
                lines.put(line.removeprefix(MARKER))
    lines.put(None)
