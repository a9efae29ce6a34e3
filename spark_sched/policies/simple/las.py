"""Least attained service first: short jobs go first without a prediction of their size."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, KeptEntries, PolicySettings, make_plan
from spark_sched.policies.key_order import Key, KeyOrder, Moment, OrderedJob, Place
from spark_sched.policies.options import Options
from spark_sched.policies.service import Service
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import Plan
from spark_sched.state import Snapshot


class LasPolicy:
    """Jobs by the slot-milliseconds they have used so far, least first; new ones before all others.

    The slot time is computed from the snapshots (`Service`), so the policy needs a snapshot after each launch
    (``ChangesWith.ROUNDS``).
    """

    name = "las"
    capabilities = Capabilities(changes_with=ChangesWith.ROUNDS, marks=frozenset(), key_order=True)
    options = Options()

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._kept = KeptEntries()

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Service | None,
    ) -> tuple[Plan, Service]:
        before = memory or Service()
        attained_ms = {key: before.at(job, now_ms) for key, job in snapshot.jobs.items()}
        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=lambda job: (attained_ms[job.job], job.arrival),
            decide_job=lambda job: (0, None, f"{attained_ms[job.job] / 1000.0:.1f} slot-seconds so far"),
            kept=self._kept,
            basis=lambda job: (job.marks, attained_ms[job.job]),
        )
        return plan, Service.of(snapshot, now_ms, attained_ms)

    def key_order(self, memory: Service | None) -> KeyOrder:
        return _ServiceOrder(memory or Service())


class _ServiceOrder(KeyOrder):
    """Jobs by attained service. Jobs that run on equally many slots attain it equally fast: they are a lane,
    in which the key is what a job would have attained at time 0 at that rate.
    """

    ages = True
    by_slots = True

    def __init__(self, known: Service) -> None:
        self._known = known
        self._places: dict[str, Place] = {}
        self._now_ms = known.now_ms

    def update(
        self, changed: Sequence[OrderedJob], gone: Iterable[str], moment: Moment
    ) -> Iterable[Hashable]:
        now_ms, places = moment.now_ms, self._places
        self._now_ms = now_ms
        for key in gone:
            places.pop(key, None)
        for job in changed:
            slots, place = job.running_slots, places.get(job.job)
            if place is None:
                attained_ms = self._known.attained_ms.get(job.job, 0.0)
                attained_ms += self._known.slots.get(job.job, 0) * max(0, now_ms - self._known.now_ms)
            elif place.lane == slots:
                continue
            else:
                attained_ms = self.value(place, now_ms)[0]
            places[job.job] = Place(slots, (attained_ms - slots * now_ms, job.arrival))
        self._known = _FRESH
        return ()

    def slots_changed(self, job: OrderedJob, now_ms: int) -> bool:
        self._now_ms = now_ms
        slots, known = job.running_slots, self._places[job.job]
        if known.lane == slots:
            return False
        at_zero, arrival = known.key
        self._places[job.job] = Place(slots, (at_zero + (known.lane - slots) * now_ms, arrival))
        return True

    def place(self, job: str) -> Place:
        return self._places[job]

    def value(self, place: Place, now_ms: int) -> Key:
        at_zero, arrival = place.key
        return at_zero + place.lane * now_ms, arrival

    def memory(self) -> Service:
        places, now_ms = self._places, self._now_ms
        attained_ms = {job: self.value(place, now_ms)[0] for job, place in places.items()}
        return Service(now_ms, attained_ms, {job: place.lane for job, place in places.items()})


#: Nothing is known of a job that arrives later: it has run on no slot.
_FRESH = Service()
