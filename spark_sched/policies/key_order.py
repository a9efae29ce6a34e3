"""Policies whose plans sort jobs by a key, as an order that is updated job by job.

``decide`` looks at all jobs and sorts them. Where a plan is made at each launch, that costs more than all the
rest. Such a policy also gives a `KeyOrder`, which ranks jobs as its plans do and is told only what changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

from spark_sched.predict import Forecast
from spark_sched.protocol.plan import PoolShare, ReservationRule
from spark_sched.state import JobMarks, JobView

#: What jobs are sorted by, the smallest first. No two jobs have equal keys: arrival decides between equals.
Key: TypeAlias = tuple[Any, ...]


class Place(NamedTuple):
    """Where a job stands.

    Attributes:
        lane: jobs of one lane keep their order until one of them is updated, whatever happens to others.
        key: of the job within its lane.
    """

    lane: Any  # hashable
    key: Key


class OrderedJob(Protocol):
    """What keys may depend on; `spark_sched.state.JobView` has it."""

    @property
    def job(self) -> str: ...

    @property
    def marks(self) -> JobMarks: ...

    @property
    def arrival(self) -> int: ...

    @property
    def started_ms(self) -> int: ...

    @property
    def running_slots(self) -> int: ...

    @property
    def held_slots(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """When a plan is made, and what else it depends on.

    Attributes:
        slots: of the cluster.
        forecast: of an active job.
        view: an active job as a snapshot shows it.
        all_jobs: the active ones in the order of their arrival, for a key that depends on all of them.
    """

    now_ms: int
    slots: int
    forecast: Callable[[OrderedJob], Forecast]
    view: Callable[[OrderedJob], JobView]
    all_jobs: Callable[[], Iterable[OrderedJob]]


class JobRules(NamedTuple):
    """What a plan says of a job beside its rank."""

    reservation: ReservationRule | None = None
    pool: PoolShare | None = None


class KeyOrder(ABC):
    """The active jobs in the order of a policy's plans. All have priority 0, and no start or share.

    It is mutable and belongs to one run. It ranks jobs as the plans that the policy would make at the times
    of its updates: ``decide`` is the definition, and the contract tests compare the two.

    Attributes:
        ages: whether values change with the clock alone. Then each lane's values change alike, and lanes must
            be few.
        by_slots: whether a job that is known moves only when its running or held slots change, so that
            `slots_changed` can stand for `update` while no job comes, goes or gets other marks.
        timeless: whether values depend on the present alone and not on when each change came. Then changes
            may be told together, before the order is read.
    """

    ages: ClassVar[bool] = False
    by_slots: ClassVar[bool] = False
    timeless: ClassVar[bool] = False

    @abstractmethod
    def update(
        self, changed: Sequence[OrderedJob], gone: Iterable[str], moment: Moment
    ) -> Iterable[Hashable]:
        """A plan would be made now.

        Args:
            changed: jobs that are new or whose running or held slots changed, in the order of their arrival.
            gone: jobs that ended, or that plans no longer contain.
            moment: when that is.

        Returns the lanes in which the values of jobs changed that are not in ``changed``.
        """

    def slots_changed(self, job: OrderedJob, now_ms: int) -> bool:
        """A plan would be made now, and since the last one only the slots of known jobs changed, of this one
        and perhaps of others. Returns whether its place or the values of its lane changed."""
        raise NotImplementedError(f"{type(self).__name__} declares by_slots and has no slots_changed")

    @abstractmethod
    def place(self, job: str) -> Place:
        """Where the job stands."""

    @abstractmethod
    def value(self, place: Place, now_ms: int) -> Key:
        """By what a job with this place is sorted among all jobs. Within a lane it rises with
        ``place.key``."""

    def memory(self) -> Any:
        """What the policy's plan at the last update would have left as its memory."""
        return None

    def rules(self, job: OrderedJob, forecast: Forecast) -> JobRules:
        """What the plans say of a new job, or of one whose marks changed."""
        return JobRules()


@runtime_checkable
class KeyOrdered(Protocol):
    """A policy that declares `Capabilities.key_order`."""

    def key_order(self, memory: Any) -> KeyOrder:
        """The order after the plan that left ``memory``, before it is told of any job; None: before the first
        plan. The order must not change the memory."""
        ...
