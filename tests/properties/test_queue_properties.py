"""Random trees of queues and random workloads: no queue is ever above its ceiling, and no slot idles for a
job whose queues have room."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched.protocol import events
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate

USERS = ("ann", "bob", "cid", "dee")


@st.composite
def amounts(draw: st.DrawFn, least: int = 1) -> Amount | None:
    return draw(
        st.one_of(
            st.none(),
            st.integers(least, 6).map(Amount),
            st.sampled_from((10.0, 30.0, 50.0, 99.5)).map(lambda percent: Amount(percent=percent)),
        )
    )


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """Two queues, each with two below it; a rule for each user. A limit that is above its parent's would be
    refused, and is left out."""
    specs: list[QueueSpec] = []
    for top in ("a", "b"):
        for path in (top, f"{top}.x", f"{top}.y"):
            running = draw(st.one_of(st.none(), st.integers(1, 3)))
            specs.append(
                QueueSpec(
                    path,
                    ceiling=draw(amounts()),
                    held_ceiling=draw(amounts(0)),
                    max_running_jobs=running,
                    max_waiting_jobs=draw(st.one_of(st.none(), st.integers(0, 3))) if running else None,
                    wait_timeout_ms=draw(st.one_of(st.none(), st.integers(0, 9000))) if running else None,
                )
            )
    leaves = ("a.x", "a.y", "b.x", "b.y")
    rules = tuple(PlacementRule(draw(st.sampled_from(leaves)), user=user) for user in USERS)
    top = {spec.path: spec for spec in specs}
    fitting = []
    for spec in specs:
        above = top.get(spec.parent, QueueSpec(""))
        for key in ("ceiling", "held_ceiling"):
            mine, its = getattr(spec, key), getattr(above, key)
            if mine is not None and its is not None and mine.exceeds(its):
                spec = replace(spec, **{key: None})
        if spec.held_ceiling and spec.ceiling and spec.held_ceiling.exceeds(spec.ceiling):
            spec = replace(spec, held_ceiling=None)
        most = above.max_running_jobs
        if spec.max_running_jobs is not None and most is not None:
            spec = replace(spec, max_running_jobs=min(spec.max_running_jobs, most))
        fitting.append(spec)
    return QueueTree(tuple(fitting), rules, "b.y")


@st.composite
def workloads(draw: st.DrawFn) -> list[JobSpec]:
    jobs = []
    for number in range(draw(st.integers(1, 14))):
        stages = []
        for nth in range(draw(st.integers(1, 3))):
            tasks = draw(st.lists(st.integers(1, 3000), min_size=1, max_size=7))
            stages.append(StageSpec(tasks, parents=(nth - 1,) if nth else ()))
        jobs.append(
            JobSpec(
                f"job-{number:02}",
                draw(st.integers(0, 8000)),
                tuple(stages),
                name=f"job-{number:02}",
                user=draw(st.sampled_from(USERS)),
                priority=draw(st.sampled_from((0, 0, 1, 5))),
                marked=True,
                dag_known=draw(st.sampled_from(("to the end", "next stage", "nothing"))),
                tail_ms=draw(st.sampled_from((0, 0, 500))),
            )
        )
    return sorted(jobs, key=lambda job: (job.submit_ms, job.key))


@dataclass
class Seen:
    """The slots of each job, from the run's events alone."""

    running: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waiting: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    active: set[str] = field(default_factory=set)
    began: set[str] = field(default_factory=set)

    def take(self, event: events.Event) -> None:
        match event:
            case events.JobStarted(job=job):
                self.active.add(job)
            case events.JobEnded(job=job):
                self.active.discard(job)
                self.waiting.pop(job, None)
            case events.StageStarted(job=job, tasks=tasks):
                self.waiting[job] += tasks
            case events.TaskLaunched(job=job, copy=copy):
                self.began.add(job)
                self.running[job] += 1
                self.waiting[job] -= not copy
            case events.TaskEnded(job=job):
                self.running[job] -= 1
            case events.SlotHeld(job=job):
                self.held[job] += 1
            case events.SlotFreed(job=job):
                self.held[job] -= 1


def faults(tree: QueueTree, slots: int, users: dict[str, str], seen: Seen) -> list[str]:
    """What is wrong at the end of an instant, in sentences."""
    path_of = {job: [spec.path for spec in tree.path_of(tree.place(user))] for job, user in users.items()}

    def count(path: str, of: dict[str, int]) -> int:
        return sum(number for job, number in of.items() if path in path_of[job])

    found = []
    rooms = {}
    for spec in tree.queues:
        used = count(spec.path, seen.running) + count(spec.path, seen.held)
        most = slots + 1 if spec.ceiling is None else spec.ceiling.of(slots)
        rooms[spec.path] = used < most
        if used > most:
            found.append(f"{spec.path} has {used} slots, ceiling {most}")
        if spec.held_ceiling is not None and count(spec.path, seen.held) > spec.held_ceiling.of(slots):
            found.append(f"{spec.path} holds more than {spec.held_ceiling}")
        jobs = [job for job in seen.active & seen.began if spec.path in path_of[job]]
        if spec.max_running_jobs is not None and len(jobs) > spec.max_running_jobs:
            found.append(f"{spec.path} runs {len(jobs)} jobs, at most {spec.max_running_jobs}")
    idle = slots - sum(seen.running.values()) - sum(seen.held.values())
    for job in seen.active:
        others = {each: 1 for each in seen.active if each != job}
        admissible = all(
            spec.max_running_jobs is None or count(spec.path, others) < spec.max_running_jobs
            for spec in tree.path_of(tree.place(users[job]))
        )
        may_run = admissible and all(rooms[path] for path in path_of[job])
        if idle > 0 and seen.waiting.get(job, 0) > 0 and may_run:
            found.append(f"{idle} slots idle while {job} waits")
    return found


@given(
    tree=trees(),
    jobs=workloads(),
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    policy=st.sampled_from(("fifo", "fair", "reservation", "slearn", "uwfq")),
)
def test_ceilings_are_kept_to_the_slot_and_slots_do_not_idle(
    tree: QueueTree, jobs: list[JobSpec], nodes: list[int], policy: str
) -> None:
    slots, users = sum(nodes), {job.key: str(job.user) for job in jobs}
    seen, at_ms, found = Seen(), [0], list[str]()

    def observe(event: events.Event) -> None:
        if event.time_ms > at_ms[0]:
            found.extend(f"{at_ms[0]} ms: {sentence}" for sentence in faults(tree, slots, users, seen))
            at_ms[0] = event.time_ms
        seen.take(event)

    result = simulate(
        ClusterSpec(tuple(NodeSpec(f"node-{n}", count) for n, count in enumerate(nodes))),
        jobs,
        policy,
        settings={"spark.sched.queues": tree.to_json()},
        observer=observe,
        check=True,
    )
    assert found == []
    refused = sum(row["refused"] for row in result.queues if "." in row["queue"])
    assert result.unfinished == refused
    for row in result.queues:
        assert row["ceiling_slots"] is None or row["peak_slots"] <= row["ceiling_slots"]
