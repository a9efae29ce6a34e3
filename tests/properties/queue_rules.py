"""What must hold at every instant of a simulation with tenants' queues, from the run's events alone.

No queue is above a ceiling, none stays below its floor while another that has its own gets slots, and no slot
idles for a job whose queues have room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_sched.config.queues import QueueTree
from spark_sched.protocol import events
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, simulate


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
                self.began.discard(job)
                # Attempts and holds may end after the job.
                for gone in (self.running, self.held):
                    for each in [
                        each for each, count in gone.items() if not count and each not in self.active
                    ]:
                        del gone[each]
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


class Rules:
    """The rules of a tree of queues on so many slots, for jobs of these users."""

    def __init__(self, tree: QueueTree, slots: int, users: Mapping[str, str]) -> None:
        self._tree, self._slots = tree, slots
        paths = {user: [spec.path for spec in tree.path_of(tree.place(user))] for user in set(users.values())}
        self._path_of = {job: paths[user] for job, user in users.items()}
        self._most = {
            spec.path: slots + 1 if spec.ceiling is None else spec.ceiling.of(slots) for spec in tree.queues
        }
        self._floor = {
            spec.path: min(self._most[spec.path], spec.floor.at_most(slots)) if spec.floor else 0
            for spec in tree.queues
        }

    def _count(self, jobs: Mapping[str, int]) -> Counter[str]:
        """Sums over the jobs of each queue and of those below it."""
        found: Counter[str] = Counter()
        for job, number in jobs.items():
            for path in self._path_of[job]:
                found[path] += number
        return found

    def _active(self, jobs: Iterable[str]) -> Counter[str]:
        return self._count(dict.fromkeys(jobs, 1))

    def _may_run(self, job: str, used: Counter[str], active: Counter[str]) -> bool:
        """Whether its queues have room, and a place for it whichever of the active jobs they run."""
        return all(
            used[spec.path] < self._most[spec.path]
            and (spec.max_running_jobs is None or active[spec.path] - 1 < spec.max_running_jobs)
            for spec in map(self._tree.__getitem__, self._path_of[job])
        )

    def faults(self, seen: Seen) -> list[str]:
        """What is wrong at the end of an instant, in sentences."""
        held, began = self._count(seen.held), self._active(seen.active & seen.began)
        used = self._count(seen.running) + held
        found = []
        for spec in self._tree.queues:
            if spec.ceiling is not None and used[spec.path] > self._most[spec.path]:
                found.append(f"{spec.path} has {used[spec.path]} slots, ceiling {self._most[spec.path]}")
            if spec.held_ceiling is not None and held[spec.path] > spec.held_ceiling.of(self._slots):
                found.append(f"{spec.path} holds more than {spec.held_ceiling}")
            if spec.max_running_jobs is not None and began[spec.path] > spec.max_running_jobs:
                found.append(f"{spec.path} runs {began[spec.path]} jobs, at most {spec.max_running_jobs}")
        idle = self._slots - sum(seen.running.values()) - sum(seen.held.values())
        if idle > 0:
            active = self._active(seen.active)
            found += [
                f"{idle} slots idle while {job} waits"
                for job in seen.active
                if seen.waiting.get(job, 0) > 0 and self._may_run(job, used, active)
            ]
        return found

    def neglected(self, seen: Seen) -> list[str]:
        """Queues that lack slots of their floors at the end of an instant, while a job waits there and
        another queue has, or even got, more than its floor. In sentences."""
        used, active = self._count(seen.running) + self._count(seen.held), self._active(seen.active)
        others = {job for job, slots in (*seen.took.items(), *seen.held.items()) if slots > 0}
        found = []
        for job in seen.active - seen.evicted:
            mine = self._path_of[job]
            lacking = {path for path in mine if used[path] < self._floor[path]}
            if not lacking or seen.waiting.get(job, 0) <= 0 or not self._may_run(job, used, active):
                continue
            for other in others:
                path = self._path_of[other]
                apart = [each for each in path if each not in mine]
                # Below one of the lacking queues, any job may get its slots.
                if (
                    apart
                    and not lacking & set(path)
                    and all(used[each] > self._floor[each] for each in apart)
                ):
                    said = f"{sorted(lacking)} is below its floor, {job} waits, and {other}"
                    if seen.took[other] > 0:
                        found.append(f"{said} got a slot")
                    if seen.held[other] > 0:
                        found.append(f"{said} holds a slot")
        return found


def kept(
    tree: QueueTree, jobs: list[JobSpec], nodes: list[int], policy: str, enforced: QueueTree | None = None
) -> list[str]:
    """What was wrong at any instant of a run, in sentences. ``enforced``: the simulation's tree, where it is
    another one."""
    slots = sum(nodes)
    rules = Rules(tree, slots, {job.key: str(job.user) for job in jobs})
    seen, at_ms, found = Seen(), [0], list[str]()

    def observe(event: events.Event) -> None:
        if event.time_ms > at_ms[0]:
            if policy != "3sigma":  # It may let slots idle for a job of a later start.
                found.extend(f"{at_ms[0]} ms: {sentence}" for sentence in rules.faults(seen))
            if policy != "slearn":  # Tasks that wait behind pilots want no slot.
                found.extend(f"{at_ms[0]} ms: {each}" for each in rules.neglected(seen))
            seen.took.clear()
            at_ms[0] = event.time_ms
        seen.take(event)

    result = simulate(
        ClusterSpec(tuple(NodeSpec(f"node-{n}", count) for n, count in enumerate(nodes))),
        jobs,
        policy,
        settings={"spark.sched.queues": (enforced or tree).to_json()},
        observer=observe,
        check=True,
    )
    refused = sum(row["refused"] for row in result.queues if "." in row["queue"])
    assert result.unfinished == refused
    for row in result.queues:
        assert row["ceiling_slots"] is None or row["peak_slots"] <= row["ceiling_slots"]
    return found
