"""The workload: jobs of stages of tasks, with the durations they would have alone on a slot of speed 1.

Times are whole milliseconds of the simulation's own clock, which starts at 0; live Spark counts in them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from spark_sched.config.queues import QueueTree
from spark_sched.errors import BadInputError
from spark_sched.protocol.plan import PoolShare
from spark_sched.state import Preferred
from spark_sched_lab.cluster.locality import Delay

if TYPE_CHECKING:
    from spark_sched.policies.base import Policy

#: Draws ``n`` task durations in ms from a generator.
Sampler = Callable[[np.random.Generator, int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage of a job.

    Attributes:
        durations_ms: one duration per task, each at least 1 ms: time on a free slot of speed 1 that has the
            task's input (slots model), or the CPU demand in ms of one core of speed 1 (processor sharing).
        parents: numbers of the stages that must end first; a parent stands before its children.
        delay_ms: from its last parent's end (or the job's submission) until its tasks wait for slots.
        name: what recurring runs call it; empty for a stage of no name.
        gang: starts only with all its tasks at once (a barrier stage, or a gang of the papers).
        restartable: its running tasks may be copied and evicted; false for a barrier stage of Spark.
        copy_duration_ms: draws how long a copy of one of its tasks runs; None draws one of ``durations_ms``.
        memory: average memory of each task, in the unit of the nodes' memory (processor sharing only);
            empty: none.
        part: stages of one part were submitted as one (Spark: the Spark job). Where neither priority nor the
            plan decides, parts of one job get slots in the order of their submission; under a policy that
            plays stock Spark those of all jobs do, as in Spark's FIFO mode.
        near: by task, the names of nodes that have its input; no names: any node is as good. Empty: so it is
            for all tasks. Unlike ``ClusterSpec.locality`` distance costs waiting only. It is Spark's level
            NODE_LOCAL.
        near_wait_ms: how long the stage waits for them (``spark.locality.wait``), unless ``delay`` says it.
        delay: Spark's delay scheduling; None: ``near_wait_ms`` at each level, and no input is cached.
        seen_on: by task, the node where it ran when it was recorded: chosen where chance would choose.
        copies_ms: how long a copy of a task runs, by the task's index, where that is known.
        kill_ms: how long a killed attempt keeps its slot in Spark: tasks get copies that much later. The
            simulator frees a killed attempt's slot at once.
        profile: resource profile of the nodes that run it (`NodeSpec.profile`).
    """

    durations_ms: Sequence[int]
    parents: tuple[int, ...] = ()
    delay_ms: int = 0
    name: str = ""
    gang: bool = False
    copy_duration_ms: Sampler | None = field(default=None, compare=False)
    memory: Sequence[float] = ()
    part: int = 0
    near: Sequence[frozenset[str]] = ()
    near_wait_ms: int = 0
    delay: Delay | None = None
    seen_on: Sequence[str] = ()
    copies_ms: Mapping[int, int] = field(default_factory=dict, compare=False)
    restartable: bool = True
    kill_ms: int = 0
    profile: int = 0

    @property
    def tasks(self) -> int:
        return len(self.durations_ms)


def longest_path_ms(stages: Sequence[StageSpec]) -> int:
    """Time of a job with these stages and a slot for every task: each stage takes its longest task."""
    ends: list[int] = []
    for stage in stages:
        begins = max((ends[parent] for parent in stage.parents), default=0)
        ends.append(begins + stage.delay_ms + max(stage.durations_ms))
    return max(ends)


@dataclass(frozen=True, slots=True)
class MarkChange:
    """A change of an active job's marks by an operator (live: ``JobChanged``): all values from then on.

    Attributes:
        after_ms: since the job's submission.
        deadline_ms: a time, as the job's own; None: none.
        isolation: None: the configured one. A job that held nothing before holds slots from its next stage
            on: the ledger does not know the attempts of the present one.
        on_hold: whether none of its tasks may start; running tasks continue.
    """

    after_ms: int
    priority: int
    deadline_ms: int | None = None
    isolation: float | None = None
    on_hold: bool = False


@dataclass(frozen=True, slots=True)
class SchedulingChange:
    """A change for all jobs by an operator (live: ``SchedulingChanged``), from then on.

    Attributes:
        reserves: whether jobs may hold slots; false while reservations are paused.
        policy: the new policy; None: the same as before.
        plan_every_ms: time between its plans, see `simulate`; None: the same as before.
        queues: the tenants' queues; None: the same as before.
    """

    at_ms: int
    reserves: bool = True
    policy: Policy | None = None
    plan_every_ms: int | None = None
    queues: QueueTree | None = None


#: What the scheduler knows of a job's DAG: how many tasks the next stage of the same part has and which stage
#: is the last; only the former, as of a marked or grouped job live; or neither.
DagKnown = Literal["to the end", "next stage", "nothing"]


class NextJob(NamedTuple):
    """A job that is submitted some time after the end of another; its own ``submit_ms`` is ignored.

    Attributes:
        pause_ms: from the other one's end to its submission.
        deadline_after_ms: its deadline, from its submission on; None: its own.
    """

    pause_ms: int
    job: JobSpec
    deadline_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job: its submission, its owner, its marks and its stages.

    Users write it by hand; all fields but the first three have a default.

    Attributes:
        key: unique in the workload.
        deadline_ms: when it must have ended (a time, not a span); None for a best-effort job.
        isolation: isolation level P that the job asks for; None: the configured one.
        copies: false for a job whose tasks must never run twice: none is copied or evicted.
        marked: whether its owner named it; then a next stage may not be in the DAG (see ``dag_known``).
        dag_known: what the scheduler knows of its DAG.
        preferred: where its tasks run at full speed; None: anywhere.
        tail_ms: the driver's own work between the end of the last stage and that of the job, which may hold
            slots meanwhile: unless its DAG is known to the end, a further stage may come.
        changes: of its marks while it is active, in the order of their times.
        pool: its pool in Spark's FAIR mode; None where others have one: the pool ``default``. Among jobs of
            equal priority the order of pools decides, except where a plan has queues.
    """

    key: str
    submit_ms: int
    stages: tuple[StageSpec, ...]
    name: str = ""
    user: str | None = None
    job_class: str | None = None
    priority: int = 0
    deadline_ms: int | None = None
    isolation: float | None = None
    copies: bool = True
    marked: bool = False
    dag_known: DagKnown = "to the end"
    preferred: Preferred | None = None
    tail_ms: int = 0
    changes: tuple[MarkChange, ...] = ()
    pool: PoolShare | None = None
    then: tuple[NextJob, ...] = field(default=(), compare=False, repr=False)

    def check(self) -> None:
        """Raise BadInputError if the job cannot be simulated: the sentence names the job and the value."""
        if self.submit_ms < 0:
            raise BadInputError(
                f"job {self.key!r} is submitted at {self.submit_ms} ms but must be at 0 or later"
            )
        if not self.stages:
            raise BadInputError(f"job {self.key!r} has no stage: give it one or leave it out")
        if self.tail_ms < 0:
            raise BadInputError(f"job {self.key!r} has tail_ms {self.tail_ms} but 0 is the least")
        factor = 1.0 if self.preferred is None else self.preferred.elsewhere_factor
        if not factor >= 1.0:
            raise BadInputError(f"job {self.key!r} has elsewhere_factor {factor!r} but it must be 1 or more")
        for change in self.changes:
            if change.after_ms < 0:
                raise BadInputError(
                    f"job {self.key!r} is changed {change.after_ms} ms after its submission but 0 ms is the "
                    "least"
                )
        for number, stage in enumerate(self.stages):
            where = f"job {self.key!r}, stage {number}"
            if not stage.durations_ms:
                raise BadInputError(f"{where} has no task: give it one or leave it out")
            if min(stage.durations_ms) < 1:
                raise BadInputError(
                    f"{where} has a task of {min(stage.durations_ms)} ms but 1 ms is the least"
                )
            if any(not 0 <= parent < number for parent in stage.parents):
                raise BadInputError(
                    f"{where} has parents {list(stage.parents)} but a parent must be a stage before it"
                )
            cached = () if stage.delay is None else stage.delay.cached
            for what, sets in (("near", stage.near), ("cached", cached)):
                if sets and len(sets) != stage.tasks:
                    raise BadInputError(
                        f"{where} has {len(sets)} sets of {what} nodes for {stage.tasks} tasks: give each one"
                    )
            if stage.delay is not None and not stage.delay.away > 0.0:
                raise BadInputError(f"{where} has away {stage.delay.away!r} but it must be above 0")
            if stage.memory and len(stage.memory) != stage.tasks:
                raise BadInputError(
                    f"{where} has {len(stage.memory)} memory values for {stage.tasks} tasks: give each one"
                )

    def and_followers(self) -> Iterator[JobSpec]:
        """The job and all jobs that follow it, directly or indirectly."""
        waiting = [self]
        while waiting:
            job = waiting.pop()
            yield job
            waiting += [following.job for following in job.then]

    def work_ms(self) -> int:
        """Slot-milliseconds of all its tasks on slots of speed 1."""
        return sum(sum(stage.durations_ms) for stage in self.stages)


def pareto_sampler(alpha: float, t_m_ms: float) -> Sampler:
    """Draws of Pareto(``t_m_ms``, ``alpha``), rounded to ms ("Speculative Slot Reservation", equation 1)."""

    def draw(rng: np.random.Generator, count: int) -> list[int]:
        # 1 - u lies in (0, 1], so that no draw is infinite.
        values = t_m_ms * (1.0 - rng.random(count)) ** (-1.0 / alpha)
        return [max(1, round(value)) for value in values.tolist()]

    return draw
