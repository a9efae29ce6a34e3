"""Random trees of queues and random workloads: no queue is ever above its ceiling, none stays below its floor
while others have more than theirs, and no slot idles for a job whose queues have room."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config.queues import Amount, PlacementRule, Preemption, QueueSpec, QueueTree
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
def floors(draw: st.DrawFn) -> Amount | None:
    return draw(st.sampled_from((None, Amount(1), Amount(2), Amount(4), Amount(percent=20.0))))


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """Two queues, each with two below it; a rule for each user. A limit that is above its parent's would be
    refused, and is left out."""
    specs: list[QueueSpec] = []
    shares = draw(st.booleans())
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
                    floor=draw(floors()) if shares else None,
                    weight=draw(st.sampled_from((None, 0.5, 1.0, 3.0))) if shares else None,
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
        # Two children with this floor fit into the floor and the ceiling of their parent.
        if (floor := spec.floor) is not None:
            twice = replace(floor, slots=floor.slots and 2 * floor.slots, percent=2 * floor.percent)
            limits = ((twice, above.floor), (twice, above.ceiling), (floor, spec.ceiling))
            if any(limit is not None and amount.exceeds(limit) for amount, limit in limits):
                spec = replace(spec, floor=None)
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
    """The slots of each job, from the run's events alone.

    ``took`` are the slots that its tasks took since the last look, without those that it had held.
    ``evicted`` jobs wait for a plan that lets them start again. An attempt that does not succeed and is not
    its task's only one lost the race with a copy.
    """

    running: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waiting: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    took: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    active: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    copied: set[tuple[str, int]] = field(default_factory=set)
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
            case events.TaskLaunched(job=job, stage=stage, index=index, copy=copy):
                if copy:
                    self.copied.add((stage, index))
                self.began.add(job)
                self.running[job] += 1
                self.waiting[job] -= not copy
                self.took[job] += 1
                self.evicted.discard(job)
            case events.TaskEnded(job=job, stage=stage, index=index, outcome=outcome):
                self.running[job] -= 1
                if outcome != "success" and (stage, index) not in self.copied:
                    self.waiting[job] += 1
                    self.evicted.add(job)
            case events.SlotHeld(job=job):
                self.held[job] += 1
            case events.SlotFreed(job=job, reason=reason):
                self.held[job] -= 1
                self.took[job] -= reason == "used"


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


def neglected(tree: QueueTree, slots: int, users: dict[str, str], seen: Seen) -> list[str]:
    """Queues that lack slots of their floors at the end of an instant, while a job waits there and another
    queue has, or even got, more than its floor. In sentences."""
    path_of = {job: [spec.path for spec in tree.path_of(tree.place(user))] for job, user in users.items()}
    used = {
        spec.path: sum(
            seen.running[job] + seen.held[job] for job, path in path_of.items() if spec.path in path
        )
        for spec in tree.queues
    }
    most = {spec.path: slots if spec.ceiling is None else spec.ceiling.of(slots) for spec in tree.queues}
    floor = {
        spec.path: min(most[spec.path], spec.floor.at_most(slots)) if spec.floor else 0
        for spec in tree.queues
    }

    def may_run(job: str) -> bool:
        others = [each for each in seen.active if each != job]
        admissible = all(
            spec.max_running_jobs is None
            or sum(spec.path in path_of[each] for each in others) < spec.max_running_jobs
            for spec in tree.path_of(path_of[job][-1])
        )
        return admissible and all(used[path] < most[path] for path in path_of[job])

    found = []
    for job in seen.active - seen.evicted:
        lacking = [path for path in path_of[job] if used[path] < floor[path]]
        if not lacking or seen.waiting.get(job, 0) <= 0 or not may_run(job):
            continue
        for other, path in path_of.items():
            apart = [each for each in path if each not in path_of[job]]
            # Below one of the lacking queues, any job may get its slots.
            if apart and not set(lacking) & set(path) and all(used[each] > floor[each] for each in apart):
                if seen.took[other] > 0:
                    found.append(f"{lacking} is below its floor, {job} waits, and {other} got a slot")
                if seen.held[other] > 0:
                    found.append(f"{lacking} is below its floor, {job} waits, and {other} holds a slot")
    return found


@st.composite
def promises(draw: st.DrawFn) -> QueueTree:
    """Every user has a queue, and most queues have floors, which may be more than there are slots."""
    specs = []
    for path, most in (("a", 6), ("a.x", 3), ("a.y", 3), ("b", 4), ("b.x", 2), ("b.y", 2)):
        floor = draw(st.one_of(st.none(), st.integers(1, most).map(Amount)))
        specs.append(QueueSpec(path, floor=floor, weight=draw(st.sampled_from((None, 0.5, 3.0)))))
    by_path = {spec.path: spec for spec in specs}
    for spec in specs:
        above = by_path.get(spec.parent)
        if spec.floor and above and above.floor and 2 * (spec.floor.slots or 0) > (above.floor.slots or 0):
            by_path[spec.path] = replace(spec, floor=None)
    leaves = ("a.x", "a.y", "b.x", "b.y")
    rules = tuple(PlacementRule(leaf, user=user) for leaf, user in zip(leaves, USERS, strict=True))
    preemption = Preemption()
    if any(spec.floor for spec in by_path.values()) and draw(st.booleans()):
        preemption = Preemption("on", 1.0, timeout_ms=300, interval_ms=200)
    return QueueTree((*by_path.values(), QueueSpec("rest", weight=1.0)), rules, "rest", preemption)


@st.composite
def crowds(draw: st.DrawFn) -> list[JobSpec]:
    """More tasks than slots, and stages whose last tasks let the others' slots be held."""
    jobs = []
    for number in range(draw(st.integers(4, 10))):
        tasks = draw(st.lists(st.integers(1, 3000), min_size=2, max_size=6))
        stages = [StageSpec(tasks), StageSpec([200] * len(tasks), parents=(0,))]
        jobs.append(
            JobSpec(
                f"job-{number:02}",
                draw(st.sampled_from((0, 0, 100, 1000, 2500))),
                tuple(stages[: draw(st.integers(1, 2))]),
                name=f"job-{number:02}",
                user=draw(st.sampled_from((*USERS, "eve"))),
                priority=draw(st.sampled_from((0, 0, 1, 5))),
                marked=True,
            )
        )
    return sorted(jobs, key=lambda job: (job.submit_ms, job.key))


@given(
    tree=promises(),
    jobs=crowds(),
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    policy=st.sampled_from(("fifo", "fair", "reservation", "reservation", "3sigma")),
)
def test_no_queue_stays_below_its_floor_in_a_crowd(
    tree: QueueTree, jobs: list[JobSpec], nodes: list[int], policy: str
) -> None:
    assert kept(tree, jobs, nodes, policy) == []


@given(
    tree=trees(),
    jobs=workloads(),
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    policy=st.sampled_from(("fifo", "fair", "reservation", "slearn", "uwfq")),
)
def test_ceilings_and_floors_are_kept_to_the_slot_and_slots_do_not_idle(
    tree: QueueTree, jobs: list[JobSpec], nodes: list[int], policy: str
) -> None:
    assert kept(tree, jobs, nodes, policy) == []


def kept(tree: QueueTree, jobs: list[JobSpec], nodes: list[int], policy: str) -> list[str]:
    """What was wrong at any instant of a run, in sentences."""
    slots, users = sum(nodes), {job.key: str(job.user) for job in jobs}
    seen, at_ms, found = Seen(), [0], list[str]()

    def observe(event: events.Event) -> None:
        if event.time_ms > at_ms[0]:
            if policy != "3sigma":  # It may let slots idle for a job of a later start.
                found.extend(f"{at_ms[0]} ms: {sentence}" for sentence in faults(tree, slots, users, seen))
            if policy != "slearn":  # Tasks that wait behind pilots want no slot.
                found.extend(f"{at_ms[0]} ms: {each}" for each in neglected(tree, slots, users, seen))
            seen.took.clear()
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
    refused = sum(row["refused"] for row in result.queues if "." in row["queue"])
    assert result.unfinished == refused
    for row in result.queues:
        assert row["ceiling_slots"] is None or row["peak_slots"] <= row["ceiling_slots"]
    return found
