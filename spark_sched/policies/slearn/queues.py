"""GS's queues: the queue of a job by its size, and the share of each queue (SLearn §5.1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_sched.config import values
from spark_sched.errors import BadInputError
from spark_sched.policies.options import Option
from spark_sched.state import JobView

FIRST_QUEUE = Option(
    "firstQueue",
    values.time_ms(1),
    "1000s",
    "Jobs of less slot time than this are in the first queue. The limit of each further queue is ten times "
    "that of the one before.",
)


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
    first_ms: float = 1e6
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
