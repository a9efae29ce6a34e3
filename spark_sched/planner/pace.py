"""When the planner plans, and how long it waits until then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Plans are at least ``interval_ms`` apart. One is due after a change, when the rules in force should be
    sent again, and when the last plan asked for the next one. Times are in ms of the planner's clock.

    Attributes:
        interval_ms: least time between two plans.
        refresh_ms: time after which the same rules are sent again.
        clock_ms: a monotonic clock.
        changed: something happened that the next plan may depend on.
        heard_at_ms: when the last batch arrived.
        planned_at_ms, sent_at_ms: when the last plan was made, and when one was sent.
        again_at_ms: when the last plan asked for the next one, or its forecasts are to be made anew.
    """

    interval_ms: float
    refresh_ms: float
    clock_ms: Callable[[], float]
    sleep_ms: Callable[[float], None]
    changed: bool = False
    heard_at_ms: float = 0.0
    planned_at_ms: float = -float("inf")
    sent_at_ms: float = -float("inf")
    again_at_ms: float = float("inf")

    def left_ms(self) -> float:
        """Until the next plan is due; 0 or less: it is due."""
        earliest_ms = self.planned_at_ms + self.interval_ms
        refresh_ms = min(self.sent_at_ms + self.refresh_ms, self.again_at_ms)
        return (earliest_ms if self.changed else max(earliest_ms, refresh_ms)) - self.clock_ms()

    def refresh_is_due(self) -> bool:
        """Whether the rules in force expire soon."""
        return self.clock_ms() >= self.sent_at_ms + self.refresh_ms

    def heard(self) -> None:
        """A batch has arrived."""
        self.heard_at_ms = self.clock_ms()

    def since_heard_ms(self) -> int:
        return int(self.clock_ms() - self.heard_at_ms)

    def planned(self) -> None:
        """A plan is being made, of all that happened so far."""
        self.planned_at_ms, self.changed = self.clock_ms(), False

    def since_planned_ms(self) -> float:
        """Time since work on the present plan began."""
        return self.clock_ms() - self.planned_at_ms

    def sent(self) -> None:
        self.sent_at_ms = self.clock_ms()

    def let_events_gather(self) -> None:
        """Sleep for a part of the time until the next plan, if there is any."""
        left_ms = self.left_ms()
        if left_ms > 0.0:
            self.sleep_ms(min(left_ms, self.interval_ms / 2.0))
