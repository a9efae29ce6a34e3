"""Looking for processes, and waiting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def processes_naming(text: str) -> list[int]:
    """Process ids whose command line or working directory mentions ``text``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
            if text in line or text in os.readlink(entry / "cwd"):
                found.append(int(entry.name))
        except OSError:
            continue  # ended while being looked at
    return found


def descendants_running(pid: int, text: str) -> list[int]:
    """Process ids below this one whose command line mentions ``text``."""
    found, below = [], [pid]
    while below:
        parent = below.pop()
        try:
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                below += [int(child) for child in children.read_text().split()]
        except OSError:
            pass  # it, or a thread of it, ended while being looked at
        try:
            if text in Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace"):
                found.append(parent)
        except OSError:
            continue
    return found


def until(condition: Callable[[], object], timeout_s: float = 180.0) -> bool:
    """Whether it came true within that time."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.1)
    return False
