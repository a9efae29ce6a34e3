"""Waiting stages in the order of a policy that sorts jobs by a key (`spark_sched.policies.key_order`)."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator

from spark_sched.policies.key_order import KeyOrder, Place
from spark_sched_lab.engine.records import JobRun, StageRun
from spark_sched_lab.engine.sorted_entries import Entry, SortedEntries


class _Lane:
    """The waiting stages of the jobs of one lane.

    Attributes:
        entries: (the job's key within the lane, the stage's place in the job, the stage).
        head: its entry among the lanes' heads; None: it has none.
    """

    __slots__ = ("entries", "head", "name")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.entries = SortedEntries()
        self.head: Entry | None = None


class Lanes:
    """Waiting stages by the rank that their job's key gives it.

    When a job changes, its own stages move; when a lane changes, only its place among the lanes does. So the
    cost of a change does not grow with the number of waiting jobs. Where keys age with the clock, lanes are
    few and no order of them is kept.

    Attributes:
        at_ms: time of the plan in force, for which keys that age are compared.
        stale: whether the order has not been told all changes of slots.
    """

    __slots__ = ("_heads", "_lanes", "_unplaced", "at_ms", "order", "stale")

    def __init__(self, order: KeyOrder) -> None:
        self.order = order
        self.at_ms = 0
        self.stale = False
        self._lanes: dict[Hashable, _Lane] = {}
        self._heads = SortedEntries()  # (value of the first job of a lane, the lane)
        # Stages of jobs that no plan contains. A plan that contains them comes before the next launch.
        self._unplaced: dict[StageRun, None] = {}

    # ---- changes ----

    def add(self, stage: StageRun) -> None:
        place = stage.job.place
        if place is None:
            self._unplaced[stage] = None
            return
        lane = self._lanes.get(place.lane)
        if lane is None:
            lane = self._lanes[place.lane] = _Lane(place.lane)
        entry = stage.entry = (place.key, stage.edges.part, stage.index, stage)
        lane.entries.add(entry)
        if lane.entries.first() is entry:
            self._lead(lane)

    def remove(self, stage: StageRun) -> None:
        entry, place = stage.entry, stage.job.place
        if entry is None or place is None:
            del self._unplaced[stage]
            return
        stage.entry = None
        lane = self._lanes[place.lane]
        was_first = lane.entries.first() is entry
        lane.entries.remove(entry)
        if was_first:
            self._lead(lane)

    def place(self, job: JobRun) -> None:
        """The job's place has changed: move its waiting stages."""
        place = self.order.place(job.key)
        if place != job.place:
            self._move(job, place)

    def slots_changed(self, job: JobRun) -> None:
        """The job's place or the values of its lane have changed, and those of no other lane."""
        place = self.order.place(job.key)
        if place is not job.place:
            self._move(job, place)
        elif place.lane in self._lanes:
            self._lead(self._lanes[place.lane])

    def _move(self, job: JobRun, place: Place) -> None:
        waiting = [stage for stage in job.stages.values() if stage.queued]
        for stage in waiting:
            self.remove(stage)
        job.place = place
        for stage in waiting:
            self.add(stage)

    def moved(self, lanes: Iterable[Hashable]) -> None:
        """The values of all jobs of these lanes have changed."""
        for name in lanes:
            lane = self._lanes.get(name)
            if lane is not None:
                self._lead(lane)

    def _lead(self, lane: _Lane) -> None:
        """Put the lane where the value of its first job says."""
        first = lane.entries.first()
        if lane.head is not None:
            self._heads.remove(lane.head)
            lane.head = None
        if first is None:
            del self._lanes[lane.name]
        elif not self.order.ages:
            lane.head = (self._value(first), lane)
            self._heads.add(lane.head)

    def _value(self, entry: Entry) -> tuple[object, ...]:
        stage: StageRun = entry[-1]
        place = stage.job.place
        assert place is not None
        return self.order.value(place, self.at_ms)

    # ---- the order ----

    def sorted(self, jobs: Iterable[JobRun]) -> list[JobRun]:
        """Those of the jobs that have a place, in their order."""
        found = [(self.order.value(job.place, self.at_ms), job) for job in jobs if job.place is not None]
        return [job for _, job in sorted(found, key=lambda each: each[0])]

    def stages(self) -> list[StageRun]:
        """All stages, in no order."""
        return [entry[-1] for lane in self._lanes.values() for entry in lane.entries] + list(self._unplaced)

    def __iter__(self) -> Iterator[StageRun]:
        """The stages in their order. The consumer may remove the stage that it has just got."""
        assert not self._unplaced, "a launch comes before the plan that contains its job"
        # The next stage of each lane that has been begun: (value, the stage's own key, the lane, its entry).
        # Two lanes have no job in common, so that nothing behind the value decides.
        begun: list[tuple[tuple[object, ...], _Lane, Entry]] = []
        if self.order.ages:
            lanes = [(lane, lane.entries.first()) for lane in self._lanes.values()]
            begun = [(self._value(first), lane, first) for lane, first in lanes if first is not None]
            heapq.heapify(begun)
            next_head = None
        else:
            next_head = self._heads.first()
        seen: set[_Lane] = set()
        while begun or next_head is not None:
            if next_head is not None and (not begun or next_head[0] < begun[0][0]):
                lane = next_head[1]
                entry = lane.entries.first()
                if lane in seen:
                    entry = None
                seen.add(lane)
                this_head = next_head
                if entry is not None:
                    yield entry[-1]
                next_head = self._heads.after(this_head)
            else:
                _, lane, entry = heapq.heappop(begun)
                yield entry[-1]
            if entry is not None:
                following = lane.entries.after(entry)
                if following is not None:
                    heapq.heappush(begun, (self._value(following), lane, following))
