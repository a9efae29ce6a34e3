"""The simulator against queueing theory, in two steps. Each job's time in the simulator is that of a short
recursion, and the mean of the recursion over many more jobs is that of the closed form.

Fixed seeds; the number of jobs gives the precision of the means. Interarrival and service times are
stratified (one draw in each of n equal slices of the distribution, then shuffled): the order stays random,
and the sample itself has the load that is asked for.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate, uniform_nodes

Floats = npt.NDArray[np.float64]
#: Mean service time; the clock's millisecond is then far below what is measured.
SERVICE_MS = 20_000.0
#: Jobs whose times in the simulator are compared one by one.
SIMULATED_JOBS = 5_000
#: Tasks of the simulator end at whole milliseconds, and all later ones of a busy period inherit that.
ROUNDING = {"rel": 0.001, "abs": SERVICE_MS / 200}

#: Service times of so many jobs with this mean.
Draw = Callable[[np.random.Generator, int, float], Floats]


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


def times_of(specs: Sequence[JobSpec]) -> tuple[list[int], list[int]]:
    """When each arrives, and its service time, as the simulator gets them."""
    return [spec.submit_ms for spec in specs], [spec.stages[0].durations_ms[0] for spec in specs]


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


def waits_of(arrivals: Sequence[float], services: Sequence[float], servers: int) -> list[float]:
    """The wait of each job for one of the servers, first come, first served (Kiefer and Wolfowitz)."""
    free_at = [0.0] * servers
    waits = []
    for at, service in zip(arrivals, services, strict=True):
        start = max(at, heapq.heappop(free_at))
        waits.append(start - at)
        heapq.heappush(free_at, start + service)
    return waits


def sample(draw: Draw, load: float, servers: int, count: int, seed: int) -> tuple[Floats, Floats]:
    """Interarrival and service times of a queue with this load, in milliseconds."""
    rng = np.random.default_rng(seed)
    return exponential(rng, count, SERVICE_MS / (load * servers)), draw(rng, count, SERVICE_MS)


@pytest.mark.parametrize(
    ("servers", "load", "count"), [(2, 0.5, 200_000), (2, 0.7, 150_000), (4, 0.8, 150_000), (4, 0.9, 250_000)]
)
def test_mean_wait_is_erlangs(servers: int, load: float, count: int) -> None:
    gaps, services = sample(exponential, load, servers, count, seed=1)
    waits = waits_of(np.cumsum(gaps).tolist(), services.tolist(), servers)
    # The luck of one server that is as fast as all of these together.
    mean = float(np.mean(waits)) / SERVICE_MS / luck(gaps, services / servers)
    assert mean == pytest.approx(erlang_c_wait(load, servers), rel=0.02)


@pytest.mark.parametrize(("servers", "load"), [(2, 0.5), (3, 0.9), (4, 0.8)])
def test_every_single_wait_is_that_of_the_recursion(servers: int, load: float) -> None:
    specs = list(jobs_of(*sample(exponential, load, servers, SIMULATED_JOBS, seed=7)))
    result = simulate(ClusterSpec(uniform_nodes(servers, 1)), iter(specs), keep_tasks=False)
    expected = waits_of(*times_of(specs), servers)
    simulated = dict(zip(result.jobs["job"], result.jobs["wait_ms"], strict=True))
    assert [simulated[spec.key] for spec in specs] == expected


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


def sojourns_of(arrivals: Sequence[float], services: Sequence[float], cores: int) -> list[float]:
    """The time in the system of each job where all present share the cores equally, at most one core each.

    All present have the same attained service since any one moment, so those that came with the least left
    leave first: a heap of what the common clock of service shows when each is done.
    """
    sojourns = [0.0] * len(arrivals)
    ends: list[tuple[float, int]] = []
    now = served = 0.0
    for number in range(len(arrivals) + 1):
        until = arrivals[number] if number < len(arrivals) else math.inf
        while ends:
            share = min(1.0, cores / len(ends))
            next_end = now + (ends[0][0] - served) / share
            if next_end > until:
                served += (until - now) * share
                break
            now, (served, done) = next_end, heapq.heappop(ends)
            sojourns[done] = now - arrivals[done]
        if number < len(arrivals):
            now = until
            heapq.heappush(ends, (served + services[number], number))
    return sojourns


@pytest.mark.parametrize("draw", [exponential, constant, hyperexponential])
@pytest.mark.parametrize(("load", "count"), [(0.5, 40_000), (0.7, 60_000), (0.8, 80_000), (0.9, 120_000)])
def test_mean_sojourn_under_processor_sharing_depends_on_the_mean_alone(
    draw: Draw, load: float, count: int
) -> None:
    gaps, services = sample(draw, load, 1, count, seed=2)
    mean = float(np.mean(sojourns_of(np.cumsum(gaps).tolist(), services.tolist(), 1))) / SERVICE_MS
    # A job's own service is in its sojourn whatever the luck.
    assert 1.0 + (mean - 1.0) / luck(gaps, services) == pytest.approx(1.0 / (1.0 - load), rel=0.02)


def test_processor_sharing_on_several_cores_is_the_birth_and_death_chain_of_m_m_c() -> None:
    # With exponential demands the number of tasks is a birth-death chain with death rate min(n, cores): that
    # of M/M/c under any order of service. So the mean sojourn is Erlang's wait plus one service.
    cores, load = 4, 0.7
    gaps, services = sample(exponential, load, cores, 100_000, seed=11)
    mean = float(np.mean(sojourns_of(np.cumsum(gaps).tolist(), services.tolist(), cores))) / SERVICE_MS
    assert mean == pytest.approx(1.0 + erlang_c_wait(load, cores), rel=0.02)


@pytest.mark.parametrize("draw", [exponential, constant, hyperexponential])
@pytest.mark.parametrize(("cores", "load"), [(1, 0.5), (1, 0.9), (4, 0.8)])
def test_every_single_sojourn_is_that_of_the_clock_of_service(draw: Draw, cores: int, load: float) -> None:
    specs = list(jobs_of(*sample(draw, load, cores, SIMULATED_JOBS, seed=3)))
    server = ClusterSpec((NodeSpec("n", slots=1_000_000, cores=cores),), model="sharing")
    result = simulate(server, iter(specs), keep_tasks=False)
    expected = sojourns_of(*times_of(specs), cores)
    simulated = dict(zip(result.jobs["job"], result.jobs["jct_ms"], strict=True))
    assert [simulated[spec.key] for spec in specs] == pytest.approx(expected, **ROUNDING)
