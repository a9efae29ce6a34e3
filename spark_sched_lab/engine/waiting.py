"""Stages with tasks that wait for slots, in the order in which they get them."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter

from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine.records import StageRun

_sort_key = attrgetter("sort_key")


class WaitingStages:
    """By priority, the plan's queue and rank, arrival of the job, number of the stage.

    Attributes:
        order: the stages, first one first.
        by_spark_job: Spark jobs count in place of jobs, as on stock Spark (`Capabilities.by_spark_job`).
        unsorted: priorities or ranks changed since the last `sort`.
    """

    def __init__(self, by_spark_job: bool) -> None:
        self.by_spark_job = by_spark_job
        self.order: list[StageRun] = []
        self.unsorted = False

    def add(self, stage: StageRun) -> None:
        """Add a stage with a waiting task. A stage that is present already keeps its place; a stage of a job
        on hold is not added."""
        if not stage.queued and not stage.job.terms.on_hold:
            stage.queued = True
            stage.refresh_key(self.by_spark_job)
            insort(self.order, stage, key=_sort_key)

    def remove(self, stage: StageRun) -> None:
        """Remove a stage without waiting tasks."""
        stage.queued = False
        at = bisect_left(self.order, stage.sort_key, key=_sort_key)
        assert self.order[at] is stage, f"stage {stage.key} is not where its key {stage.sort_key} says"
        del self.order[at]

    def sort(self) -> None:
        """Put the present priorities and ranks in force."""
        if self.unsorted:
            self.unsorted = False
            for stage in self.order:
                stage.refresh_key(self.by_spark_job)
            self.order.sort(key=_sort_key)

    def levels(self) -> list[dict[int, list[StageRun]]]:
        """The stages by priority, highest first, and within one by queue (-1: none)."""
        order, at = self.order, 0
        found: list[dict[int, list[StageRun]]] = []
        while at < len(order):
            priority, queue, *_ = order[at].sort_key
            if not at or order[at - 1].sort_key[0] != priority:
                found.append({})
            end = bisect_left(order, (priority, queue + 1), lo=at, key=_sort_key)
            found[-1][queue] = order[at:end]
            at = end
        return found

    def privileged(self, slots: Slots, now_ms: int) -> list[StageRun]:
        """The stages that may take a slot if none is open: their job holds one, or the ledger does not refuse
        it all that others hold."""
        holders, order, at = slots.holders, self.order, 0
        found = [stage for job in holders for stage in job.stages.values() if stage.queued]
        # Without pools the ledger refuses a job what it refuses an earlier one of the same priority.
        by_place = not self.by_spark_job and all(job.rule.pool is None for job in holders)
        while at < len(order):
            stage = order[at]
            at += 1
            if stage.job in holders:
                continue
            if slots.may_override(stage.job, now_ms):
                found.append(stage)
            elif by_place:
                priority, queue, *_ = stage.sort_key
                at = bisect_left(order, (priority, queue + 1), lo=at, key=_sort_key)
        found.sort(key=_sort_key)
        return found
