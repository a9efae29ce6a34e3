"""How settings follow the sizes of jobs: rarely, and near the best fixed value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies import PolicySettings, create
from spark_sched.policies.scale import Scale
from spark_sched.policies.three_sigma.policy import ThreeSigmaPolicy
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched.protocol.events import (
    ExecutorAdded,
    JobEnded,
    JobStarted,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

MS = Scale(1_000.0, 10.0, 1e6)


def test_nothing_changes_before_ten_sizes_are_known() -> None:
    assert MS.after([50_000.0] * 9).value == 1_000.0
    assert MS.after([50_000.0] * 9).after([50_000.0]).value == pytest.approx(10**4.5)


def test_it_follows_the_lower_quartile_and_no_single_size() -> None:
    sizes = [200_000.0] * 30 + [1.0] * 5 + [1e12] * 5
    assert MS.after(sizes).value == pytest.approx(10**5.5)


def test_a_size_on_the_border_of_two_steps_does_not_make_it_flap() -> None:
    border = 10**3.25 * 1_000.0**0.5  # between two steps
    rng = np.random.default_rng(0)
    scale, values = MS.after([border] * 20), []
    for _ in range(500):
        scale = scale.after([border * float(rng.uniform(0.7, 1.4))])
        values.append(scale.value)
    assert len(set(values)) == 1


def test_it_follows_an_application_whose_jobs_change_and_stays_within_its_bounds() -> None:
    scale = MS.after([300.0] * 100)
    assert scale.value == pytest.approx(10**2.5)
    scale = scale.after([3e9] * 200)
    assert scale.value == 1e6
    assert scale.after([0.001] * 200).value == 10.0
    assert len(scale.sizes) == 200


def jobs(unit_ms: float, seed: int) -> list[JobSpec]:
    """Sixty jobs as in benchmarks/slearn_live.py, whose smallest take about half a ``unit_ms``."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(60):
        tasks = int(3 * 16 ** (rng.random() ** 2))
        typical_ms = 0.15 * unit_ms * 8 ** rng.random()
        drawn.append([max(1, int(typical_ms * rng.lognormal(0.0, 0.25))) for _ in range(tasks)])
    horizon_ms = sum(map(sum, drawn)) / 8 / 1.2
    at_ms = sorted(int(rng.uniform(0.0, horizon_ms)) for _ in drawn)
    return [
        JobSpec(f"job-{n}", at, (StageSpec(ms),)) for n, (at, ms) in enumerate(zip(at_ms, drawn, strict=True))
    ]


def mean_jct_ms(policy: str, unit_ms: float, first_queue: str, sets: int = 3) -> float:
    """Over so many sets of jobs on eight slots."""
    given = validate({f"spark.sched.policy.{policy}.firstQueue": first_queue})
    made = create(policy, PolicySettings.from_config(given))
    cluster = ClusterSpec(uniform_nodes(8, 1))
    results = [
        simulate(cluster, jobs(unit_ms, seed), made, predictor=TaskTimePredictor(None), seed=seed)
        for seed in range(sets)
    ]
    return float(np.mean([jct for result in results for jct in result.jobs["jct_ms"]]))


@pytest.mark.parametrize("unit_ms", [1_000.0, 3_600_000.0], ids=["jobs of seconds", "jobs of hours"])
def test_slearn_without_a_setting_is_near_the_best_first_queue(unit_ms: float) -> None:
    fixed_ms = {text: mean_jct_ms("slearn", unit_ms, text) for text in ("1s", "100s", "1000s")}
    chosen_ms = mean_jct_ms("slearn", unit_ms, "auto")
    assert chosen_ms <= 1.05 * min(fixed_ms.values()), fixed_ms
    if unit_ms == 1_000.0:
        assert chosen_ms < 0.9 * fixed_ms["1000s"], "the paper's value puts all of them into one queue"


def test_reasons_say_which_first_queue_was_chosen_and_why() -> None:
    def reason(first_queue: str) -> str:
        policy = create(
            "gs-las",
            PolicySettings.from_config(validate({"spark.sched.policy.gs-las.firstQueue": first_queue})),
        )
        state, memory = ClusterState(), None
        state.apply(ExecutorAdded(0, "e", "h", 4))
        for n in range(12):
            state.apply(JobStarted(n, f"j{n}", "n", None, 0, None, None, None, True, True))
            state.apply(StageStarted(n, f"j{n}", f"{n}.0", "s", 0, 1, None, True, False))
            state.apply(TaskLaunched(n, f"j{n}", f"{n}.0", n, 0, "e", False))
            _, memory = policy.decide(state.snapshot(), {}, n, np.random.default_rng(0), memory)
            state.apply(TaskEnded(n, f"j{n}", f"{n}.0", n, 0, "e", 33_000, "success", False))
            state.apply(JobEnded(n, f"j{n}", "ended"))
        state.apply(JobStarted(99, "last", "n", None, 0, None, None, None, True, True))
        plan, _ = policy.decide(state.snapshot(), {}, 99, np.random.default_rng(0), memory)
        return plan.jobs[0].reason

    assert reason("auto").endswith("; the first queue ends at 31.6 slot-seconds by the sizes seen")
    assert "first queue" not in reason("20s")


class Plans:
    """3Sigma's plans for jobs of one task that take so long, one after the other."""

    def __init__(self, **options: str) -> None:
        given = {f"spark.sched.policy.3sigma.{name}": text for name, text in options.items()}
        policy = create("3sigma", PolicySettings.from_config(validate(given)))
        assert isinstance(policy, ThreeSigmaPolicy)
        self.policy, self.memory, self.now_ms = policy, None, 0
        self.state = ClusterState()
        self.state.apply(ExecutorAdded(0, "e", "h", 4))

    def run(self, jobs: int, takes_ms: int) -> list[int]:
        """The first step of each plan."""
        steps, state = [], self.state
        for _ in range(jobs):
            n = state.version = state.version + 1
            state.apply(JobStarted(self.now_ms, f"j{n}", "n", None, 0, None, None, None, True, True))
            state.apply(StageStarted(self.now_ms, f"j{n}", f"{n}.0", "s", 0, 1, None, True, False))
            state.apply(TaskLaunched(self.now_ms, f"j{n}", f"{n}.0", n, 0, "e", False))
            steps.append(self._decide())
            self.now_ms += takes_ms
            state.apply(TaskEnded(self.now_ms, f"j{n}", f"{n}.0", n, 0, "e", takes_ms, "success", False))
            state.apply(JobEnded(self.now_ms, f"j{n}", "ended"))
        return steps

    def _decide(self) -> int:
        snapshot, rng = self.state.snapshot(), np.random.default_rng(0)
        grid = self.policy.planning(self.memory, snapshot.version).grid
        _, self.memory = self.policy.decide(snapshot, {}, self.now_ms, rng, self.memory)
        return int(grid.starts_ms[1])


@pytest.mark.parametrize(
    ("options", "takes_ms", "last_ms"),
    [
        ({}, 3_000, 316),
        ({}, 7_200_000, 5_000),
        ({"firstStep": "2s"}, 3_000, 2_000),
        ({"window": "1h"}, 3_000, 5_000),
    ],
    ids=["seconds", "hours", "a first step is set", "a window is set"],
)
def test_the_window_of_3sigma_follows_runtimes_unless_it_is_set(
    options: dict[str, str], takes_ms: int, last_ms: int
) -> None:
    plans = Plans(**options)
    steps = plans.run(30, takes_ms)
    assert steps[0] == (2_000 if "firstStep" in options else 5_000)
    assert steps[-1] == last_ms
    assert len(set(steps)) <= 2, "it changes rarely"
    memory: Any = plans.memory
    again: Callable[[], Any] = lambda: plans.policy.decide(  # noqa: E731
        plans.state.snapshot(), {}, plans.now_ms, np.random.default_rng(0), memory
    )[0]
    assert again() == again()
