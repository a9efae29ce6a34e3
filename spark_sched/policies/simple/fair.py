"""Spark's FAIR order as a plan: pools with weights and minimum shares, and holds that respect them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from spark_sched.config import values
from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, Ranking, RankingPolicy
from spark_sched.policies.key_order import JobRules, Key, KeyOrder, Moment, OrderedJob, Place
from spark_sched.policies.options import Option, Options
from spark_sched.policies.reservation.policy import ReservationPolicy
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import PoolShare, ReservationRule
from spark_sched.state import JobView, Snapshot

POOL_BY = Option(
    "poolBy",
    values.choice("job", "user", "class"),
    "job",
    "What determines a job's pool: the job itself, its user or its class.",
)
WEIGHTS = Option("weights", values.by_name(1e-9), "", "Weights of pools, `ann=2,bob=1`; others have 1.")
MIN_SHARES = Option(
    "minShares",
    values.by_name(0),
    "",
    "Slots that pools get before others get more, `ann=8`; others have none.",
)


def fair_order(used_slots: int, weight: float, min_share_slots: float) -> tuple[bool, float]:
    """What Spark's ``FairSchedulingAlgorithm`` compares pools by, the least first: those below their minimum
    share by how much of it they use, then the others by used slots over weight."""
    needy = used_slots < min_share_slots
    return not needy, used_slots / (max(min_share_slots, 1) if needy else weight)


class FairPolicy(RankingPolicy):
    """Pools below their minimum share first, then pools by used slots over weight; FIFO within a pool.

    The order is `fair_order`, in which a held slot counts as used. Jobs hold slots as under ``reservation``,
    but a pool below its share can take held slots. Ranks stay the same until the next plan, so shares are
    exact only if a plan is made at every launch (``ChangesWith.LAUNCHES``); between two plans the first job
    takes all slots that become free.
    """

    name = "fair"
    capabilities = Capabilities(
        changes_with=ChangesWith.LAUNCHES, marks=frozenset({"priority", "isolation"}), key_order=True
    )
    options = Options((POOL_BY, WEIGHTS, MIN_SHARES))

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self._reservations = ReservationPolicy(settings)
        self._pool_by = settings.options[POOL_BY]
        self._weights = settings.options[WEIGHTS]
        self._min_shares = settings.options[MIN_SHARES]

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        used: Counter[str] = Counter()
        for job in snapshot.jobs.values():
            used[self.pool(job)] += job.running_slots + sum(job.held.values())

        def rank_by(job: JobView) -> Key:
            name = self.pool(job)
            return (*self.place_of(name, used[name]), job.arrival)

        def decide_job(job: JobView) -> tuple[int, ReservationRule | None, str]:
            rule, why = self._reservations.rule(job, forecasts.get(job.job, UNKNOWN))
            name = self.pool(job)
            return 0, rule, f"pool {name!r} uses {used[name]} slots; {why}"

        return rank_by, decide_job

    def basis(self, job: JobView, forecasts: Mapping[str, Forecast]) -> tuple[object, ...] | None:
        if self._pool_by != "job":
            return None
        # Small numbers are the same objects where they are equal; of others the entry is made again.
        return job.marks, forecasts.get(job.job, UNKNOWN), job.running_slots + sum(job.held.values())

    def pool_of(self, job: OrderedJob) -> PoolShare:
        name = self.pool(job)
        return PoolShare(name, self._weights.get(name, 1.0), self._min_shares.get(name, 0.0))

    def key_order(self, memory: None) -> KeyOrder:
        return _PoolOrder(self)

    def rules(self, job: OrderedJob, forecast: Forecast) -> JobRules:
        """The job's reservation and pool."""
        return JobRules(self._reservations.rule(job, forecast)[0], self.pool_of(job))

    def place_of(self, pool: str, used_slots: int) -> Key:
        """The pool's place in FAIR order."""
        order = fair_order(used_slots, self._weights.get(pool, 1.0), self._min_shares.get(pool, 0.0))
        # Spark breaks ties by name. If each job is a pool, arrival is fairer.
        return (*order, "" if self._pool_by == "job" else pool)

    def pool(self, job: OrderedJob) -> str:
        """The name of the job's pool."""
        if self._pool_by == "job":
            return job.job
        return (job.marks.user if self._pool_by == "user" else job.marks.job_class) or "default"


class _PoolOrder(KeyOrder):
    """Pools in FAIR order: a lane is a pool, and its jobs are in the order of their arrival."""

    by_slots = True
    timeless = True

    def __init__(self, policy: FairPolicy) -> None:
        self._policy = policy
        self._jobs: dict[str, tuple[Place, int]] = {}  # a job's place, and the slots that it uses
        self._used: dict[Hashable, list[int]] = {}  # by pool: slots, and jobs
        self._orders: dict[Hashable, Key] = {}

    def update(
        self, changed: Sequence[OrderedJob], gone: Iterable[str], moment: Moment
    ) -> Iterable[Hashable]:
        jobs, used, moved = self._jobs, self._used, dict[Hashable, None]()
        for key in gone:
            if key in jobs:
                place, slots = jobs.pop(key)
                use = used[place.lane]
                use[0] -= slots
                use[1] -= 1
                moved[place.lane] = None
        for job in changed:
            slots = job.running_slots + job.held_slots
            known = jobs.get(job.job)
            if known is None:
                place = Place(self._policy.pool(job), (job.arrival,))
                use = used.setdefault(place.lane, [0, 0])
                use[0] += slots
                use[1] += 1
            elif known[1] != slots:
                place = known[0]
                used[place.lane][0] += slots - known[1]
            else:
                continue
            jobs[job.job] = place, slots
            moved[place.lane] = None
        for pool in moved:
            slots, members = used[pool]
            if members:
                self._orders[pool] = self._policy.place_of(str(pool), slots)
            else:
                del used[pool], self._orders[pool]
        return moved

    def slots_changed(self, job: OrderedJob, now_ms: int) -> bool:
        place, before = self._jobs[job.job]
        slots = job.running_slots + job.held_slots
        if slots == before:
            return False
        self._jobs[job.job] = place, slots
        pool = place.lane
        use = self._used[pool]
        use[0] += slots - before
        self._orders[pool] = self._policy.place_of(pool, use[0])
        return True

    def place(self, job: str) -> Place:
        return self._jobs[job][0]

    def value(self, place: Place, now_ms: int) -> Key:
        return self._orders[place.lane] + place.key

    def rules(self, job: OrderedJob, forecast: Forecast) -> JobRules:
        return self._policy.rules(job, forecast)
