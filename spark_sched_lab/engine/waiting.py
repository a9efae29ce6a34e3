"""Stages with tasks that wait for slots, in the order in which they get them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from spark_sched.policies.key_order import KeyOrder
from spark_sched.policies.simple.fair import fair_order
from spark_sched.protocol.plan import PoolShare
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine.lanes import Lanes
from spark_sched_lab.engine.records import UNRANKED, JobRun, StageRun
from spark_sched_lab.engine.sorted_entries import Entry, SortedEntries

#: From this part of the waiting stages on, sorting all of them is cheaper than moving those that changed.
_MANY = 8

#: More than any rank.
_RANKS = UNRANKED + 1

#: Of jobs without a pool, where others have one.
_DEFAULT_POOL = PoolShare("default")


class WaitingStages:
    """By priority, the plan's queue and rank, arrival of the job, number of the stage; or by the policy's
    key.

    Attributes:
        by_spark_job: Spark jobs count in place of jobs, as on stock Spark (`Capabilities.by_spark_job`).
        lanes: the order by the policy's key, while that orders jobs; None: plans do.
        count: of stages that wait.
        refresh: tells `lanes` the changes that it does not know; `Plans` sets it.
        pools: whether jobs have pools of the application (`JobSpec.pool`).
    """

    refresh: Callable[[Lanes], None]

    def __init__(self, by_spark_job: bool) -> None:
        self.by_spark_job = by_spark_job
        self.lanes: Lanes | None = None
        self.count = 0
        # (negative priority, queue, rank, arrival, part, index, stage)
        self._order = SortedEntries()
        self._moved: dict[JobRun, None] = {}
        self._unsorted = False
        self.pools = False
        self._pool_places: dict[str, int] = {}
        self._places_in_pool: dict[StageRun, int] = {}

    def __bool__(self) -> bool:
        """Whether any stage waits."""
        return self.count > 0

    def add(self, stage: StageRun) -> None:
        """Add a stage with a waiting task. A stage that is present already keeps its place; a stage of a job
        on hold is not added."""
        if not stage.queued and not stage.job.terms.on_hold:
            stage.queued = True
            self.count += 1
            self.pools |= stage.job.spec.pool is not None
            if self.lanes is not None:
                self.lanes.add(stage)
            else:
                entry = stage.entry = self._entry(stage)
                self._order.add(entry)

    def remove(self, stage: StageRun) -> None:
        """Remove a stage without waiting tasks."""
        stage.queued = False
        self.count -= 1
        if self.lanes is not None:
            self.lanes.remove(stage)
        else:
            entry, stage.entry = stage.entry, None
            assert entry is not None, f"stage {stage.key} does not wait"
            self._order.remove(entry)

    @property
    def only_one(self) -> bool:
        """Whether a single stage waits and the policy's key orders jobs: then no launch changes who is
        next."""
        return self.count == 1 and self.lanes is not None

    # ---- changes of the order ----

    def moved(self, job: JobRun) -> None:
        """The priority, queue or rank of the job has changed; the next `sort` puts it in force."""
        self._moved[job] = None

    def all_moved(self) -> None:
        """Those of any job may have changed."""
        self._unsorted = True

    def rank_pools(self, jobs: Iterable[JobRun]) -> None:
        """Sort the pools of all active jobs as Spark's FAIR mode does when a round of offers begins. The
        next `sort` puts their order in force."""
        shares: dict[str, PoolShare] = {}
        running = Counter[str]()
        fair: list[tuple[int, str, StageRun]] = []
        for job in jobs:
            share = job.spec.pool or _DEFAULT_POOL
            shares[share.name] = share
            running[share.name] += job.running_slots
            if share.fair:
                fair += [(len(stage.running), f"TaskSet_{stage.key}", stage) for stage in job.stages.values()]

        def standing(name: str) -> tuple[bool, float, str]:
            return (*fair_order(running[name], shares[name].weight, shares[name].min_share), name)

        self._pool_places = {name: place for place, name in enumerate(sorted(shares, key=standing))}
        fair.sort(key=itemgetter(0, 1))
        self._places_in_pool = {stage: place for place, (_, _, stage) in enumerate(fair)}
        self._unsorted = True

    def pool_place(self, job: JobRun) -> int:
        """The place of the job's pool in FAIR order."""
        return self._pool_places.get((job.spec.pool or _DEFAULT_POOL).name, 0)

    def sort(self) -> None:
        """Put the present priorities and ranks in force."""
        lanes = self.lanes
        if lanes is not None and lanes.stale and self.count > 1:
            self.refresh(lanes)
        if not (self._moved or self._unsorted):
            return
        if self.lanes is None:
            if self._unsorted or len(self._moved) * _MANY > self._order.count:
                self._sort_all([entry[-1] for entry in self._order])
            else:
                for job in self._moved:
                    for stage in job.stages.values():
                        if stage.queued and stage.entry != self._entry(stage):
                            self.remove(stage)
                            self.add(stage)
        self._moved.clear()
        self._unsorted = False

    def order_by(self, order: KeyOrder | None) -> None:
        """The order by which stages wait from now on; None: priorities and ranks of plans."""
        if self.lanes is not None:
            stages = self.lanes.stages()
            for stage in stages:
                stage.job.place = None
        else:
            stages = [entry[-1] for entry in self._order]
        if order is None:
            self.lanes = None
            self._sort_all(stages)
        else:
            self.lanes = Lanes(order)
            self._order = SortedEntries()
            for stage in stages:
                stage.entry = None
                self.lanes.add(stage)

    def _sort_all(self, stages: list[StageRun]) -> None:
        entries = sorted(map(self._entry, stages))
        for entry in entries:
            entry[-1].entry = entry
        self._order.put(entries)

    def _entry(self, stage: StageRun) -> Entry:
        job = stage.job
        queue = -1 if job.queue is None else job.queue
        arrival = 0 if self.by_spark_job else job.arrival
        rank = job.rank
        if self.pools:
            rank += self.pool_place(job) * _RANKS
            # Spark shares a fair pool among task sets whenever their jobs arrived.
            arrival = self._places_in_pool.get(stage, arrival)
        return -job.priority, queue, rank, arrival, stage.edges.part, stage.index, stage

    # ---- the order ----

    def __iter__(self) -> Iterator[StageRun]:
        """The stages, first one first. The consumer may remove the one that it has just got, and no
        other."""
        if self.lanes is not None:
            yield from self.lanes
            return
        yield from self._from(self._order.first())

    def behind(self, entry: Entry | None) -> Iterator[StageRun]:
        """As `__iter__`, of the stages behind this entry, which may have been removed."""
        if entry is not None and self.lanes is None:
            yield from self._from(self._order.after(entry))

    def _from(self, entry: Entry | None) -> Iterator[StageRun]:
        while entry is not None:
            yield entry[-1]
            entry = self._order.after(entry)

    def levels(self) -> list[dict[int, list[StageRun]]]:
        """The stages by priority, highest first, and within one by queue (-1: none)."""
        found: list[dict[int, list[StageRun]]] = []
        priority = None
        for (level, queue), entries in groupby(self._order, key=_level):
            if level != priority:
                priority = level
                found.append({})
            found[-1][queue] = [entry[-1] for entry in entries]
        return found

    def privileged(self, slots: Slots, now_ms: int, *, shares: bool = False) -> list[StageRun]:
        """The stages that may take a slot if none is open: their job holds one, or the ledger does not refuse
        it all that others hold. ``shares`` is whether tenants' queues have floors or weights."""
        holders = slots.holders
        found = [stage for job in holders for stage in job.stages.values() if stage.queued]
        # Without pools, profiles and shares of queues the ledger refuses a job what it refuses an earlier one
        # of its priority.
        by_place = (
            not shares
            and not self.by_spark_job
            and not slots.nodes.of_profile
            and all(job.rule.pool is None for job in holders)
        )
        entry = self._order.first()
        while entry is not None:
            stage: StageRun = entry[-1]
            refused = False
            if stage.job not in holders:
                refused = not slots.may_override(stage, now_ms)
                if not refused:
                    found.append(stage)
            # An entry without a rank comes before all of its priority and queue.
            entry = self._order.after((entry[0], entry[1] + 1) if refused and by_place else entry)
        found.sort(key=self._entry)
        return found


def _level(entry: Entry) -> tuple[int, int]:
    return entry[0], entry[1]
