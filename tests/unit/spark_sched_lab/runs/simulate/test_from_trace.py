"""What of a trace is simulated, and what is counted and left out."""

from __future__ import annotations

from collections import Counter

from spark_sched_lab.engine.workload import JobSpec
from spark_sched_lab.runs.simulate.from_trace import jobs_of_trace
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows, chunked


def read(*records: JobRecord) -> tuple[dict[str, JobSpec], Counter[str]]:
    left_out: Counter[str] = Counter()
    jobs = jobs_of_trace(chunked(list(records)), left_out)
    return {job.key: job for job in jobs}, left_out


def rows(*attempts: tuple[int, float | None, str, bool]) -> TaskRows:
    made = TaskRows()
    for task, duration_s, outcome, copy in attempts:
        made.add(task, duration_s, outcome=outcome, copy=copy)
    return made


def test_a_task_takes_what_its_finished_attempt_took_and_copies_are_left_out() -> None:
    attempts = rows(
        (0, 9.0, "failed", False),
        (0, 2.0, "finished", False),
        (1, 3.0, "killed", False),
        (1, 1.0, "finished", True),
    )
    jobs, _ = read(JobRecord("j", "finished", "malleable", [StageRecord(2, rows=attempts)], submit_s=5.0))
    assert list(jobs["j"].stages[0].durations_ms) == [2_000, 3_000]


def test_tasks_that_were_not_measured_take_their_stages_mean() -> None:
    stages = [StageRecord(3, mean_task_s=1.5), StageRecord(2, (0,), mean_task_s=0.0004, delay_s=0.25)]
    jobs, _ = read(JobRecord("j", "finished", "malleable", stages, submit_s=0.0))
    first, second = jobs["j"].stages
    assert list(first.durations_ms) == [1_500] * 3
    assert (list(second.durations_ms), second.parents, second.delay_ms) == ([1, 1], (0,), 250)


def test_a_job_without_stages_is_one_stage_of_its_slots_for_its_runtime() -> None:
    jobs, _ = read(JobRecord("j", "finished", "gang", runtime_s=60.0, slots=8, submit_s=0.0))
    (stage,) = jobs["j"].stages
    assert (stage.tasks, set(stage.durations_ms), stage.gang) == (8, {60_000}, True)


def test_the_first_job_comes_at_0_and_deadlines_move_with_it() -> None:
    late = JobRecord(
        "late", "finished", "malleable", runtime_s=1.0, slots=1, submit_s=110.0, deadline_s=130.5
    )
    early = JobRecord("early", "finished", "malleable", runtime_s=1.0, slots=1, start_s=100.0)
    jobs, _ = read(late, early)
    assert (jobs["early"].submit_ms, jobs["late"].submit_ms, jobs["late"].deadline_ms) == (0, 10_000, 30_500)


def test_times_that_the_clock_cannot_count_are_left_out_and_counted() -> None:
    def job(key: str, submit_s: float, runtime_s: float) -> JobRecord:
        return JobRecord(key, "finished", "malleable", runtime_s=runtime_s, slots=1, submit_s=submit_s)

    jobs, left_out = read(
        job("a", 0.0, 1.0), job("late", 9.3e18, 1.0), job("long", 5.0, 1e26), job("longer", 6.0, 1e308)
    )
    assert set(jobs) == {"a"}
    assert left_out == {"arrival is not a time": 1, "longer than 30,000 years": 2}


def test_a_job_without_durations_is_left_out_and_counted() -> None:
    half = JobRecord(
        "half", "finished", "malleable", [StageRecord(2, mean_task_s=1.0), StageRecord(2)], submit_s=0.0
    )
    jobs, left_out = read(JobRecord("none", "unknown", "malleable", submit_s=0.0), half)
    assert not jobs
    assert left_out == {"no task durations": 2}
