"""The simulator against closed forms of queueing theory. Fixed seeds; the number of jobs gives the precision.

Interarrival and service times are stratified (one draw in each of n equal slices of the distribution, then
shuffled): the order stays random and the error of the sample's own load is gone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

from spark_sched.sim import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate, uniform_nodes

Floats = npt.NDArray[np.float64]
#: Mean service time; the clock's millisecond is then far below what is measured.
SERVICE_MS = 20_000.0


def stratified(rng: np.random.Generator, count: int) -> Floats:
    """Uniform draws on (0, 1), one in each of ``count`` equal slices, in random order."""
    return rng.permutation((np.arange(count) + rng.random(count)) / count)


def exponential(rng: np.random.Generator, count: int, mean: float) -> Floats:
    return -mean * np.log1p(-stratified(rng, count))


def jobs_of(gaps_ms: Floats, services_ms: Floats) -> Iterator[JobSpec]:
    arrivals = np.cumsum(gaps_ms).round().astype(int).tolist()
    durations = np.maximum(1, services_ms.round()).astype(int).tolist()
    for number, (at, duration) in enumerate(zip(arrivals, durations, strict=True)):
        yield JobSpec(str(number), at, (StageSpec((duration,)),))


def erlang_c_wait(load: float, servers: int) -> float:
    """Mean wait in M/M/c over the mean service time: C(c, a) / (c (1 - rho)) (Erlang's second formula)."""
    offered = load * servers
    last = offered**servers / math.factorial(servers) / (1.0 - load)
    waiting = last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)
    return waiting / (servers * (1.0 - load))


def luck(gaps: Floats, services: Floats) -> float:
    """Mean workload that these arrivals find on one server, over its expectation.

    The workload is the same under every work-conserving order (Lindley's recursion) and its mean is known
    (Pollaczek and Khinchine), so it tells how busy this very sample happens to be. Waits grow with it nearly
    in proportion; dividing by it takes most of the sample's error out (a ratio estimator), most at
    high load, where it matters most.
    """
    found = workload = 0.0
    for gap, service in zip(gaps[1:].tolist(), services[:-1].tolist(), strict=True):
        workload = max(0.0, workload + service - gap)
        found += workload
    load = services.mean() / gaps.mean()
    expected = load * (services**2).mean() / (2.0 * services.mean() * (1.0 - load))
    return float(found / (len(gaps) - 1) / expected)


def simulated_wait(load: float, servers: int, count: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    gaps = exponential(rng, count, SERVICE_MS / (load * servers))
    services = exponential(rng, count, SERVICE_MS)
    result = simulate(ClusterSpec(uniform_nodes(servers, 1)), jobs_of(gaps, services), keep_tasks=False)
    assert result.unfinished == 0
    # The luck of one server that is as fast as all of these together.
    return float(np.mean(result.jobs["wait_ms"])) / SERVICE_MS / luck(gaps, services / servers)


@pytest.mark.parametrize(
    ("servers", "load", "count"),
    [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in ((2, 0.5, 200_000), (2, 0.7, 150_000), (4, 0.8, 150_000), (4, 0.9, 250_000))
    ],
)
def test_mean_wait_is_erlangs(servers: int, load: float, count: int) -> None:
    assert simulated_wait(load, servers, count, seed=1) == pytest.approx(
        erlang_c_wait(load, servers), rel=0.02
    )


def test_every_single_wait_is_that_of_the_recursion_of_kiefer_and_wolfowitz() -> None:
    rng = np.random.default_rng(7)
    specs = list(jobs_of(exponential(rng, 5_000, 1000.0), exponential(rng, 5_000, 2_700.0)))
    result = simulate(ClusterSpec(uniform_nodes(3, 1)), iter(specs))
    free_at = [0, 0, 0]
    expected = {}
    for spec in specs:
        start = max(spec.submit_ms, heapq.heappop(free_at))
        expected[spec.key] = start - spec.submit_ms
        heapq.heappush(free_at, start + spec.stages[0].durations_ms[0])
    assert dict(zip(result.jobs["job"], result.jobs["wait_ms"], strict=True)) == expected


def hyperexponential(rng: np.random.Generator, count: int, mean: float) -> Floats:
    """Two exponentials with balanced means and a squared coefficient of variation of 4."""
    p = 0.5 * (1.0 + math.sqrt(3.0 / 5.0))
    # Stratified in the branch and in the branch's own draw.
    first = round(p * count)
    fast = exponential(rng, first, mean / (2.0 * p))
    slow = exponential(rng, count - first, mean / (2.0 * (1.0 - p)))
    return rng.permutation(np.concatenate([fast, slow]))


def constant(rng: np.random.Generator, count: int, mean: float) -> Floats:
    return np.full(count, mean)


Draw = Callable[[np.random.Generator, int, float], Floats]


def simulated_sojourn(draw: Draw, load: float, count: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    gaps, services = exponential(rng, count, SERVICE_MS / load), draw(rng, count, SERVICE_MS)
    server = ClusterSpec((NodeSpec("n", slots=1_000_000),), model="sharing")
    result = simulate(server, jobs_of(gaps, services), keep_tasks=False)
    assert result.unfinished == 0
    mean = float(np.mean(result.jobs["jct_ms"])) / SERVICE_MS
    # A job's own service is in its sojourn whatever the luck.
    return 1.0 + (mean - 1.0) / luck(gaps, services)


@pytest.mark.parametrize("draw", [exponential, constant, hyperexponential])
@pytest.mark.parametrize(
    ("load", "count"),
    [
        (0.5, 40_000),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((0.7, 60_000), (0.8, 80_000), (0.9, 120_000))
        ),
    ],
)
def test_mean_sojourn_under_processor_sharing_depends_on_the_mean_alone(
    draw: Draw, load: float, count: int
) -> None:
    assert simulated_sojourn(draw, load, count, seed=2) == pytest.approx(1.0 / (1.0 - load), rel=0.02)


@pytest.mark.slow
def test_processor_sharing_on_several_cores_is_the_birth_and_death_chain_of_m_m_c() -> None:
    # With exponential demands the number of tasks is a birth-death chain with death rate min(n, cores): that
    # of M/M/c under any order of service. So the mean sojourn is Erlang's wait plus one service.
    rng = np.random.default_rng(11)
    count, cores, load = 100_000, 4, 0.7
    gaps = exponential(rng, count, SERVICE_MS / (load * cores))
    server = ClusterSpec((NodeSpec("n", slots=1_000_000, cores=cores),), model="sharing")
    result = simulate(server, jobs_of(gaps, exponential(rng, count, SERVICE_MS)), keep_tasks=False)
    mean = float(np.mean(result.jobs["jct_ms"])) / SERVICE_MS
    assert mean == pytest.approx(1.0 + erlang_c_wait(load, cores), rel=0.02)
