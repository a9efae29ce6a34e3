"""Another program that a command runs in its own place."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import FrameType


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    every_s: float | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> int:
    """Run a program to its end, and call ``meanwhile`` after each ``every_s`` seconds of it.

    Returns its exit status, 128 + n if signal n ended it. Raises OSError if it cannot be started.

    A terminal's Ctrl-C reaches the program by itself and it ends in its own time; a SIGTERM that is sent to
    this process alone is passed on. Either way this process goes on after the program's end.
    """
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def passed_on(number: int, _frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    # A child would inherit that a signal is ignored, but no handler.
    handlers = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda _number, _frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, passed_on),
    }
    try:
        child = subprocess.Popen(command, env=environment)
        for number in early:
            child.send_signal(number)
        while True:
            try:
                status = child.wait(every_s)
                break
            except subprocess.TimeoutExpired:
                meanwhile()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
