"""Gates: phases whose pilot tasks run before their others (SLearn §5.1.2), as the plan's `PilotSet` says."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from spark_sched.sim.records import Attempt, PhaseRun
from spark_sched.sim.waiting import WaitingPhases

__all__ = ["Gates", "arrival_key"]

#: Of a phase: its job's arrival, then its place in the job.
arrival_key = attrgetter("job.arrival", "part", "index")


class Gates:
    """Keeps the tasks behind a gate out of the order in which phases get slots, until it opens.

    A gate waits for the first attempt of each pilot alone: whether that succeeds, is evicted or is lost with
    its node, it is over. So a gate opens whatever happens to its pilots.

    Args:
        waiting: the order of phases that get slots.
    """

    def __init__(self, waiting: WaitingPhases) -> None:
        self._waiting = waiting
        self._shut: dict[PhaseRun, None] = {}

    def __bool__(self) -> bool:
        """Whether any task waits behind a gate."""
        return bool(self._shut)

    def shut(self, phase: PhaseRun, pilots: Iterable[int]) -> None:
        """From now on only ``pilots`` of the phase's waiting tasks are in the order.

        Those that are done already are over. Nothing changes for a gang, which starts whole or not at all.
        """
        self.open(phase)
        if phase.spec.gang:
            return
        asked = set(pilots)
        first = [index for index in phase.pending if index in asked]
        runs = {attempt.index for attempt in phase.running.values()}
        phase.pilots = asked & (runs | set(first))
        if not phase.pilots:
            return
        phase.behind = [index for index in phase.pending if index not in asked]
        phase.pending = first
        if phase.behind:
            self._shut[phase] = None
        if not first and phase.queued:
            self._waiting.remove(phase)

    def open(self, phase: PhaseRun) -> None:
        """All its tasks may start; pilots that still wait go first."""
        phase.pilots = set()
        if phase.behind:
            phase.pending = phase.behind + phase.pending
            phase.behind = []
        self._shut.pop(phase, None)
        if phase.pending:
            self._waiting.add(phase)

    def ended(self, attempt: Attempt) -> bool:
        """A pilot's attempt is over, however, and no more its phase's. Returns whether the gate opens."""
        phase = attempt.phase
        if any(other.index == attempt.index for other in phase.running.values()):
            return False
        phase.pilots.discard(attempt.index)
        if phase.pilots:
            return False
        self.open(phase)
        return True

    def again(self, phase: PhaseRun, index: int) -> None:
        """A task of the phase must run again: behind the gate, which waits for first attempts alone."""
        if phase.pilots:
            phase.behind.append(index)
            self._shut[phase] = None
        else:
            phase.pending.append(index)
            self._waiting.add(phase)

    def in_order(self) -> list[PhaseRun]:
        """The phases with tasks behind a gate, in the order of their jobs' arrival: who gets idle slots."""
        return sorted(self._shut, key=arrival_key)

    def emptied(self, phase: PhaseRun) -> None:
        """None of its tasks waits behind the gate any more."""
        self._shut.pop(phase, None)
