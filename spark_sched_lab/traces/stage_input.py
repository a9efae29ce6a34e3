"""What a stage reads, as far as that decides where its tasks run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StageInput:
    """What a stage of Spark reads.

    Attributes:
        cached: the RDDs in its lineage, up to shuffles, that are to be cached; the nearest first.
        shuffles_of: numbers of the stages whose map outputs it reads.
        partitions: number of the partition by task, where it is not the task's own number.
        whole: whether it has a task for each partition, so that tasks and partitions have the same numbers.
        blocks: by partition, the executors that cache its nearest cached block when the stage is submitted;
            None: the log does not tell.
    """

    cached: tuple[int, ...] = ()
    shuffles_of: tuple[int, ...] = ()
    partitions: dict[int, int] = field(default_factory=dict)
    whole: bool = True
    blocks: Mapping[int, frozenset[str]] | None = None

    def partition_of(self, task: int) -> int | None:
        """None where it is not known."""
        found = self.partitions.get(task)
        return task if found is None and self.whole else found
