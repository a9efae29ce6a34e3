"""P must mean P: the share of stages whose barrier falls before the deadline of their reservations.

Stages are drawn from distributions that the paper's form fits and from others, and read from recorded runs.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.papers.slot_reservation.deadlines import simulated_stages
from spark_sched_lab.enforce.barriers import Barriers, JobBarriers
from spark_sched_lab.enforce.ledger import Ledger, Rule

LEVELS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
TOLERANCE = 0.05
STAGES = 30

Times = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Times]


def _pareto(alpha: float) -> Draw:
    return lambda rng, n: 1000.0 * (1.0 - rng.random(n)) ** (-1.0 / alpha)


def _lognormal(sigma: float) -> Draw:
    return lambda rng, n: 1000.0 * np.exp(sigma * rng.standard_normal(n))


def _bimodal(rng: np.random.Generator, n: int) -> Times:
    slow = rng.random(n) < 0.1
    return np.where(slow, 10_000.0, 1_000.0) * (1.0 + 0.1 * rng.random(n))


DRAWS = {
    "Pareto 1.2": _pareto(1.2),
    "Pareto 1.6": _pareto(1.6),
    "Pareto 3": _pareto(3.0),
    "log-normal 0.3": _lognormal(0.3),
    "log-normal 1": _lognormal(1.0),
    "bimodal": _bimodal,
}

# Clocks have milliseconds, so that task times and their ratios are often equal.
TIED = {
    "all equal": lambda rng, n: np.full(n, 1_000.0),
    "one of two values": lambda rng, n: np.where(rng.random(n) < 0.1, 10_000.0, 1_000.0),
    "nearly equal": lambda rng, n: np.rint(1_000.0 + 3.0 * rng.standard_normal(n)),
}


def _in_time(job: JobBarriers, times_ms: Times) -> list[bool]:
    """Whether the barrier of the job's next stage falls before the deadline, by isolation level."""
    n = len(times_ms)
    stage = job.new_stage(n)
    stage.open_tasks = n
    ordered = np.sort(times_ms).tolist()
    for time_ms in ordered[: stage.half]:
        stage.task_ended(time_ms)
    deadlines = [job.deadline_ms(stage, level) for level in LEVELS]
    for time_ms in ordered[stage.half :]:
        stage.task_ended(time_ms)
    job.ended(stage, ordered[-1])
    return [ordered[-1] < deadline for deadline in deadlines]


@pytest.mark.parametrize("n_tasks", [4, 20, 400])
@pytest.mark.parametrize("name", DRAWS)
def test_p_is_attained_whatever_the_task_times_are(name: str, n_tasks: int) -> None:
    met = _first_stages(name, n_tasks, jobs=20, stages=STAGES)
    assert met.mean(axis=(0, 1)) == pytest.approx(LEVELS, abs=TOLERANCE)


@pytest.mark.parametrize("n_tasks", [4, 20, 100])
@pytest.mark.parametrize("name", TIED)
def test_p_is_attained_where_many_tasks_take_the_same_time(name: str, n_tasks: int) -> None:
    met = _first_stages(name, n_tasks, jobs=60, stages=STAGES)
    assert met.mean(axis=(0, 1)) == pytest.approx(LEVELS, abs=TOLERANCE)


@pytest.mark.parametrize("n_tasks", [4, 400])
def test_the_first_stage_of_an_unknown_job_in_a_new_application_attains_p(n_tasks: int) -> None:
    """Nothing is known, and a tenth of the tasks take ten times as long."""
    met = _first_stages("bimodal", n_tasks, jobs=1500, stages=1)
    assert met.mean(axis=(0, 1)) == pytest.approx(LEVELS, abs=TOLERANCE)


@pytest.mark.parametrize(("name", "n_tasks"), [("Pareto 1.2", 4), ("log-normal 0.3", 20), ("bimodal", 20)])
def test_each_of_the_first_stages_of_an_unknown_job_attains_p(name: str, n_tasks: int) -> None:
    met = _first_stages(name, n_tasks, jobs=400, stages=8)
    for stages in (slice(1, 2), slice(2, 4), slice(4, 8)):
        assert met[:, stages].mean(axis=(0, 1)) == pytest.approx(LEVELS, abs=TOLERANCE)


def _first_stages(name: str, n_tasks: int, *, jobs: int, stages: int) -> npt.NDArray[np.bool_]:
    """Whether barriers fall before the deadline, by job, stage and isolation level; each job is alone in a
    new application."""
    rng = np.random.default_rng(20)
    met = []
    for seed in range(jobs):
        job = JobBarriers(Barriers(seed))
        met.append([_in_time(job, (DRAWS | TIED)[name](rng, n_tasks)) for _ in range(stages)])
    return np.array(met)


@pytest.mark.parametrize("stages", [1, 8, 13, 21])
def test_choices_by_chance_are_spread_evenly_over_the_stages_at_each_place_of_jobs(stages: int) -> None:
    """The share of draws below any p differs from p by the same for 24 jobs of one application, however many
    stages the jobs have; a multiple of the golden ratio over all stages is off by up to 0.5."""
    jobs, barriers = 24, Barriers(2)
    draws = np.zeros((jobs, stages))
    for number in range(jobs):
        job = JobBarriers(barriers)
        for place in range(stages):
            stage = job.new_stage(2)
            for time_ms in (1_000.0, 2_000.0):
                stage.task_ended(time_ms)
            job.ended(stage, 2_000.0)
            assert stage.expected is not None
            draws[number, place] = stage.expected.ranks.draw
    ordered = np.sort(draws, axis=0)
    below = np.arange(jobs + 1)[:, None] / jobs
    assert np.maximum(below[1:] - ordered, ordered - below[:-1]).max() < 0.1


def test_jobs_of_one_stage_learn_from_other_jobs() -> None:
    rng = np.random.default_rng(3)
    barriers = Barriers()
    met = [_in_time(JobBarriers(barriers), DRAWS["log-normal 1"](rng, 20)) for _ in range(600)]
    assert np.mean(met, axis=0) == pytest.approx(LEVELS, abs=TOLERANCE)


def test_stages_of_changing_width_and_length_attain_p() -> None:
    rng = np.random.default_rng(4)
    met = []
    for seed in range(20):
        job = JobBarriers(Barriers(seed))
        for _ in range(STAGES):
            times_ms = rng.uniform(0.1, 10.0) * _pareto(1.6)(rng, int(rng.choice([4, 20, 100, 400])))
            met.append(_in_time(job, times_ms))
    assert np.mean(met, axis=0) == pytest.approx(LEVELS, abs=TOLERANCE)


class _Silent:
    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None: ...

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None: ...


@pytest.mark.parametrize(("name", "tasks", "slots"), [("log-normal 0.3", 20, 16), ("bimodal", 64, 8)])
@pytest.mark.parametrize("level", [0.2, 0.6])
def test_p_is_attained_by_stages_that_run_in_waves(name: str, tasks: int, slots: int, level: float) -> None:
    lost = kept = 0.0
    for seed in range(12):
        rng = np.random.default_rng((8, seed))
        stages = [np.maximum(1, np.rint(DRAWS[name](rng, tasks))).astype(int).tolist() for _ in range(STAGES)]
        found = simulated_stages(stages, {}, isolation=level, seed=seed, slots=slots)
        lost, kept = lost + found["lost"], kept + found["stages"]
    assert 1.0 - lost / kept == pytest.approx(level, abs=TOLERANCE)


def _ledger_in_time(level: float, stages: Iterable[Times], seed: int) -> list[bool]:
    """The same by a ledger with its defaults: whether every hold lasts until the barrier."""
    ledger = Ledger(_Silent(), seed=seed)
    ledger.job_started("fg", False, Rule(priority=10, isolation=level, copies=False))
    met, now_ms, tasks = [], 0, itertools.count()
    for number, times_ms in enumerate(stages):
        n, stage = len(times_ms), f"{number}.0"
        ledger.executor_added("e", n)
        ledger.stage_started("fg", stage, number, n, n, False, False, now_ms)
        launched = [(int(time_ms), next(tasks)) for time_ms in np.sort(times_ms)]
        for index, (_, task) in enumerate(launched):
            ledger.task_launched(task, stage, index, "e", False, now_ms)
        expired = ledger.counters.holds_expired
        for time_ms, task in launched:
            wake_ms = ledger.next_wake_ms(now_ms + time_ms)
            if wake_ms is not None and wake_ms <= now_ms + time_ms:
                ledger.expire(now_ms + time_ms)
            decision = ledger.task_ended(task, True, now_ms + time_ms)
        met.append(ledger.counters.holds_expired == expired and decision.keep)
        now_ms += launched[-1][0]
    return met


@pytest.mark.parametrize("level", [0.4, 0.9])
@pytest.mark.parametrize("name", ["Pareto 1.2", "Pareto 3", "log-normal 1"])
def test_the_ledger_attains_p_with_its_defaults(name: str, level: float) -> None:
    rng = np.random.default_rng(5)
    met = [_ledger_in_time(level, [DRAWS[name](rng, 20) for _ in range(STAGES)], seed) for seed in range(16)]
    assert np.mean(met) == pytest.approx(level, abs=TOLERANCE)


@pytest.mark.shared
def test_recorded_task_times_attain_p(shared: Path) -> None:
    """TPC-H's stages in their order, query after query in one application; Google's jobs, a stage each; the
    first stages of both in new applications, which know nothing of earlier runs."""
    barriers, met = Barriers(), []
    queries = _tpch(shared / "data" / "tpch_spark_profiles" / "profiles.jsonl.gz")
    for i in np.random.default_rng(6).permutation(len(queries)):
        job = JobBarriers(barriers)
        met += [_in_time(job, times_ms) for times_ms in queries[i]]
    assert len(met) > 500
    assert np.mean(met, axis=0) == pytest.approx(LEVELS, abs=TOLERANCE)

    jobs = _hawk(shared / "data" / "hawk_traces" / "GOOG_subtrace.tr")
    barriers = Barriers()
    order = np.random.default_rng(7).permutation(len(jobs))[:600]
    met = [_in_time(JobBarriers(barriers), jobs[i]) for i in order]
    assert np.mean(met, axis=0) == pytest.approx(LEVELS, abs=TOLERANCE)

    first = [*(query[0] for query in queries if query for _ in range(6)), *(jobs[i] for i in order)]
    met = [_in_time(JobBarriers(Barriers(seed)), times_ms) for seed, times_ms in enumerate(first)]
    assert np.mean(met, axis=0) == pytest.approx(LEVELS, abs=TOLERANCE)


def _tpch(path: Path) -> list[list[Times]]:
    queries = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        stages = []
        for stage in json.loads(line)["stages"]:
            fresh = [time_ms for time_ms in stage["fresh_durations"].get("40", []) if time_ms > 0]
            later = stage["first_wave"].get("40", []) + stage["rest_wave"].get("40", [])
            times_ms = fresh if len(fresh) >= 4 else [time_ms for time_ms in later if time_ms > 0]
            if len(times_ms) >= 4:
                stages.append(np.array(times_ms[:400], dtype=float))
        queries.append(stages)
    return queries


def _hawk(path: Path) -> list[Times]:
    lines = path.read_text().splitlines()
    rows = [1_000.0 * np.array([float(field) for field in line.split()[3:]]) for line in lines]
    return [times for times in rows if 4 <= len(times) <= 400 and times.min() > 0]
