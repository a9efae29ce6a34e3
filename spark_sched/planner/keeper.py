"""Where the planner keeps what it learns, and which ends of jobs it has learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from spark_sched.events import Event, JobEnded, JobStarted


class Keeper(Protocol):
    """Stores what the predictors learned beyond the end of this process. Must not raise and must not wait."""

    @property
    def waiting(self) -> int:
        """Ended jobs of which not everything is stored yet."""
        ...

    @property
    def given_up(self) -> int:
        """Ended jobs of which not everything could be stored."""
        ...

    def stored_upto(self) -> int:
        """The highest number of a job's end that is stored; 0: none."""
        ...

    def seal(self, number: int | None) -> None:
        """All that the end of this number taught has been saved: store it."""
        ...

    def try_again(self) -> None:
        """Try to store what waits, if it is time."""
        ...

    def close(self) -> None:
        """Store what waits, and give up what cannot be stored in time."""
        ...

    def remember(self, policy: str, memory: Mapping[str, Any]) -> None:
        """Keep what a policy remembers."""
        ...

    def remembered(self, policy: str) -> Mapping[str, Any] | None:
        """What the policy remembered; None: nothing."""
        ...


class NoKeeper:
    """Nothing is kept beyond this process."""

    waiting = 0
    given_up = 0

    def stored_upto(self) -> int:
        return 0

    def seal(self, number: int | None) -> None:
        pass

    def try_again(self) -> None:
        pass

    def close(self) -> None:
        pass

    def remember(self, policy: str, memory: Mapping[str, Any]) -> None:
        pass

    def remembered(self, policy: str) -> Mapping[str, Any] | None:
        return None


class LearnedEnds:
    """Which ends of jobs were learned.

    The driver tells a new planner, and one whose queue overflowed, of the ended jobs that no planner has
    reported as stored. This planner, or one before it that was killed before its report, may have learned
    them.

    Args:
        upto: highest number of an end that was learned.
    """

    def __init__(self, upto: int) -> None:
        self.upto = upto

    def learned(self, event: Event) -> None:
        if isinstance(event, JobEnded) and event.number is not None:
            self.upto = max(self.upto, event.number)

    def of_learned_jobs(self, events: Iterable[Event]) -> Iterator[bool]:
        """Of each event, from the last one to the first: whether it is of a job whose learned end follows."""
        learned: dict[str, bool] = {}
        for event in events:
            if isinstance(event, JobEnded):
                learned[event.job] = event.number is not None and event.number <= self.upto
            job = getattr(event, "job", None)
            yield job is not None and learned.get(job, False)
            if isinstance(event, JobStarted):
                learned.pop(event.job, None)
