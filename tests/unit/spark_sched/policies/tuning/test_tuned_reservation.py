"""The policy ``tuned-reservation``: whose level it tunes, what it measures, and where it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import JobPlan, Policy, PolicySettings, create
from spark_sched.policies.tuning.measures import HeldIdle, Slowdown
from spark_sched.policies.tuning.policy import JOBS_KEPT, Tuning
from spark_sched.policies.tuning.steps import Tuned
from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    JobEnded,
    JobStarted,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState, EndedJob
from spark_sched_lab.cluster.cluster import ClusterSpec, uniform_nodes
from spark_sched_lab.engine.run import simulate
from spark_sched_lab.engine.workload import JobSpec, StageSpec, pareto_sampler

PREFIX = "spark.sched.policy.tuned-reservation."


def options(**given: object) -> dict[str, str]:
    return {PREFIX + name: str(value) for name, value in given.items()}


def policy(**given: object) -> Policy:
    return create("tuned-reservation", PolicySettings.from_config(validate(options(**given))))


class Story:
    """A cluster of four slots, and the policy that sees each of its moments."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state = ClusterState()
        self.memory: Any = None
        self.entries: dict[str, JobPlan] = {}
        self.tasks = 0
        self.at(ExecutorAdded(0, "e", "h", 4))

    def at(self, *events: Event) -> None:
        for event in events:
            self.state.apply(event)
        snapshot = self.state.snapshot()
        plan, self.memory = self.policy.decide(
            snapshot, {}, snapshot.now_ms, np.random.default_rng(0), self.memory
        )
        self.entries = {entry.job: entry for entry in plan.jobs}

    def run(self, key: str, start_ms: int, held_ms: int, name: str = "report", **marks: Any) -> JobPlan:
        """A run of one task of 1 s, after which a slot is held for so long. The job's plan at its start."""
        entry = self.start(key, start_ms, name, **marks)
        self.end(key, start_ms, held_ms)
        return entry

    def start(self, key: str, start_ms: int, name: str = "report", **marks: Any) -> JobPlan:
        self.tasks += 1
        job = JobStarted(start_ms, key, name, "ann", 10, None, None, None, True, True)
        self.at(
            replace(job, **marks),
            StageStarted(start_ms, key, f"{key}.0", "p", 0, 1, None, True, False, True),
            TaskLaunched(start_ms, key, f"{key}.0", self.tasks, 0, "e", False),
        )
        return self.entries[key]

    def end(self, key: str, start_ms: int, held_ms: int) -> None:
        end_ms = start_ms + 1_000
        task = next(task.task for stage in self.state.snapshot().jobs[key].stages for task in stage.running)
        self.at(
            TaskEnded(end_ms, key, f"{key}.0", task, 0, "e", 1_000, "success", False),
            SlotHeld(end_ms, key, f"{key}.0", "e", end_ms + 10**6),
            StageEnded(end_ms, key, f"{key}.0", True),
        )
        self.at(JobEnded(end_ms + held_ms, key, "ended"))

    def runs(self, count: int, held_ms: int, first: int = 0, **marks: Any) -> list[JobPlan]:
        return [
            self.run(f"{marks.get('name', 'r')}{number}", 10_000 * number, held_ms, **marks)
            for number in range(first, first + count)
        ]


def level(entry: JobPlan) -> float | None:
    return None if entry.reservation is None else entry.reservation.isolation


def test_without_a_goal_it_decides_as_reservation_and_remembers_nothing() -> None:
    story, plain = Story(policy()), Story(create("reservation", PolicySettings.from_config(validate({}))))
    tuned, expected = story.runs(8, held_ms=1_000), plain.runs(8, held_ms=1_000)
    assert tuned == expected
    assert story.memory == Tuning()


def test_a_job_that_holds_slots_idle_for_too_long_gets_a_lower_level_and_the_reason() -> None:
    story = Story(policy(loss=0.05))
    entries = story.runs(7, held_ms=1_000)  # half of its slot time
    assert [level(entry) for entry in entries] == [1, 1, 1, 1, 1, 0.9, 0.9]
    assert "no run has ended" in entries[0].reason
    assert "P 1 after 2 runs: 15.0 % (" in entries[2].reason  # counts with three times the goal
    assert "the tuned isolation 0.9" in entries[5].reason
    assert "; P 1 -> 0.9 after 5 runs: 15.0 % (" in entries[5].reason
    assert ") of its slot time held idle, goal 5 %" in entries[5].reason


def test_a_job_slower_than_the_goal_gets_a_higher_level() -> None:
    story = Story(policy(slowdown=1.2, highest=0.5))
    story.at(StageStarted(0, "nobody", "n.0", "p", 0, 1, None, True, False, True))  # unknown: ignored
    assert [level(entry) for entry in story.runs(3, held_ms=0)] == [0.5] * 3
    assert "slowdown 1.00 (1.00 to " in story.start("last", 90_000).reason


def test_users_and_names_have_levels_of_their_own() -> None:
    story = Story(policy(loss=0.05))
    story.runs(5, held_ms=1_000)
    assert level(story.run("a", 90_000, 0)) == 0.9
    assert level(story.run("b", 100_000, 0, name="other")) == 1
    assert level(story.run("c", 110_000, 0, user="bob")) == 1


@pytest.mark.parametrize("marks", [{"isolation": 0.7}, {"priority": 0}, {"name": ""}])
def test_jobs_with_a_level_of_their_own_below_the_priority_or_without_a_name_are_not_tuned(
    marks: dict[str, Any],
) -> None:
    story = Story(policy(loss=0.05))
    assert len({level(entry) for entry in story.runs(8, held_ms=1_000, **marks)}) == 1
    assert story.memory == Tuning()


def test_a_run_keeps_its_level_and_is_no_evidence_for_a_later_one() -> None:
    story = Story(policy(loss=0.05))
    assert level(story.start("long", 0)) == 1
    story.runs(5, held_ms=1_000)
    story.start("next", 60_000)
    assert (level(story.entries["long"]), level(story.entries["next"])) == (1, 0.9)
    story.end("long", 0, 90_000)
    assert story.memory.jobs["ann", "report"].values == ()


def test_jobs_that_are_remembered_are_bounded() -> None:
    names: dict[tuple[str | None, str], Tuned] = {(None, str(n)): Tuned(1.0) for n in range(JOBS_KEPT)}
    story = Story(policy(loss=0.05))
    story.memory = Tuning(names, {})
    story.runs(3, held_ms=0)
    assert len(story.memory.jobs) == JOBS_KEPT
    assert ("ann", "report") in story.memory.jobs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": 0.05, "slowdown": 1.2}, "are both set"),
        ({"loss": 0.05, "lowest": 0.8, "highest": 0.4}, "must not be above"),
        ({"loss": 2}, "must be a number from 0.001 to 0.5, or empty"),
    ],
)
def test_goals_and_bounds_that_contradict_each_other_are_refused(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        policy(**given)


# ---- what a run shows ----


def slowdown_of(delays_ms: list[int]) -> float:
    """Of a run of one stage on four slots, whose tasks of 1 s are launched so long after its start."""
    state, measure = ClusterState(), Slowdown()
    state.apply(ExecutorAdded(0, "e", "h", 4))
    state.apply(JobStarted(0, "j", "j", None, 0, None, None, None, True, True))
    state.apply(StageStarted(0, "j", "j.0", "p", 0, len(delays_ms), None, True, False, True))
    moments: list[tuple[int, Event]] = []
    for index, delay_ms in enumerate(delays_ms):
        moments.append((delay_ms, TaskLaunched(delay_ms, "j", "j.0", index, index, "e", False)))
        end_ms = delay_ms + 1_000
        ended = TaskEnded(end_ms, "j", "j.0", index, index, "e", 1_000, "success", False)
        moments.append((end_ms, ended))
    for time_ms, event in sorted(moments, key=lambda moment: moment[0]):
        state.apply(event)
        measure = measure.at(state.snapshot().jobs["j"], time_ms, 4)
    found = measure.value(EndedJob(moments[-1][0], 1_000.0 * len(delays_ms)))
    assert found is not None
    return found


def test_slowdown_compares_stages_with_their_longest_task_or_the_whole_cluster() -> None:
    assert slowdown_of([0, 0, 0, 0]) == pytest.approx(1.0)
    assert slowdown_of([0, 0, 0, 500]) == pytest.approx(1.5)
    assert slowdown_of([0, 0, 1_000, 1_000]) == pytest.approx(2.0)  # half of the slots: two waves
    assert slowdown_of([0, 0, 0, 0, 1_000, 1_000, 1_000, 1_000]) == pytest.approx(
        1.0
    )  # more tasks than slots


# ---- in the simulator ----

GOAL = 0.08
RUNS = 120


def workload(seed: int) -> list[JobSpec]:
    """A job of three stages with heavy-tailed tasks that runs again and again beside long tasks."""
    rng, draw = np.random.default_rng(seed), pareto_sampler(1.5, 700.0)

    def times() -> list[int]:
        return [min(20_000, time_ms) for time_ms in draw(rng, 4)]

    jobs = [
        JobSpec(
            f"f{number}",
            20_000 * number,
            tuple(StageSpec(times(), parents=(at - 1,) if at else (), name=f"s{at}") for at in range(3)),
            name="report",
            user="ann",
            priority=10,
        )
        for number in range(RUNS)
    ]
    background = [
        JobSpec(f"b{number}", 60_000 * number, (StageSpec([8_000] * 24),), name="background")
        for number in range(RUNS // 3)
    ]
    return sorted([*jobs, *background], key=lambda job: job.submit_ms)


def reports(seed: int, **given: object) -> list[dict[str, Any]]:
    """Rows of the job's runs, in their order."""
    result = simulate(
        ClusterSpec(uniform_nodes(1, 6)),
        workload(seed),
        "tuned-reservation",
        settings={"spark.sched.copies.enabled": "false"} | options(**given),
        seed=seed,
        keep_tasks=False,
    )
    return sorted((row for row in result.rows() if row["name"] == "report"), key=lambda row: row["submit_ms"])


def losses(seed: int, **given: object) -> list[float]:
    return [
        row["held_idle_ms"] / (row["held_idle_ms"] + row["work_ms"] + row["wasted_ms"])
        for row in reports(seed, **given)
    ]


def slowdowns(seed: int, **given: object) -> list[float]:
    """A run alone takes the longest task of each stage: there are more slots than tasks."""
    alone_ms = {job.key: sum(max(stage.durations_ms) for stage in job.stages) for job in workload(seed)}
    return [row["jct_ms"] / alone_ms[row["job"]] for row in reports(seed, **given)]


@pytest.mark.parametrize(
    ("kind", "booked_by", "goal"),
    [(HeldIdle, losses, {"loss": GOAL}), (Slowdown, slowdowns, {"slowdown": 1.4})],
)
def test_what_is_measured_of_runs_is_what_the_simulator_books(
    kind: Any, booked_by: Any, goal: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[float] = []
    value = kind.value

    def recorded(measure: Any, ended: EndedJob) -> float | None:
        found: float = value(measure, ended)
        measured.append(found)
        return found

    monkeypatch.setattr(kind, "value", recorded)
    booked = booked_by(0, **goal)
    assert sorted(measured) == pytest.approx(sorted(booked))


@pytest.mark.parametrize("seed", range(5))
def test_recurring_jobs_with_heavy_tails_end_near_the_goal(seed: int) -> None:
    held = losses(seed, loss=GOAL, lowest=0.1, step=0.2)
    assert np.mean(held[:10]) > 1.5 * GOAL
    assert 0.5 * GOAL < np.mean(held[-50:]) < 1.5 * GOAL
