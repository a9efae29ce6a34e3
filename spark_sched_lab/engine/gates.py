"""Stages whose pilot tasks run before the other tasks (SLearn §5.1.2), by the plan's `PilotSet`."""

from __future__ import annotations

from collections.abc import Iterable

from spark_sched_lab.enforce.pilots import PilotGate
from spark_sched_lab.engine.records import Attempt, StageRun
from spark_sched_lab.engine.waiting import WaitingStages


class Gates:
    """Keeps the tasks behind a gate out of the order in which stages get slots, until it opens.

    A gate waits only for the first attempt of each pilot. The pilot counts as ended whether this attempt
    succeeds, is evicted or is lost with its node. So the gate opens whatever happens to its pilots.
    """

    def __init__(self, waiting: WaitingStages) -> None:
        self._waiting = waiting
        # Tasks behind a gate; the next one is last, as in the order of stages.
        self._behind: dict[StageRun, list[int]] = {}

    def __bool__(self) -> bool:
        """Whether any task waits behind a gate."""
        return bool(self._behind)

    def shut(self, stage: StageRun, pilots: Iterable[int]) -> None:
        """Shut the gate: from now on only the ``pilots`` of the stage's waiting tasks are in the order.

        Pilots that have already ended do not count. Nothing changes for a gang, which starts all its tasks at
        once or none.
        """
        self.open(stage)
        if stage.spec.gang:
            return
        gate = stage.gate
        if gate is None:
            runs = {attempt.index for attempt in stage.running.values()}
            fresh = runs.union(stage.pending).difference(stage.reruns.lost)
            over = (index for index in range(stage.spec.tasks) if index not in fresh)
            gate = stage.gate = PilotGate(stage.spec.tasks, over)
        gate.put(pilots)
        if not gate.closed:
            return
        asked = set(gate.waiting)
        behind = [index for index in stage.pending if index not in asked]
        stage.pending = [index for index in stage.pending if index in asked]
        if behind:
            self._behind[stage] = behind
        if not stage.pending and stage.queued:
            self._waiting.remove(stage)

    def open(self, stage: StageRun) -> None:
        """Open the gate: all tasks of the stage may start, in the order in which they would have started
        without it."""
        if stage.gate is not None:
            stage.gate.put(())
        behind = self._behind.pop(stage, None)
        if behind:
            if stage.pending:  # pilots that wait
                lost = stage.reruns.lost
                behind = sorted(behind + stage.pending, key=lambda index: (index in lost, -index))
            stage.pending = behind
        if stage.pending:
            self._waiting.add(stage)

    def ended(self, attempt: Attempt) -> bool:
        """An attempt is over, however. Returns whether the gate of its stage opens."""
        stage = attempt.stage
        if stage.gate is None or not stage.gate.ended(attempt.index):
            return False
        self.open(stage)
        return True

    def again(self, stage: StageRun, index: int) -> None:
        """A task must run again. It waits behind the gate, which waits only for first attempts."""
        stage.reruns.lost.add(index)
        if stage.pilots_first:
            self._behind.setdefault(stage, []).append(index)
        else:
            stage.pending.append(index)
            self._waiting.add(stage)

    def shut_stages(self) -> list[StageRun]:
        """The stages with tasks behind a gate."""
        return list(self._behind)

    def behind(self, stage: StageRun) -> list[int]:
        """Its tasks behind a gate, the next one last. The caller that takes the last one calls `emptied`."""
        return self._behind.get(stage, [])

    def emptied(self, stage: StageRun) -> None:
        """None of its tasks waits behind the gate any more."""
        self._behind.pop(stage, None)
