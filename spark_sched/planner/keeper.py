"""Where the planner keeps what it learns, and which ends of jobs it has learned."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from spark_sched.policies import Policy
from spark_sched.policies.base import LastingMemory
from spark_sched.protocol.events import Batch, Event, JobEnded, JobStarted


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


class Learning:
    """What the loop does for the keeper: seal ends, leave out what was learned, say what can be reported.

    Attributes:
        keeper: stores what is learned.
        ended: whether a job has ended since this was set to false.
    """

    def __init__(self, keeper: Keeper | None) -> None:
        self.keeper: Keeper = NoKeeper() if keeper is None else keeper
        self.ended = False
        self._ends = LearnedEnds(self.keeper.stored_upto())
        self._unreported = False

    def learned_before(self, batch: Batch) -> list[bool]:
        """For each event, whether it belongs to a job that was learned and is told again."""
        if not batch.reset:
            return [False] * len(batch.events)
        self._unreported = True
        return list(self._ends.of_learned_jobs(reversed(batch.events)))[::-1]

    def job_ended(self, event: JobEnded) -> None:
        """The predictors have learned from the end."""
        self._ends.learned(event)
        self.keeper.seal(event.number)
        self._unreported = self.ended = True

    def reportable(self) -> bool:
        """Whether all ends so far are stored, and some of them have not been reported. Then they count as
        reported."""
        if not self._unreported or self.keeper.waiting:
            return False
        self._unreported = False
        return True

    def recall(self, policy: Policy, log: logging.Logger) -> Any:
        """The policy's memory of earlier planners; None: it has none."""
        if not isinstance(policy, LastingMemory):
            return None
        found = self.keeper.remembered(policy.name)
        try:
            return None if found is None else policy.restored(found)
        except (ValueError, TypeError, KeyError, AttributeError):
            log.warning("the stored memory of policy %s cannot be read", policy.name)
            return None

    def remember(self, policy: Policy, memory: Any) -> None:
        """Keep the policy's memory if a job has ended since the last call."""
        if self.ended and isinstance(policy, LastingMemory):
            self.keeper.remember(policy.name, policy.lasting(memory))
        self.ended = False
