"""GS's queues: the queue of a job by its size, and the share of each queue (SLearn §5.1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_sched.config import values
from spark_sched.errors import BadInputError
from spark_sched.policies.options import Option, OptionValues
from spark_sched.policies.scale import Scale
from spark_sched.state import JobView

FIRST_QUEUE = Option(
    "firstQueue",
    values.or_auto(values.time_ms(1)),
    "auto",
    "Jobs of less slot time than this are in the first queue. The limit of each further queue is ten times "
    "that of the one before. With `auto` it follows the lower quartile of the slot times of the latest 200 "
    "jobs, in rare steps; until ten jobs are known it is 1 s, and it is never more than 1,000 s.",
)
#: `FIRST_QUEUE` before any size is known, the least one, and SLearn's own value, which is the greatest.
_PRIOR_MS, _LEAST_MS, PAPER_MS = 1e3, 10.0, 1e6


@dataclass(frozen=True, slots=True)
class Queues:
    """Queue q has the jobs of less than ``first_ms * growth ** q`` slot-milliseconds that no queue before it
    has; the last one has the rest. A queue weighs ``fall`` times as much as the next.

    Attributes:
        count: N, at least 1.
        first_ms: Q_0^hi, above 0.
        growth: E, above 1.
        fall: at least 1.
    """

    count: int = 10
    first_ms: float = PAPER_MS
    growth: float = 10.0
    fall: float = 10.0

    def __post_init__(self) -> None:
        if self.count < 1 or not self.first_ms > 0.0 or not self.growth > 1.0 or not self.fall >= 1.0:
            raise BadInputError(
                f"{self} are not valid queues: give one or more, a first threshold above 0 ms, growth above "
                "1 and weights that fall by 1 or more"
            )

    @property
    def weights(self) -> tuple[float, ...]:
        """Shares by queue, the first one's 1."""
        return tuple(self.fall**-q for q in range(self.count))

    def threshold_ms(self, queue: int) -> float:
        """The size at which jobs leave ``queue`` for the next one; infinite for the last."""
        return self.first_ms * self.growth**queue if queue < self.count - 1 else float("inf")

    def of(self, work_ms: float) -> int:
        """The queue of a job with this work."""
        queue, threshold_ms = 0, self.first_ms
        while queue < self.count - 1 and work_ms >= threshold_ms:
            queue += 1
            threshold_ms *= self.growth
        return queue

    def in_turn(self, running: Sequence[int]) -> list[int]:
        """The queues in the order in which they get a slot: fewest running tasks over weight first, the
        earlier queue of equals. ``running``: running tasks by queue."""
        weights = self.weights
        return sorted(range(self.count), key=lambda q: (running[q] / weights[q], q))

    def ranked(self, jobs: Iterable[JobView], queues: Mapping[str, int]) -> list[JobView]:
        """The jobs in the order in which they get slots: by their queue's turn, in a queue by arrival."""
        jobs, running = list(jobs), [0] * self.count
        for job in jobs:
            running[queues[job.job]] += job.running_slots
        turn = {queue: at for at, queue in enumerate(self.in_turn(running))}
        return sorted(jobs, key=lambda job: (turn[queues[job.job]], job.arrival))


@dataclass(frozen=True, slots=True)
class AdaptedQueues:
    """The queues of a policy's plans.

    Attributes:
        queues: in force.
        scale: of the jobs' slot times in ms, which the first queue follows; None: a setting gives its limit.
    """

    queues: Queues
    scale: Scale | None

    @classmethod
    def of(cls, options: OptionValues) -> AdaptedQueues:
        first_ms = options[FIRST_QUEUE]
        if first_ms is not None:
            return cls(Queues(first_ms=first_ms), None)
        return cls(Queues(first_ms=_PRIOR_MS), Scale(_PRIOR_MS, _LEAST_MS, PAPER_MS))

    def after(self, work_ms: Iterable[float]) -> AdaptedQueues:
        """After jobs of so much work became known."""
        if self.scale is None:
            return self
        scale = self.scale.after(work_ms)
        queues = self.queues
        if scale.value != self.scale.value:
            queues = replace(queues, first_ms=scale.value)
        return AdaptedQueues(queues, scale)

    @property
    def reason(self) -> str:
        """How the first queue was chosen, for people, after another reason."""
        if self.scale is None:
            return ""
        return (
            f"; the first queue ends at {self.queues.first_ms / 1000.0:.3g} slot-seconds {self.scale.basis}"
        )
