"""Random trees of queues and random workloads: no queue is ever above its ceiling, none stays below its floor
while others have more than theirs, and no slot idles for a job whose queues have room."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config.queues import Amount, PlacementRule, Preemption, QueueSpec, QueueTree
from spark_sched_lab.simulator import JobSpec, StageSpec
from tests.properties.queue_rules import kept

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
