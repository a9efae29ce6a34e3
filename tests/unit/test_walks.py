"""The tools that write golden sequences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", sorted((ROOT / "tools").glob("*_walk.py")), ids=lambda path: path.stem)
def test_help_and_unknown_arguments_write_nothing(tool: Path) -> None:
    goldens = [p for p in (ROOT / "protocol" / "golden").rglob("*") if p.is_file()]
    before = {path: path.stat().st_mtime_ns for path in goldens}
    for argument, status in (("--help", 0), ("--hlep", 2)):
        done = subprocess.run(
            [sys.executable, str(tool), argument], capture_output=True, text=True, check=False
        )
        assert done.returncode == status
        assert "usage: " + tool.name in done.stdout + done.stderr
    assert {path: path.stat().st_mtime_ns for path in goldens} == before
