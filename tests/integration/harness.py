"""Runs one scenario in a process of its own and returns what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.scenarios import MARKER

ROOT = Path(__file__).parents[2]


def run_scenario(
    name: str, master: str, *settings: str, timeout_s: float = 600.0, module: str = "scenarios"
) -> dict[str, Any]:
    """The scenario's result; fails with the end of its log when it printed none."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"tests.integration.{module}", name, master, *settings],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        log = late.stderr.decode(errors="replace") if isinstance(late.stderr, bytes) else str(late.stderr)
        why = f"{name} on {master} was not over after {timeout_s:g} s"
        raise AssertionError(f"{why}:\n{log[-6000:]}") from None
    for line in done.stdout.splitlines():
        if line.startswith(MARKER):
            result: dict[str, Any] = json.loads(line.removeprefix(MARKER))
            result["log"] = done.stderr
            return result
    raise AssertionError(
        f"{name} on {master} printed no result:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    )
