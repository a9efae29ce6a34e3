"""Speed of the simulator, beside minimal event loops in the same run.

    python benchmarks/simulator_speed.py [--tasks 100000] [--rounds 3]

The basis is a minimal `heapq` loop over task objects: every task comes as an event object and ends as one,
in one heap, FIFO on slots, with no policies, jobs or records. A barer loop is shown beside it: running tasks
alone in the heap, arrivals read in order. All get the same jobs; runs alternate, CPU time is measured and the
best of the rounds counts, since other work on the machine only ever makes a run slower. Goals: FIFO on slots
reaches half of the basis, and its cost per task stays flat from 1,000 to 10,000 nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import platform
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from spark_sched.protocol.events import Event, TaskLaunched
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes


class Task:
    """A task of the minimal loop: what happens to it is kept on it."""

    def __init__(self, job: int, duration_ms: int, submit_ms: int) -> None:
        self.at_ms = submit_ms
        self.job = job
        self.duration_ms = duration_ms
        self.submit_ms = submit_ms
        self.start_ms: int | None = None
        self.end_ms: int | None = None

    def __lt__(self, other: Task) -> bool:
        return self.at_ms < other.at_ms


def workload(tasks: int, slots: int, load: float = 0.8, per_job: int = 50, seed: int = 1) -> list[JobSpec]:
    """Jobs of one stage with exponential task times of 10 s on average; Poisson arrivals."""
    return list(arrivals(tasks, slots, load, per_job, seed))


def arrivals(
    tasks: int, slots: int, load: float = 0.8, per_job: int = 50, seed: int = 1
) -> Iterator[JobSpec]:
    """The same, made as the clock gets there."""
    rng = random.Random(seed)
    gap_ms = per_job * 10_000 / (load * slots)
    at_ms = 0.0
    for number in range(tasks // per_job):
        at_ms += rng.expovariate(1.0 / gap_ms)
        durations = [max(1, round(rng.expovariate(1e-4))) for _ in range(per_job)]
        yield JobSpec(f"job-{number}", round(at_ms), (StageSpec(durations),))


class Happening:
    """An arrival (1) or an end (0) of a task; ends come first at one instant."""

    def __init__(self, at_ms: int, kind: int, task: Task) -> None:
        self.at_ms = at_ms
        self.kind = kind
        self.task = task

    def __lt__(self, other: Happening) -> bool:
        return (self.at_ms, self.kind) < (other.at_ms, other.kind)


def minimal_loop(jobs: list[JobSpec], slots: int) -> tuple[float, int]:
    """The basis. Returns seconds and the clock at the end in ms."""
    begin = time.process_time()
    events: list[Happening] = []
    for number, job in enumerate(jobs):
        for duration_ms in job.stages[0].durations_ms:
            task = Task(number, duration_ms, job.submit_ms)
            heapq.heappush(events, Happening(job.submit_ms, 1, task))
    waiting: deque[Task] = deque()
    now, free = 0, slots
    while events:
        event = heapq.heappop(events)
        now, task = event.at_ms, event.task
        if event.kind:
            waiting.append(task)
        else:
            task.end_ms = now
            free += 1
        while free and waiting:
            task = waiting.popleft()
            task.start_ms = now
            free -= 1
            heapq.heappush(events, Happening(now + task.duration_ms, 0, task))
    return time.process_time() - begin, now


def bare_loop(jobs: list[JobSpec], slots: int) -> tuple[float, int]:
    """Only running tasks in the heap. Returns as `minimal_loop`."""
    begin = time.process_time()
    running: list[Task] = []
    arrivals = deque(jobs)
    waiting: deque[Task] = deque()
    now, free, number = 0, slots, 0
    while arrivals or running:
        if running and (not arrivals or running[0].at_ms <= arrivals[0].submit_ms):
            task = heapq.heappop(running)
            now = task.end_ms = task.at_ms
            free += 1
        else:
            job = arrivals.popleft()
            now = job.submit_ms
            number += 1
            for duration_ms in job.stages[0].durations_ms:
                waiting.append(Task(number, duration_ms, now))
        while free and waiting:
            task = waiting.popleft()
            task.start_ms = now
            task.at_ms = now + task.duration_ms
            free -= 1
            heapq.heappush(running, task)
    return time.process_time() - begin, now


def simulator(jobs: list[JobSpec], nodes: int, policy: str, **options: object) -> tuple[float, int]:
    cluster = ClusterSpec(uniform_nodes(nodes, 4))
    begin = time.process_time()
    result = simulate(cluster, jobs, policy, keep_tasks=False, **options)  # type: ignore[arg-type]
    seconds = time.process_time() - begin
    assert result.unfinished == 0
    return seconds, int(result.totals["end_ms"])


class _Enough(Exception):
    """The run has been measured."""


def cost_among(waiting: int, policy: str, rounds: int) -> float:
    """Microseconds for the end of a task and the start of another while at least this many tasks wait, best
    of the rounds. The start of the run, when all jobs arrive, does not count."""
    jobs = [replace(job, submit_ms=0) for job in workload(waiting + 10_000, slots=400)]
    cluster = ClusterSpec(uniform_nodes(100, 4))

    def run() -> float:
        at: list[tuple[float, int]] = []

        def progress(ended: int, now_ms: int) -> None:
            at.append((time.process_time(), launched[0]))
            if len(at) == 4:
                raise _Enough

        launched = [0]

        def count(event: Event) -> None:
            launched[0] += isinstance(event, TaskLaunched)

        with contextlib.suppress(_Enough):
            simulate(cluster, jobs, policy, keep_tasks=False, progress=progress, observer=count)
        return (at[3][0] - at[0][0]) / (at[3][1] - at[0][1])

    return min(run() for _ in range(rounds)) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}")
    print(f"{given.tasks} tasks, {given.tasks // 50} jobs; best of {given.rounds} alternating rounds\n")

    jobs = workload(given.tasks, slots=400)
    best: dict[str, float] = {}
    ends: dict[str, int] = {}
    runs = {
        "minimal loop (basis)": lambda: minimal_loop(jobs, 400),
        "bare loop": lambda: bare_loop(jobs, 400),
        "fifo, 100 nodes x 4 slots": lambda: simulator(jobs, 100, "fifo"),
    }
    for _ in range(given.rounds):
        for name, run in runs.items():
            seconds, ends[name] = run()
            best[name] = min(best.get(name, seconds), seconds)
    # The minimal loop's heap gives tasks of one arrival in any order, so that its end may differ by a task.
    del ends["minimal loop (basis)"]
    assert len(set(ends.values())) == 1, f"both must end at the same time: {ends}"
    basis = best["minimal loop (basis)"]
    for name, seconds in best.items():
        print(
            f"{name:32} {given.tasks / seconds:10,.0f} tasks/s {given.tasks / 50 / seconds:8,.0f} jobs/s"
            f"   {basis / seconds:5.2f} of the basis"
        )

    print("\ncost per task by nodes (load 0.8, the same number of tasks):")
    for nodes in (1_000, 3_000, 10_000):
        wide = workload(given.tasks, slots=4 * nodes)
        pairs = [
            (simulator(wide, nodes, "fifo")[0], minimal_loop(wide, 4 * nodes)[0]) for _ in range(given.rounds)
        ]
        seconds, loop = (min(times) for times in zip(*pairs, strict=True))
        print(
            f"{nodes:8} nodes   fifo {seconds / given.tasks * 1e6:6.1f} us"
            f"   minimal loop {loop / given.tasks * 1e6:6.1f} us"
        )

    print("\nother policies (20,000 tasks, 100 nodes x 4 slots):")
    few = workload(20_000, slots=400)
    for policy, options in (
        ("priority", {}),
        ("las", {}),
        ("uwfq", {"predictor": "oracle"}),
        ("fair", {}),
        ("reservation", {"predictor": "history"}),
    ):
        seconds, _ = simulator(few, 100, policy, **options)
        print(f"{policy:32} {20_000 / seconds:10,.0f} tasks/s")

    print("\ncost of an end and a start by waiting tasks (100 nodes x 4 slots; events are made, too):")
    for policy in ("fifo", "las", "fair"):
        costs = [
            f"{waiting}: {cost_among(waiting, policy, given.rounds):.1f} us"
            for waiting in (1_000, 10_000, 100_000, 1_000_000)
        ]
        print(f"{policy:8}", *costs)

    print("\nmemory of a run (jobs made as the clock gets there, no rows of attempts):")
    for tasks in (given.tasks // 8, given.tasks // 4, given.tasks // 2):
        tracemalloc.start()
        result = simulate(
            ClusterSpec(uniform_nodes(100, 4)), arrivals(tasks, slots=400), "fifo", keep_tasks=False
        )
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert result.unfinished == 0
        print(
            f"{tasks:8} tasks   results {kept / 1e6:6.2f} MB = {kept / (tasks / 50):4.0f} bytes a job"
            f"   beside them at most {(peak - kept) / 1e6:5.2f} MB"
        )


if __name__ == "__main__":
    main()
