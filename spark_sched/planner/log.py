"""The planner's log: single lines on standard error, which the driver copies into its own."""

from __future__ import annotations

import logging
from typing import TextIO

from spark_sched.plain_text import plain


class _OneLine(logging.Formatter):
    def __init__(self, secret: str) -> None:
        super().__init__("%(levelname)s %(message)s")
        self.secrets = [secret]

    def format(self, record: logging.LogRecord) -> str:
        text = plain(" | ".join(super().format(record).splitlines()))
        for secret in filter(None, self.secrets):
            text = text.replace(secret, "***")
        return text


def make_log(stream: TextIO, secret: str = "") -> logging.Logger:
    """A logger of its own, which other libraries' settings do not change. It hides ``secret``."""
    log = logging.Logger("spark_sched.planner", logging.INFO)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_OneLine(secret))
    log.addHandler(handler)
    return log


def blot_out(log: logging.Logger, secret: str) -> None:
    """Hide this text in all further lines of `make_log`'s log."""
    for handler in log.handlers:
        if isinstance(handler.formatter, _OneLine):
            handler.formatter.secrets.append(secret)


class Throttle:
    """Decides which repetitions of a message are logged: the 1st, 2nd, 4th, 8th, …"""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def __call__(self, what: str) -> int:
        """How often ``what`` has occurred if this occurrence is to be logged, else 0."""
        times = self._seen[what] = self._seen.get(what, 0) + 1
        return times if times & (times - 1) == 0 else 0
