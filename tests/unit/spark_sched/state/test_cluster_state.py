"""What each event does to the picture of the cluster."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobCancelled,
    JobChanged,
    JobEnded,
    JobStarted,
    SchedulingChanged,
    ShortTasks,
    SlotFreed,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
    decode_batch,
)
from spark_sched.state import (
    ClusterState,
    DurationSummary,
    InvariantError,
    JobSummary,
    JobView,
    StageSummary,
    StageView,
)

EXAMPLES = Path(__file__).parents[4] / "protocol" / "examples"


def executor(key: str = "e1", slots: int = 2) -> ExecutorAdded:
    return ExecutorAdded(0, key, "host", slots)


def job(key: str = "j", name: str = "nightly") -> JobStarted:
    return JobStarted(1, key, name, None, 5, None, None, None, True, True)


def stage(key: str = "1.0", index: int = 0, tasks: int = 2, job: str = "j") -> StageStarted:
    return StageStarted(2, job, key, "map", index, tasks, None, False, False)


def launch(task: int, index: int, on: str = "e1", *, copy: bool = False, at: int = 3) -> TaskLaunched:
    return TaskLaunched(at, "j", "1.0", task, index, on, copy)


def end(task: int, index: int, outcome: str = "success", ms: int = 10, *, copy: bool = False) -> TaskEnded:
    return TaskEnded(3 + ms, "j", "1.0", task, index, "e1", ms, outcome, copy)


def state_of(*events: Event) -> ClusterState:
    state = ClusterState()
    for event in events:
        state.apply(event)
        state.check()
    return state


def only_stage(state: ClusterState) -> StageView:
    return state.snapshot().jobs["j"].stages[0]


def only_job(state: ClusterState) -> JobView:
    return state.snapshot().jobs["j"]


START = (executor(), executor("e2"), job(), stage())


def test_running_and_finished_tasks_are_counted() -> None:
    view = only_stage(state_of(*START, launch(7, 0), launch(8, 1), end(7, 0, ms=20)))
    assert view.finished == 1
    assert [task.task for task in view.running] == [8]
    assert (view.durations.count, view.durations.min_ms) == (1, 20)
    assert view.durations.sum_log_ms == pytest.approx(math.log(20))


def test_a_task_that_takes_two_slots_counts_for_two_until_its_end() -> None:
    wide = StageStarted(2, "j", "1.0", "map", 0, 2, None, False, False, slots_per_task=2)
    state = state_of(executor(slots=4), job(), wide, launch(7, 0), launch(8, 1))
    assert only_stage(state).slots_per_task == 2
    assert only_job(state).running_slots == state.snapshot().executors["e1"].running_slots == 4
    state.apply(StageEnded(4, "j", "1.0", True))
    state.apply(end(7, 0))
    state.check()
    assert only_job(state).running_slots == state.snapshot().executors["e1"].running_slots == 2


def test_a_task_and_its_copy_finish_one_task_only_once() -> None:
    state = state_of(*START, launch(7, 0), launch(8, 0, copy=True), end(8, 0, ms=5, copy=True))
    assert only_job(state).running_slots == 1
    state.apply(end(7, 0, ms=50))
    state.check()
    view = only_stage(state)
    assert (view.finished, view.durations.count, view.durations.min_ms) == (1, 1, 5)


def short(tasks: list[int], indices: list[int], ms: list[int]) -> ShortTasks:
    return ShortTasks(9, "j", "1.0", "e1", tasks, indices, ms)


def test_short_tasks_are_what_their_launches_and_ends_would_have_been() -> None:
    told = state_of(*START, launch(7, 0), launch(8, 1), end(7, 0, ms=20), end(8, 1, ms=30))
    folded = state_of(*START, short([7, 8], [0, 1], [20, 30]))
    assert only_stage(folded) == only_stage(told)
    assert only_job(folded).running_slots == 0


def test_a_short_task_whose_copy_was_faster_finishes_nothing() -> None:
    copied = launch(6, 0), launch(7, 0, copy=True), end(7, 0, ms=5, copy=True)
    state = state_of(*START, *copied, short([8, 9], [0, 1], [20, 30]))
    assert (only_stage(state).finished, only_stage(state).durations.count) == (2, 2)


def test_short_tasks_of_an_unknown_stage_are_ignored() -> None:
    state = state_of(executor(), job(), short([7], [0], [20]))
    assert state.ignored["short_tasks"] == 1


@pytest.mark.parametrize("outcome", ["failed", "killed", "lost"])
def test_an_attempt_that_did_not_succeed_finishes_nothing(outcome: str) -> None:
    view = only_stage(state_of(*START, launch(7, 0), end(7, 0, outcome)))
    assert (view.finished, view.durations.count, view.running) == (0, 0, ())


def test_a_lost_result_is_undone_but_its_duration_was_still_seen() -> None:
    view = only_stage(state_of(*START, launch(7, 0), end(7, 0), end(7, 0, "lost")))
    assert (view.finished, view.durations.count) == (0, 1)


def test_a_duration_below_the_clocks_tick_counts_as_one_millisecond() -> None:
    assert only_stage(state_of(*START, launch(7, 0), end(7, 0, ms=-3))).durations.min_ms == 1


def test_a_removed_executor_takes_its_tasks_and_holds_with_it() -> None:
    state = state_of(
        *START, launch(7, 0), launch(8, 1, "e2"), SlotHeld(4, "j", "1.0", "e1", 99), ExecutorRemoved(5, "e1",
        "lost")
    )  # fmt: skip
    snapshot = state.snapshot()
    assert list(snapshot.executors) == ["e2"]
    assert snapshot.jobs["j"].held == {}
    assert snapshot.jobs["j"].running_slots == 1
    state.apply(end(7, 0, "lost"))
    assert state.ignored["task_ended"] == 1


def test_held_slots_are_counted_per_job_and_per_executor() -> None:
    state = state_of(
        *START,
        *[SlotHeld(4, "j", "", key, 99) for key in ("e1", "e1", "e2")],
        SlotFreed(5, "j", "e1", "used"),
    )
    assert only_job(state).held == {"e1": 1, "e2": 1}
    assert only_job(state).held_slots == 2
    assert state.snapshot().executors["e1"].held_slots == 1
    state.apply(JobEnded(9, "j", "ended"))
    state.check()
    assert state.snapshot().executors["e1"].held_slots == 0


def test_a_stage_leaves_its_summary_and_nothing_else() -> None:
    state = state_of(*START, launch(7, 0), end(7, 0, ms=20))
    assert state.apply(StageEnded(30, "j", "1.0", False)) == StageSummary(
        "j", "nightly", "1.0", "map", 0, 2, False, 30, DurationSummary(1, 20, math.log(20))
    )
    assert only_job(state).stages == ()


def test_a_job_leaves_its_summary_and_says_whether_stages_were_cut_short() -> None:
    cut = state_of(*START).apply(JobEnded(40, "j", "idle"))
    assert cut == JobSummary("j", "nightly", True, "idle", 1, 40, cut_short=True)
    whole = state_of(*START, StageEnded(30, "j", "1.0", True)).apply(JobEnded(40, "j", "ended"))
    assert isinstance(whole, JobSummary)
    assert not whole.cut_short


def test_a_job_that_was_seen_to_be_over_later_ended_with_its_last_activity() -> None:
    state = state_of(*START, StageEnded(30, "j", "1.0", True))
    summary = state.apply(JobEnded(10_040, "j", "idle", ended_ms=30))
    assert isinstance(summary, JobSummary)
    assert (summary.ended_ms, state.snapshot().ended["j"].ended_ms) == (30, 30)


def test_a_job_that_ends_before_its_slower_twin_leaves_the_summary_of_its_last_stage_too() -> None:
    state = state_of(*START, launch(7, 0), launch(8, 1), launch(9, 0, copy=True), end(9, 0), end(8, 1, ms=12))
    summary = state.apply(JobEnded(40, "j", "ended"))
    assert isinstance(summary, JobSummary)
    assert not summary.cut_short
    (last,) = summary.stages
    assert (last.stage, last.completed, last.durations.count, last.ended_ms) == ("1.0", True, 2, 40)


def test_a_killed_twin_occupies_its_slot_after_stage_and_job_are_over() -> None:
    state = state_of(*START, launch(7, 0), StageEnded(30, "j", "1.0", True), JobEnded(31, "j", "ended"))
    assert state.snapshot().executors["e1"].running_slots == 1
    state.apply(end(7, 0, "killed"))
    state.check()
    assert state.snapshot().executors["e1"].running_slots == 0
    assert not state.ignored


def test_a_snapshot_does_not_change_with_later_events() -> None:
    state = state_of(*START, launch(7, 0), SlotHeld(4, "j", "", "e2", 99))
    before = state.snapshot()
    seen = repr(before)
    for event in (launch(8, 1), end(7, 0), SlotFreed(5, "j", "e2", "used"), JobEnded(9, "j", "ended")):
        state.apply(event)
    assert repr(before) == seen
    with pytest.raises(TypeError):
        before.jobs["k"] = before.jobs["j"]  # type: ignore[index]
    with pytest.raises(TypeError):
        before.jobs["j"].held["e9"] = 1  # type: ignore[index]


def test_what_did_not_change_is_shared_between_snapshots() -> None:
    state = state_of(*START, job("k"), stage("9.0", job="k"), launch(7, 0))
    before = state.snapshot()
    state.apply(end(7, 0))
    after = state.snapshot()
    assert after.jobs["k"] is before.jobs["k"]
    assert after.executors["e2"] is before.executors["e2"]
    assert after.jobs["j"] is not before.jobs["j"]


def test_ended_work_leaves_nothing_behind_however_much_there_was() -> None:
    state = state_of(executor())
    for n in range(50):
        state.apply(job(f"j{n}"))
        state.apply(stage(job=f"j{n}"))
        state.apply(TaskLaunched(3, f"j{n}", "1.0", n, 0, "e1", False))
        state.apply(TaskEnded(4, f"j{n}", "1.0", n, 0, "e1", 1, "success", False))
        state.apply(StageEnded(5, f"j{n}", "1.0", True))
        state.apply(JobEnded(6, f"j{n}", "ended"))
    state.check()
    assert not state.snapshot().jobs
    assert not state.ignored
    assert state.snapshot().executors["e1"].running_slots == 0


@pytest.mark.parametrize(
    "event",
    [
        ExecutorRemoved(1, "e9", "x"), JobEnded(1, "k", "ended"), stage(job="k"),
        StageEnded(1, "j", "9.0", True),
        launch(7, 0, "e9"), end(9, 0), SlotHeld(1, "k", "", "e1", 2), SlotHeld(1, "j", "", "e9", 2),
        SlotFreed(1, "j", "e1", "used"), executor(), job(), stage(),
    ],
    ids=lambda event: repr(event)[:60],
)  # fmt: skip
def test_events_about_what_is_not_known_or_known_already_are_ignored_and_counted(event: Event) -> None:
    state = state_of(*START)
    before = repr(state.snapshot().jobs)
    assert state.apply(event) is None
    state.check()
    assert state.ignored == {event.type: 1}
    assert repr(state.snapshot().jobs) == before


def test_a_reset_forgets_the_cluster_first() -> None:
    state = ClusterState()
    reset = decode_batch((EXAMPLES / "event-batch.reset.json").read_text())
    ended = state.apply_batch(reset)
    assert [type(summary).__name__ for summary in ended if summary is not None] == ["StageSummary"]
    once = state.snapshot()
    state.apply_batch(reset)
    state.check()
    again = state.snapshot()
    assert list(again.jobs) == list(once.jobs)
    assert again.executors == once.executors
    assert (again.version, again.now_ms) == (reset.version, reset.now_ms)
    assert not state.ignored


def test_tasks_that_were_done_before_a_reset_count_as_finished_without_a_time() -> None:
    told = replace(stage(tasks=4), done=(0, 3))
    state = state_of(executor(), job(), told, launch(7, 1), end(7, 1))
    (view,) = state.snapshot().jobs["j"].stages
    assert (view.finished, view.durations.count) == (3, 1)
    # The result of one of them was lost with its executor: it runs again.
    state.apply(end(2, 3, "lost"))
    (view,) = state.snapshot().jobs["j"].stages
    assert view.finished == 2
    state.check()


def test_a_broken_invariant_tells_the_objects_story() -> None:
    state = state_of(*START, launch(7, 0))
    state._executors["e1"].running_slots += 1
    with pytest.raises(
        InvariantError, match=r"executor e1: running slots: 2 booked, 1 counted\n.*ExecutorAdded"
    ):
        state.check()


def test_a_changed_job_has_its_new_marks_and_is_planned_without_while_on_hold_and_idle() -> None:
    on_hold = JobChanged(5, "j", 9, 0.5, 777, True, "ada")
    state = state_of(executor(), job(), stage(), launch(7, 0), on_hold)
    view = state.snapshot().jobs["j"]
    assert (view.marks.priority, view.marks.isolation, view.marks.deadline_ms, view.on_hold) == (
        9,
        0.5,
        777,
        True,
    )
    assert "j" in state.snapshot().to_plan().jobs, "its running tasks take slots"
    state.apply(end(7, 0))
    state.apply(JobCancelled(6, "j", "ada"))
    assert "j" in state.snapshot().jobs
    assert not state.snapshot().to_plan().jobs
    state.apply(JobChanged(7, "j", 9, 0.5, 777, False, "ada"))
    assert state.snapshot().to_plan() is not None
    assert "j" in state.snapshot().to_plan().jobs
    state.check()


def test_what_was_switched_for_all_jobs_is_known_until_a_reset() -> None:
    switched = SchedulingChanged(5, "fair", "shadow", True, "ada")
    state = state_of(
        switched, JobChanged(5, "nobody", 9, None, None, True, "ada"), JobCancelled(6, "nobody", "ada")
    )
    assert state.scheduling == switched
    assert state.ignored == {"job_changed": 1, "job_cancelled": 1}
    state.clear()
    assert state.scheduling is None


class Watched(dict[int, object]):
    """Counts how often all of its values are gone through."""

    walks = 0

    def values(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().values()

    def items(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().items()


def test_jobs_stages_and_idle_executors_come_and_go_without_a_look_at_all_running_attempts() -> None:
    state = ClusterState()
    watched = state._tasks = Watched()  # type: ignore[assignment]
    events = (*START, launch(1, 0, "e1"), job("k"), stage("2.0", job="k"))
    for event in (
        *events,
        ExecutorRemoved(4, "e2", "idle"),
        JobEnded(5, "k", "ended"),
        JobEnded(5, "j", "ended"),
    ):
        state.apply(event)
    assert watched.walks == 0
    assert only_running(state) == {1}
    state.check()


def only_running(state: ClusterState) -> set[int]:
    return {task for tasks in state._tasks_of.values() for task in tasks}
