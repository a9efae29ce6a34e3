"""Phases with tasks that wait for slots, in the order in which they get them."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter

from spark_sched.sim.placement import Slots
from spark_sched.sim.records import PhaseRun

__all__ = ["WaitingPhases"]

_sort_key = attrgetter("sort_key")


class WaitingPhases:
    """By priority, the plan's queue and rank, arrival of the job, number of the phase.

    Attributes:
        order: the phases, first one first.
        unsorted: priorities or ranks changed since the last `sort`.
    """

    def __init__(self) -> None:
        self.order: list[PhaseRun] = []
        self.unsorted = False

    def add(self, phase: PhaseRun) -> None:
        """A phase has a task that waits; one that is there already stays where it is."""
        if not phase.queued:
            phase.queued = True
            phase.refresh_key()
            insort(self.order, phase, key=_sort_key)

    def remove(self, phase: PhaseRun) -> None:
        """None of its tasks waits any more."""
        phase.queued = False
        at = bisect_left(self.order, phase.sort_key, key=_sort_key)
        assert self.order[at] is phase, f"phase {phase.key} is not where its key {phase.sort_key} says"
        del self.order[at]

    def sort(self) -> None:
        """Put the present priorities and ranks in force."""
        if self.unsorted:
            self.unsorted = False
            for phase in self.order:
                phase.refresh_key()
            self.order.sort(key=_sort_key)

    def levels(self) -> list[dict[int, list[PhaseRun]]]:
        """The phases by priority, highest first, and within one by queue (-1: none)."""
        order, at = self.order, 0
        found: list[dict[int, list[PhaseRun]]] = []
        while at < len(order):
            priority, queue, *_ = order[at].sort_key
            if not at or order[at - 1].sort_key[0] != priority:
                found.append({})
            end = bisect_left(order, (priority, queue + 1), lo=at, key=_sort_key)
            found[-1][queue] = order[at:end]
            at = end
        return found

    def privileged(self, slots: Slots) -> list[PhaseRun]:
        """Those that may take a slot although none is open: their job holds one or outranks a holder."""
        lowest = min(job.priority for job in slots.holders)
        found = []
        for phase in self.order:
            if phase.job.priority <= lowest:
                break
            found.append(phase)
        for job in slots.holders:
            if job.priority <= lowest:
                found += [phase for phase in job.phases.values() if phase.queued]
        found.sort(key=_sort_key)
        return found
