"""Whatever the driver says, in whatever order, the picture of the cluster never contradicts itself."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from spark_sched.protocol.events import (
    Batch,
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnded,
    JobStarted,
    ShortTasks,
    SlotFreed,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState, Snapshot

executors = st.sampled_from(["e1", "e2"])
jobs = st.sampled_from(["a", "b"])
stages = st.sampled_from(["1.0", "1.1", "2.0"])
tasks = st.integers(0, 5)
indexes = st.integers(0, 2)
attempts = st.lists(st.tuples(tasks, indexes), min_size=1)


class AnyOrder(RuleBasedStateMachine):
    """Few keys and no order, so that repeats, orphans and late ends are common."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.time_ms = 0
        self.kept: list[tuple[Snapshot, str]] = []

    def say(self, event: Event) -> None:
        self.time_ms += 1
        self.state.apply(event)

    @rule(executor=executors)
    def executor_added(self, executor: str) -> None:
        self.say(ExecutorAdded(self.time_ms, executor, "h", 2))

    @rule(executor=executors)
    def executor_removed(self, executor: str) -> None:
        self.say(ExecutorRemoved(self.time_ms, executor, "lost"))

    @rule(job=jobs)
    def job_started(self, job: str) -> None:
        self.say(JobStarted(self.time_ms, job, "n", None, 0, None, None, None, True, True))

    @rule(job=jobs)
    def job_ended(self, job: str) -> None:
        self.say(JobEnded(self.time_ms, job, "ended"))

    @rule(job=jobs, stage=stages)
    def stage_started(self, job: str, stage: str) -> None:
        self.say(StageStarted(self.time_ms, job, stage, "p", 0, 3, None, False, False))

    @rule(job=jobs, stage=stages)
    def stage_ended(self, job: str, stage: str) -> None:
        self.say(StageEnded(self.time_ms, job, stage, True))

    @rule(job=jobs, stage=stages, task=tasks, index=indexes, executor=executors, copy=st.booleans())
    def task_launched(self, job: str, stage: str, task: int, index: int, executor: str, copy: bool) -> None:
        self.say(TaskLaunched(self.time_ms, job, stage, task, index, executor, copy))

    @rule(
        job=jobs, stage=stages, task=tasks, index=indexes, executor=executors,
        outcome=st.sampled_from(["success", "failed", "killed", "lost"]),
    )  # fmt: skip
    def task_ended(self, job: str, stage: str, task: int, index: int, executor: str, outcome: str) -> None:
        self.say(TaskEnded(self.time_ms, job, stage, task, index, executor, 5, outcome, False))

    @rule(job=jobs, stage=stages, executor=executors, attempts=attempts)
    def short_tasks(self, job: str, stage: str, executor: str, attempts: list[tuple[int, int]]) -> None:
        numbers, places = [task for task, _ in attempts], [index for _, index in attempts]
        self.say(ShortTasks(self.time_ms, job, stage, executor, numbers, places, [5] * len(attempts)))

    @rule(job=jobs, executor=executors)
    def slot_held(self, job: str, executor: str) -> None:
        self.say(SlotHeld(self.time_ms, job, "", executor, 9))

    @rule(job=jobs, executor=executors)
    def slot_freed(self, job: str, executor: str) -> None:
        self.say(SlotFreed(self.time_ms, job, executor, "used"))

    @rule()
    def reset(self) -> None:
        self.state.apply_batch(Batch(self.time_ms, True, 0, self.time_ms, ()))

    @rule()
    def keep_a_snapshot(self) -> None:
        snapshot = self.state.snapshot()
        self.kept.append((snapshot, repr(snapshot)))

    @invariant()
    def nothing_contradicts(self) -> None:
        self.state.check()

    @invariant()
    def a_snapshot_equals_one_made_from_nothing_cached(self) -> None:
        snapshot = self.state.snapshot()
        for record in (*self.state._executors.values(), *self.state._jobs.values()):
            record.changed()
        for job in self.state._jobs.values():
            for stage in job.stages.values():
                stage.changed()
        assert repr(self.state.snapshot()) == repr(snapshot)

    def teardown(self) -> None:
        for snapshot, seen in self.kept:
            assert repr(snapshot) == seen


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40)
