"""The benchmarks' own arithmetic; their measurements need a machine and time."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from spark_sched.attach import properties as attach
from spark_sched.policies.registry import available
from spark_sched_lab.enforce.barriers import Barriers, JobBarriers
from spark_sched_lab.runs.demo.timeline import Span, Timeline
from spark_sched_lab.simulator import JobSpec, StageSpec

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_papers_formula_for_copies_gives_the_papers_gain(benchmark):
    mean, ratio_of_means = benchmark("copies").formula(20, 1.6, np.random.default_rng(0))
    assert mean == pytest.approx(0.48, abs=0.01)
    assert ratio_of_means == pytest.approx(0.72, abs=0.03)


def test_copies_gain_more_from_a_heavier_tail(benchmark):
    gains = [benchmark("copies").formula(20, alpha, np.random.default_rng(0))[0] for alpha in (1.2, 1.6, 2.5)]
    assert gains == sorted(gains, reverse=True)


def test_a_share_counts_the_slots_in_use_at_each_moment(benchmark):
    kinds = [(0, 1000, "foreground"), (500, 1000, "foreground"), (0, 900, "background")]
    timeline = Timeline(0, 1000, {"0": ""}, {"0": 4}, tuple(Span("0", *kind) for kind in kinds))
    times_s, used = benchmark("fair_pools").share(timeline, "foreground", 4)
    assert times_s == [0.0, 0.25, 0.5, 0.75]
    assert used == [0.25, 0.25, 0.5, 0.5]


def test_an_urgent_job_has_its_slots_when_the_last_task_of_its_first_attempts_starts(benchmark, tmp_path):
    def start(at_ms, stages, group):
        properties = {"spark.jobGroup.id": group}
        event = {"Event": "SparkListenerJobStart", "Submission Time": at_ms, "Stage IDs": stages}
        return {**event, "Properties": properties}

    def task(stage, at_ms):
        event = {"Event": "SparkListenerTaskStart", "Stage ID": stage}
        return {**event, "Task Info": {"Launch Time": at_ms}}

    events = [
        start(500, [0], "foreground"), task(0, 600),  # an earlier round's
        start(1_000, [1], "background-1"), task(1, 1_010), task(1, 1_020),
        start(3_000, [2], "foreground"), task(2, 3_400), task(2, 3_900), task(1, 9_000),
    ]  # fmt: skip
    log = tmp_path / "events"
    log.write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in events))
    assert benchmark("evictions_live").slots_after_s(log, since_ms=900, tasks=2) == pytest.approx(0.9)


def test_both_arms_of_the_fair_share_benchmark_do_the_same_work(benchmark):
    jobs = benchmark("fair_pools").jobs
    stock = jobs(4, 8, np.random.default_rng(3), marked=False)
    ours = jobs(4, 8, np.random.default_rng(3), marked=True)
    assert [job.stages for job in stock] == [job.stages for job in ours]
    assert [job.mark is None for job in stock] == [True, True]
    assert [job.mark is None for job in ours] == [False, True]


def test_a_hold_that_expires_before_the_barrier_loses_its_stage(benchmark):
    def event(kind, time_ms, **more):
        return {"type": kind, "time_ms": time_ms, "job": "mark-1", **more}

    events = [
        event("job_started", 0, name="j", marked=True),
        event("stage_started", 0),
        event("stage_ended", 900),
        event("stage_started", 1_000),
        event("slot_held", 1_200, executor="0"),
        event("slot_held", 1_300, executor="0"),
        event("slot_freed", 1_500, executor="0", reason="expired"),
        event("slot_freed", 1_800, executor="0", reason="used"),
        event("stage_ended", 1_900),
        # Behind the barrier: not the deadline's matter.
        event("slot_held", 1_900, executor="0"),
        event("slot_freed", 2_000, executor="0", reason="expired"),
        event("stage_started", 2_100),
        event("stage_ended", 3_000),
        {"type": "stage_started", "time_ms": 0, "job": "another"},
    ]
    job = benchmark("deadlines").watch(events)["j"]
    assert job.attained() == [0.0, 1.0]  # the second and the third stage
    assert job.held_ms == 300 + 500 + 100


def test_a_stage_that_is_given_up_holds_slots_until_its_centre_and_others_until_the_barrier(benchmark):
    stage, times_ms = benchmark("first_stages").stage, np.array([1_000.0, 2_000.0, 3_000.0, 4_000.0])
    # The first draw is 0.501, and nothing is known of earlier stages.
    assert stage(JobBarriers(Barriers(0)), times_ms, 0.4) == (False, 1_000.0, 16_000.0)
    assert stage(JobBarriers(Barriers(0)), times_ms, 0.6) == (True, 3_000.0 + 2_000.0 + 1_000.0, 16_000.0)


def test_a_cold_executor_is_one_that_has_not_read_the_data_before(benchmark):
    def task(stage, locality, executor, taken_ms):
        info = {
            "Launch Time": 100,
            "Finish Time": 100 + taken_ms,
            "Locality": locality,
            "Executor ID": executor,
        }
        return {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": stage,
            "Task End Reason": {"Reason": "Success"},
            "Task Info": info,
        }

    rows = [
        (1, "ANY", "9", 70),  # no task of the stage is near its input: an aggregation
        *((2, "PROCESS_LOCAL", "0", ms) for ms in (10, 20, 30)),
        (2, "ANY", "1", 160),
        *((3, "PROCESS_LOCAL", "0", ms) for ms in (10, 10)),
        (3, "ANY", "1", 30),
        (3, "ANY", "2", 50),
    ]
    found = benchmark("warm_slots").ratios(task(*row) for row in rows)
    assert found == {"cold": [8.0, 5.0], "warm": [3.0]}


def test_a_recorded_stage_keeps_its_spark_job_parents_and_task_times(benchmark):
    def task(stage, index, cpu_ns):
        return {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": stage,
            "Task End Reason": {"Reason": "Success"},
            "Task Info": {"Index": index},
            "Task Metrics": {"Executor CPU Time": cpu_ns, "Executor Deserialize CPU Time": 1_000},
        }

    def job(number, *stages):
        properties = {"spark.jobGroup.id": "kmeans 2 0"}
        return {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Stage IDs": stages,
            "Properties": properties,
        }

    def stage(number, submitted, *parents):
        info = {"Stage ID": number, "Submission Time": submitted, "Parent IDs": parents}
        return {"Event": "SparkListenerStageCompleted", "Stage Info": info}

    # Stage 3 of the second Spark job is skipped: its shuffle is there, so that stage 4 follows the first job.
    events = [
        *(job(5, 0, 1), task(0, 1, 4_000_000), task(0, 0, 2_000_000), stage(0, 10)),
        *(task(1, 0, 9_000), stage(1, 20, 0), job(6, 3, 4), task(4, 0, 1_000), stage(4, 30, 3)),
    ]
    assert benchmark("record_mllib").stages_of(iter(events)) == {
        "kmeans 2 0": [
            {"job": 0, "parents": [], "tasks_us": [2_001, 4_001]},
            {"job": 0, "parents": [0], "tasks_us": [10]},
            {"job": 1, "parents": [1], "tasks_us": [2]},
        ]
    }


def test_jobs_with_deadlines_may_be_preempted_live_and_in_the_simulator(benchmark, tmp_path, monkeypatch):
    """`never` forbids evictions, too; without isolation no slot is held, on which a copy could run."""
    module = benchmark("three_sigma_live")
    kinds = module.recurring(np.random.default_rng(0))
    jobs = module.one_run(kinds, 10.0, np.random.default_rng(1))
    assert {(job.mark.copies, job.mark.isolation) for job in jobs} == {("auto", 0.0)}
    history = tmp_path / "history.db"
    module.write_history(history, kinds, 1, np.random.default_rng(2))
    specs = []

    def simulated(cluster, given, *args, **more):
        specs.extend(given)
        raise InterruptedError

    monkeypatch.setattr(module, "simulate", simulated)
    with pytest.raises(InterruptedError):
        module.simulated_missed(jobs, "prio", 8, history)
    assert len(specs) == len(jobs)
    assert all(spec.copies for spec in specs)


def test_tiny_jobs_are_marked_where_the_scheduler_is_attached(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(attach, "build", lambda spark_home: tmp_path / "bridge.jar")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    module = benchmark("tiny_jobs")
    made = {arm: module.properties_of(arm, tmp_path) for arm in (module.STOCK, module.NULL, "fair")}
    assert [module.is_attached(properties) for properties in made.values()] == [False, False, True]
    assert made["fair"]["spark.sched.planner.policy"] == "fair"


def test_every_policy_that_the_benchmark_of_3sigma_names_is_run(benchmark, monkeypatch):
    module = benchmark("sigma_e2e")
    wanted = []

    def execute(runs, **_):
        wanted.extend(json.loads(run.arguments) for run in runs)
        raise InterruptedError

    monkeypatch.setattr(module, "execute", execute)
    with pytest.raises(InterruptedError):
        module.main.callback(5.0, 1.4, "7", ",".join(module.LABELS), None, False)
    assert [each.get("calibrated") for each in wanted if each["policy"] == "3sigma"] == [None, False]
    assert {each["policy"] for each in wanted} <= set(available())
    assert {each["load"] for each in wanted} == {1.4}


def test_uwfqs_unfairness_is_how_much_later_than_under_user_fair_sharing_jobs_end(benchmark):
    base = {"small-1": (0, 1_000), "large-1": (500, 2_500), "large-2": (0, 4_000)}
    found = {"small-1": (0, 1_500), "large-1": (500, 3_000), "large-2": (0, 3_000)}
    at = benchmark("uwfq").measures("power", found, base)
    # Half of 1 s and a quarter of 2 s later; the third job ends earlier.
    assert at == {"mean_s": pytest.approx(7 / 3), "few_s": 1.5, "dvr": pytest.approx(0.375), "violations": 2}


def test_uwfqs_cases_have_the_papers_shapes(benchmark):
    uwfq = benchmark("uwfq")
    jobs = uwfq.power(np.random.default_rng(0))
    assert len(jobs) == 4 * 2 * 20 + 2 * 12
    assert sum(job.work_ms() for job in jobs) == pytest.approx(184 * 25_020, rel=0.001)
    (first, *_) = uwfq.large(np.random.default_rng(0))
    assert [each.key for each in first.and_followers()] == [f"large1-{turn}" for turn in range(4)]
    assert {each.user for each in uwfq.alone(first).and_followers()} == {f"large1-{n}" for n in range(4)}
    macro = uwfq.macro(np.random.default_rng(0))
    assert sum(job.work_ms() for job in macro) == pytest.approx(0.95 * 32 * 500_000, rel=0.01)


def test_users_and_then_their_jobs_get_equal_shares_under_uwfqs_baseline(benchmark):
    uwfq = benchmark("uwfq")
    tasks = (StageSpec([100] * 64),)
    jobs = [JobSpec(f"ann-{n}", 0, tasks, user="ann") for n in range(2)] + [
        JobSpec("bob", 0, tasks, user="bob")
    ]
    # 32 slots: Bob's 64 tasks on 16 slots and Ann's on 8 each, then on 16.
    times = uwfq.times_ms(jobs, uwfq.policies()["user fair"])
    assert {key: end for key, (_, end) in times.items()} == {"bob": 400, "ann-0": 600, "ann-1": 600}
