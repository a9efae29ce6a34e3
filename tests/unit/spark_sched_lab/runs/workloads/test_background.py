import numpy as np
import pytest

from spark_sched_lab.runs.workloads.background import BatchSize, draw_batch, trace_fit

SIZE = BatchSize(slots=16, work_s=40.0, max_task_s=10.0, backlog_s=15.0)


def batch(seed=0, size=SIZE):
    return draw_batch(trace_fit(), size, np.random.default_rng(seed))


def test_the_same_seed_gives_the_same_batch_and_another_seed_another():
    assert batch(3) == batch(3)
    assert batch(3) != batch(4)


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_has_the_work_asked_for_and_no_job_more(seed):
    jobs = batch(seed)
    work_slot_s = sum(job.work_slot_s for job in jobs)
    assert work_slot_s >= SIZE.slots * SIZE.work_s > work_slot_s - jobs[-1].work_slot_s


@pytest.mark.parametrize("seed", range(5))
def test_tasks_stay_within_the_longest_and_jobs_within_the_slots(seed):
    for job in batch(seed):
        assert 1 <= len(job.task_durations_ms) <= SIZE.slots
        assert all(200 <= ms <= 10_000 for ms in job.task_durations_ms)


@pytest.mark.parametrize("seed", range(5))
def test_the_backlog_is_there_at_once_and_the_rest_arrives_in_the_first_half(seed):
    jobs = batch(seed)
    arrivals_s = [job.arrival_s for job in jobs]
    assert arrivals_s == sorted(arrivals_s)
    queued_slot_s = sum(job.work_slot_s for job in jobs if job.arrival_s == 0.0)
    assert queued_slot_s >= SIZE.slots * SIZE.backlog_s
    assert arrivals_s[-1] <= SIZE.work_s / 2 + 0.001


def test_a_limit_that_a_class_of_jobs_cannot_meet_leaves_the_other_classes():
    jobs = batch(size=BatchSize(slots=16, work_s=5.0, max_task_s=2.0, backlog_s=3.0))
    assert jobs
    assert all(len(job.task_durations_ms) == 1 for job in jobs)  # wide jobs of the trace are all longer


def test_a_limit_that_no_job_can_meet_is_refused():
    with pytest.raises(ValueError, match="as short as"):
        batch(size=BatchSize(slots=16, work_s=5.0, max_task_s=0.1))


def test_the_shipped_fit_says_where_it_comes_from_and_its_quantiles_ascend():
    fit = trace_fit()
    assert "clusterdata-2011-2" in fit["source"]
    assert fit["command"].startswith("python benchmarks/fit_google2011.py")
    for row in fit["classes"]:
        for name in ("job_mean_duration_s", "within_job_cov"):
            assert row[name] == sorted(row[name])
    assert fit["task_count"] == sorted(fit["task_count"])


def test_durations_follow_the_trace_scaled_down_ten_times():
    fit = trace_fit()
    jobs = draw_batch(fit, BatchSize(16, 20_000.0, 1e9), np.random.default_rng(0))
    single = [job.task_durations_ms[0] / 1000 for job in jobs if len(job.task_durations_ms) == 1]
    trace_median_s = fit["classes"][0]["job_mean_duration_s"][25]
    # Enough draws (hundreds) for a median within a quarter; not scaled it would be ten times off.
    assert len(single) > 200
    assert np.median(single) == pytest.approx(trace_median_s / 10, rel=0.25)
