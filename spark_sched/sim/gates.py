"""Gates: stages whose pilot tasks run before their others (SLearn §5.1.2), as the plan's `PilotSet` says."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from spark_sched.sim.records import Attempt, StageRun
from spark_sched.sim.waiting import WaitingStages

__all__ = ["Gates", "arrival_key"]

#: Of a stage: its job's arrival, then its place in the job.
arrival_key = attrgetter("job.arrival", "part", "index")


class Gates:
    """Keeps the tasks behind a gate out of the order in which stages get slots, until it opens.

    A gate waits for the first attempt of each pilot alone: whether that succeeds, is evicted or is lost with
    its node, it is over. So a gate opens whatever happens to its pilots.

    Args:
        waiting: the order of stages that get slots.
    """

    def __init__(self, waiting: WaitingStages) -> None:
        self._waiting = waiting
        self._shut: dict[StageRun, None] = {}

    def __bool__(self) -> bool:
        """Whether any task waits behind a gate."""
        return bool(self._shut)

    def shut(self, stage: StageRun, pilots: Iterable[int]) -> None:
        """From now on only ``pilots`` of the stage's waiting tasks are in the order.

        Those that are done already are over. Nothing changes for a gang, which starts whole or not at all.
        """
        self.open(stage)
        if stage.spec.gang:
            return
        asked = set(pilots)
        first = [index for index in stage.pending if index in asked]
        runs = {attempt.index for attempt in stage.running.values()}
        stage.pilots = asked & (runs | set(first))
        if not stage.pilots:
            return
        stage.behind = [index for index in stage.pending if index not in asked]
        stage.pending = first
        if stage.behind:
            self._shut[stage] = None
        if not first and stage.queued:
            self._waiting.remove(stage)

    def open(self, stage: StageRun) -> None:
        """All its tasks may start; pilots that still wait go first."""
        stage.pilots = set()
        if stage.behind:
            stage.pending = stage.behind + stage.pending
            stage.behind = []
        self._shut.pop(stage, None)
        if stage.pending:
            self._waiting.add(stage)

    def ended(self, attempt: Attempt) -> bool:
        """A pilot's attempt is over, however, and no more its stage's. Returns whether the gate opens."""
        stage = attempt.stage
        if any(other.index == attempt.index for other in stage.running.values()):
            return False
        stage.pilots.discard(attempt.index)
        if stage.pilots:
            return False
        self.open(stage)
        return True

    def again(self, stage: StageRun, index: int) -> None:
        """A task of the stage must run again: behind the gate, which waits for first attempts alone."""
        if stage.pilots:
            stage.behind.append(index)
            self._shut[stage] = None
        else:
            stage.pending.append(index)
            self._waiting.add(stage)

    def in_order(self) -> list[StageRun]:
        """The stages with tasks behind a gate, in the order of their jobs' arrival: who gets idle slots."""
        return sorted(self._shut, key=arrival_key)

    def emptied(self, stage: StageRun) -> None:
        """None of its tasks waits behind the gate any more."""
        self._shut.pop(stage, None)
