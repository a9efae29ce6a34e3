"""The slots of tenants' queues, and which of their jobs run: the tree of `spark_sched.config.queues` in
force.

The twin of ``schedcore.QueueUsage``: the same operations and results. ``protocol/golden/queues/tree.json``,
``tree-random.json.gz`` and ``tests/contract/test_queue_usage_golden.py`` compare the two: change both
together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spark_sched.config.queues import QueueTree
from spark_sched_lab.enforce.floor_preemption import FloorPreemption
from spark_sched_lab.enforce.queue_shares import QueuedJob, QueueShares, QueueUse

#: Whether a job's held slots are safe from the job that asks (`spark_sched_lab.enforce.ledger_order`).
IsSafe = Callable[[str], bool]

#: More slots than any application has.
UNLIMITED = 2**31 - 1


@dataclass(slots=True, eq=False)
class _Queues:
    """The queues of one tree."""

    tree: QueueTree
    uses: dict[str, QueueUse] = field(init=False)
    paths: dict[str, tuple[QueueUse, ...]] = field(init=False)
    shares: QueueShares | None = field(init=False)
    preemption: FloorPreemption | None = field(init=False)
    limited: tuple[QueueUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        tree = self.tree
        self.uses = {spec.path: QueueUse(spec) for spec in tree.queues}
        self.paths = {
            spec.path: tuple(self.uses[each.path] for each in tree.path_of(spec.path)) for spec in tree.queues
        }
        if tree.is_empty:
            self.paths[tree.default] = ()
        self.limited = tuple(use for use in self.uses.values() if use.spec.day_slot_ms is not None)
        self.shares = QueueShares(self.paths) if tree.shares else None
        self.preemption = None
        if self.shares is not None and tree.preempts:
            self.preemption = FloorPreemption(tree.preemption, self.shares, self.paths)


class QueueUsage:
    """Who may take slots, hold slots and run, by the ceilings and limits of a tree of queues.

    A slot of a queue is one that an attempt of its jobs runs on or that they hold idle. A job may take a slot
    if that keeps each queue of its path at or below its ceiling. Idle slots that jobs of that queue hold, and
    that the ledger lets the job take, do not count against it: they are given up for the slot (`gives_up`).

    A job is admitted when each queue of its path runs fewer jobs than it may, and stays so until it ends. Of
    those that wait the one with the highest priority is first, of equal ones the earliest. While the tree is
    empty, jobs are counted and may do everything, so that queues that come later know them.
    """

    def __init__(self, tree: QueueTree) -> None:
        self._in_force = _Queues(tree)
        self._jobs: dict[str, QueuedJob] = {}
        self._waiting: dict[QueuedJob, None] = {}
        self._slots = 0

    # ---- the tree ----

    @property
    def tree(self) -> QueueTree:
        return self._in_force.tree

    @property
    def uses(self) -> dict[str, QueueUse]:
        return self._in_force.uses

    @property
    def _paths(self) -> dict[str, tuple[QueueUse, ...]]:
        return self._in_force.paths

    @property
    def shares(self) -> QueueShares | None:
        """The order in which queues are offered slots; None: none of them has a floor or a weight."""
        return self._in_force.shares

    @property
    def preemption(self) -> FloorPreemption | None:
        """Evictions for queues below their floors; None: no queue has one, or it is off."""
        return self._in_force.preemption

    def changed(self, tree: QueueTree, place: Callable[[str], str]) -> list[str]:
        """Another tree is in force from now on. Returns the jobs that are admitted for the change.

        A job keeps its slots, and its queue if jobs can be in that still. No limit stops a job that runs: a
        queue that has more than it may drains. What a queue had so far stays with its path.

        Args:
            place: the queue of a job that cannot stay in its own.
        """
        before, now = self._in_force, _Queues(tree)
        self._in_force = now
        self.capacity(self._slots)
        for path, use in now.uses.items():
            if path in before.uses:
                use.continues(before.uses[path])
        if now.preemption is not None and before.preemption is not None:
            now.preemption.continues(before.preemption)
        for entry in self._jobs.values():
            if entry.refused:
                for use in entry.path:
                    if use.spec.path in now.uses:
                        now.uses[use.spec.path].refused -= 1
            entry.path = now.paths[entry.queue if entry.queue in tree.leaves else place(entry.key)]
            for use in entry.path:
                use.enters(entry, entry in self._waiting)
        return self._admit_more()

    # ---- the application ----

    def capacity(self, slots: int) -> None:
        """The application has this number of slots. Fewer than before take no slot from a job."""
        self._slots = slots
        if self.shares is not None:
            self.shares.slots = slots

    def ceiling(self, queue: str) -> int:
        """The most slots that the queue may have now."""
        return self._limit(self.uses[queue])

    def _limit(self, use: QueueUse) -> int:
        ceiling = use.spec.ceiling
        return UNLIMITED if ceiling is None else ceiling.of(self._slots)

    # ---- the slot time of 24 hours ----

    def advance(self, now_ms: int) -> None:
        """Counts slot time up to now. Called before slots change, for queues that have a limit of it."""
        for use in self._in_force.limited:
            use.day.advance(use.used(), now_ms)

    def freed(self, now_ms: int) -> list[str]:
        """Time has passed. Returns the jobs that are admitted since their queues may have slot time again."""
        self.advance(now_ms)
        return self._admit_more() if self._in_force.limited and self._waiting else []

    def next_freed_ms(self) -> int | None:
        """When a queue that has had its slot time has some again, if jobs wait for that."""
        return min(
            (
                at_ms
                for use in self._in_force.limited
                if use.waiting and (at_ms := use.day.below_ms(use.spec.day_slot_ms or 0)) is not None
            ),
            default=None,
        )

    # ---- jobs: admission ----

    def entered(self, job: str, queue: str, priority: int, arrival: int, now_ms: int) -> bool:
        """The job comes into its queue, or back after it was refused. Returns whether it stays: if too many
        jobs wait, it is refused."""
        self.advance(now_ms)
        entry = QueuedJob(job, self._paths[queue], priority, arrival, now_ms)
        refused = self._jobs.get(job)
        self._jobs[job] = entry
        if refused is not None:
            self._keeps_slots(entry, refused)
        if self._fits(entry):
            self._admit(entry)
            return True
        if any(
            use.spec.max_waiting_jobs is not None and use.waiting >= use.spec.max_waiting_jobs
            for use in entry.path
        ):
            self._refuse(entry)
            return False
        self._waiting[entry] = None
        for use in entry.path:
            use.waiting += 1
        return True

    def _keeps_slots(self, entry: QueuedJob, refused: QueuedJob) -> None:
        """A job that comes back keeps the slots that it has: a refused job may run in shadow mode."""
        for use in refused.path:
            use.running -= refused.running
            use.held -= refused.held
            use.holders.pop(refused, None)
        entry.running, entry.held = refused.running, refused.held
        for use in entry.path:
            use.running += entry.running
            use.held += entry.held
            if entry.held > 0:
                use.holders[entry] = None

    def ranked(self, job: str, priority: int) -> None:
        """Its priority changes, and with it its place in the admission queue."""
        entry = self._jobs.get(job)
        if entry is not None:
            entry.priority = priority

    def left(self, job: str) -> list[str]:
        """The job is over. Returns the jobs that are admitted in its place."""
        entry = self._jobs.pop(job, None)
        if entry is None:
            return []
        for use in entry.path:
            use.running -= entry.running
            use.held -= entry.held
            use.holders.pop(entry, None)
        if not entry.admitted:
            self._stop_waiting(entry)  # Nobody waits behind it.
            return []
        for use in entry.path:
            use.jobs -= 1
        return self._admit_more()

    def overdue(self, now_ms: int) -> list[str]:
        """The jobs that have waited for too long by now. They are refused."""
        late = [entry for entry in self._waiting if entry.due_ms is not None and entry.due_ms <= now_ms]
        for entry in late:
            self._stop_waiting(entry)
            self._refuse(entry)
        return [entry.key for entry in late]

    def next_due_ms(self) -> int | None:
        """When the next job will have waited for too long."""
        return min((due for entry in self._waiting if (due := entry.due_ms) is not None), default=None)

    def admitted(self, job: str) -> bool:
        """Whether its tasks may start; true of a job that is in no queue."""
        entry = self._jobs.get(job)
        return entry is None or entry.admitted

    def queue_of(self, job: str) -> str | None:
        """The path of a job's queue; None: it is in none."""
        entry = self._jobs.get(job)
        return None if entry is None else entry.queue or None

    def position(self, job: str) -> int:
        """Its place among the jobs of its own queue that wait, from 1 on; 0: it does not wait."""
        entry = self._jobs.get(job)
        if entry is None or entry not in self._waiting:
            return 0
        return 1 + sum(
            other.queue == entry.queue and _order(other) < _order(entry) for other in self._waiting
        )

    def _fits(self, entry: QueuedJob) -> bool:
        return not any(use.full() for use in entry.path)

    def _admit(self, entry: QueuedJob) -> None:
        entry.admitted = True
        for use in entry.path:
            use.jobs += 1

    def _admit_more(self) -> list[str]:
        admitted = []
        for entry in sorted(self._waiting, key=_order):
            if self._fits(entry):
                self._stop_waiting(entry)
                self._admit(entry)
                admitted.append(entry.key)
        return admitted

    def _stop_waiting(self, entry: QueuedJob) -> None:
        if entry in self._waiting:
            del self._waiting[entry]
            for use in entry.path:
                use.waiting -= 1

    def _refuse(self, entry: QueuedJob) -> None:
        entry.refused = True
        for use in entry.path:
            use.refused += 1

    # ---- slots ----

    def launched(self, job: str, slots: int, own: int = 0) -> None:
        """An attempt of the job runs on these slots, ``own`` of which the job holds until the ledger is
        told."""
        entry = self._jobs.get(job)
        if entry is not None:
            entry.running += slots
            for use in entry.path:
                use.running += slots
                use.peak = max(use.peak, use.used() - own)

    def stopped(self, job: str, slots: int) -> None:
        """An attempt of the job runs no more."""
        entry = self._jobs.get(job)
        if entry is not None:
            known = min(slots, entry.running)  # An attempt may be older than the job of its key.
            entry.running -= known
            for use in entry.path:
                use.running -= known

    def held(self, job: str) -> None:
        """The job holds one more slot."""
        entry = self._jobs.get(job)
        if entry is not None:
            entry.held += 1
            for use in entry.path:
                use.held += 1
                use.holders[entry] = None
                use.peak = max(use.peak, use.used())

    def unheld(self, job: str) -> None:
        """The job holds one slot less."""
        entry = self._jobs.get(job)
        if entry is not None:
            entry.held -= 1
            for use in entry.path:
                use.held -= 1
                if entry.held == 0:
                    use.holders.pop(entry, None)

    def may_hold(self, job: str) -> bool:
        """Whether the job may hold one more slot."""
        entry = self._jobs.get(job)
        if entry is None:
            return True
        for use in entry.path:
            if use.used() >= self._limit(use):
                return False
            most = use.spec.held_ceiling
            if most is not None and use.held >= most.of(self._slots):
                return False
        return True

    def room(self, job: str, is_safe: IsSafe) -> int:
        """Slots that tasks of the job may take now."""
        entry = self._jobs.get(job)
        if entry is None:
            return UNLIMITED
        if not entry.admitted:
            return 0
        return max(0, min((self._left(use, entry, is_safe) for use in entry.path), default=UNLIMITED))

    def at_ceiling(self, job: str, slots: int, is_safe: IsSafe) -> str | None:
        """The first queue of the path whose ceiling keeps ``slots`` from the job; None: no queue does."""
        entry = self._jobs.get(job)
        if entry is None:
            return None
        return next((use.spec.path for use in entry.path if self._left(use, entry, is_safe) < slots), None)

    def _left(self, use: QueueUse, entry: QueuedJob, is_safe: IsSafe) -> int:
        """Slots of the queue that the job could take; what it holds itself is among them."""
        if use.spec.ceiling is None:
            return UNLIMITED
        safe = sum(each.held for each in use.holders if each is not entry and is_safe(each.key))
        return self._limit(use) - use.running - safe

    def claim(self, job: str, slots: int, claimed: dict[str, int], is_safe: IsSafe) -> int:
        """How many of these slots the job may take beside those that others of its queues ``claimed``, by
        queue; they are added to these."""
        entry = self._jobs.get(job)
        if entry is None:
            return slots
        if not entry.admitted:
            return 0
        rooms = (self._left(use, entry, is_safe) - claimed.get(use.spec.path, 0) for use in entry.path)
        granted = max(0, min((slots, *rooms)))
        for use in entry.path:
            claimed[use.spec.path] = claimed.get(use.spec.path, 0) + granted
        return granted

    def gives_up(self, job: str, slots: int, is_safe: IsSafe) -> list[str]:
        """The jobs that give up one held slot each, so that tasks of the job take ``slots`` more: those with
        the lowest priority first, of equal ones the latest, the job itself last."""
        entry = self._jobs.get(job)
        given: dict[QueuedJob, int] = {}
        if entry is not None:
            for use in entry.path:
                over = use.used() + slots - self._limit(use)
                over -= sum(count for each, count in given.items() if use in each.path)
                if over > 0:
                    for each in self._givers(use, entry, is_safe):
                        count = min(over, each.held - given.get(each, 0))
                        if count > 0:
                            given[each] = given.get(each, 0) + count
                            over -= count
        return [each.key for each, count in given.items() for _ in range(count)]

    def _givers(self, use: QueueUse, entry: QueuedJob, is_safe: IsSafe) -> list[QueuedJob]:
        found = [each for each in use.holders if each is entry or not is_safe(each.key)]
        return sorted(found, key=lambda each: (each is entry, each.priority, -each.arrival))

    def violations(self) -> list[str]:
        """A sentence for each sum that does not fit the jobs; empty if there is none."""
        found = []
        for use in self.uses.values():
            jobs = [entry for entry in self._jobs.values() if use in entry.path]
            sums = (
                sum(entry.running for entry in jobs),
                sum(entry.held for entry in jobs),
                sum(entry.admitted for entry in jobs),
            )
            if sums != (use.running, use.held, use.jobs):
                found.append(f"queue {use.spec.path} counts {(use.running, use.held, use.jobs)} of {sums}")
        return found


def _order(entry: QueuedJob) -> tuple[int, int]:
    return -entry.priority, entry.arrival
