"""The records behind the ledger, with the values that follow from each record alone.

``schedcore`` has the same in ``LedgerState.scala``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_sched.predict.stages.pareto import shape_from_sums
from spark_sched_lab.enforce.barriers import Barriers, JobBarriers
from spark_sched_lab.enforce.fair_shares import PoolUse
from spark_sched_lab.enforce.idle import IdleLimits
from spark_sched_lab.enforce.ledger_demand import JobDemand, due_by_ms, owners
from spark_sched_lab.enforce.ledger_order import JobOrder, refuses
from spark_sched_lab.enforce.ledger_pauses import JobPause
from spark_sched_lab.enforce.rule import Rule


@dataclass(slots=True)
class LedgerCounters:
    """Counts of the ledger's actions so far; times in (slot-)milliseconds."""

    holds: int = 0
    holds_used: int = 0
    holds_expired: int = 0
    holds_overridden: int = 0
    holds_given_way: int = 0
    holds_over_budget: int = 0
    pre_reserved: int = 0
    copies_launched: int = 0
    copies_won: int = 0
    copies_wasted_ms: int = 0
    held_idle_slot_ms: int = 0
    predicted_idle_slot_ms: int = 0


class LedgerExecutor:
    """Free and held slots of one executor; held ones are free too."""

    __slots__ = ("draining", "excluded", "free", "held", "held_by", "id", "profile", "slots")

    def __init__(self, id: str, free: int, profile: int = 0) -> None:
        self.id = id
        self.profile = profile  # resource profile
        self.free = free
        self.slots = free  # all that it ever had free at once
        self.draining = self.excluded = False
        self.held = 0
        self.held_by: dict[LedgerJob, int] = {}

    @property
    def open(self) -> bool:
        """Whether its slots are offered to anybody."""
        return not (self.draining or self.excluded)

    def refused_to(self, asker: LedgerJob | None, taken: int = 0) -> int:
        """Free slots that are held against tasks of the job; None: of an undeclared job.

        ``taken`` slots are promised to the job that do not count as used yet.
        """
        if asker is None:
            return self.held
        refused = 0
        for holder, n in self.held_by.items():
            refused += refuses(holder, asker, n, taken)
        return refused


@dataclass(slots=True)
class HeldTime:
    """Slot time that a job held idle, in slot-milliseconds."""

    slot_ms: int = 0  # until `since_ms`
    since_ms: int = 0
    predicted_ms: int = 0  # see `LedgerStage.predicted_idle_ms`

    def settle(self, held: int, now_ms: int) -> None:
        """To be called before the number of held slots changes, which was ``held`` since the last call."""
        self.slot_ms = self.until(held, now_ms)
        self.since_ms = now_ms

    def until(self, held: int, now_ms: int) -> int:
        return self.slot_ms + held * (now_ms - self.since_ms)


class LedgerJob:
    """One job's rule, its active stages and its slots."""

    __slots__ = (
        "barriers", "busy", "deadline_ms", "demand", "ended", "held", "held_time", "key", "marked", "order",
        "pause", "pool", "rule", "running", "stages",
    )  # fmt: skip

    def __init__(
        self, key: str, marked: bool, rule: Rule, arrival: int, limits: IdleLimits, barriers: Barriers
    ) -> None:
        self.key = key
        self.order = JobOrder(arrival)
        self.marked = marked
        self.rule = rule
        self.ended = False
        self.stages: dict[str, LedgerStage] = {}
        self.held = 0
        self.running = 0  # slots of distinct tasks: a copy beside its original is not counted
        self.busy = 0  # slots of all its attempts
        self.pool: PoolUse | None = None
        self.deadline_ms = 0
        self.demand = JobDemand()
        self.pause = JobPause(limits)
        self.held_time = HeldTime()
        self.barriers = JobBarriers(barriers)

    @property
    def may_hold(self) -> bool:
        return not self.ended and self.rule.isolation > 0.0

    def refresh_deadline(self, now_ms: int) -> None:
        """All holds of a job share one deadline: the latest of those that its stages have of their own."""
        if self.stages:
            ends = [p.deadline_ms(now_ms) for p in owners(self)]
            self.deadline_ms = max(ends + due_by_ms(self))


@dataclass(slots=True)
class Following:
    """The knowledge about the next stage: the slots that it needs, None where unknown.

    Attributes:
        in_dag: as the DAG says.
        at_most: an upper bound, if the number is decided while the stage before it runs.
        learned: as learned while the stage before it runs.
        last: nothing follows.
        reads: the shuffle that it reads and this stage writes, where no DAG names it.
    """

    in_dag: int | None
    at_most: int | None
    last: bool
    reads: str | None = None
    learned: int | None = None

    @property
    def known(self) -> bool:
        """Whether the next stage is known without the driver's program."""
        return self.in_dag is not None or self.at_most is not None or self.learned is not None


class TaskTimes:
    """Sums over a stage's task times. They stay when a task's result is lost, so that they are counted apart
    from the done tasks."""

    __slots__ = ("count", "kill_ms", "shortest_ms", "sum_log_ms")

    def __init__(self, kill_ms: int) -> None:
        self.kill_ms = kill_ms  # how long a killed attempt still takes its slots
        self.count = 0
        self.shortest_ms = math.inf  # t_m
        self.sum_log_ms = 0.0

    def add(self, time_ms: float) -> None:
        self.count += 1
        self.shortest_ms = min(self.shortest_ms, time_ms)
        self.sum_log_ms += math.log(time_ms)

    @property
    def typical_ms(self) -> float:
        """Their geometric mean; 0 without any."""
        return math.exp(self.sum_log_ms / self.count) if self.count else 0.0


class LedgerStage:
    """One stage's tasks and what its task times say so far, as ``schedcore.ledger.LedgerStage`` has them."""

    __slots__ = (
        "attempts", "barrier", "copied", "done", "following", "index", "job", "key", "last_launch_ms",
        "pre_reserved", "profile", "restartable", "slots_per_task", "tasks", "times",
    )  # fmt: skip

    def __init__(
        self,
        key: str,
        job: LedgerJob,
        index: int,
        tasks: int,
        following: Following,
        restartable: bool,
        start_ms: int,
        slots_per_task: int,
        profile: int = 0,
        kill_ms: int = 0,
    ) -> None:
        self.key = key
        self.job = job
        self.index = index
        self.tasks = tasks
        self.slots_per_task = slots_per_task
        self.profile = profile  # of the executors that run it
        self.following = following
        self.restartable = restartable
        self.done: set[int] = set()
        self.copied: set[int] = set()
        self.attempts: dict[int, LedgerAttempt] = {}
        self.last_launch_ms = start_ms
        self.barrier = job.barriers.new_stage(tasks)
        self.times = TaskTimes(kill_ms)
        self.pre_reserved = 0

    @property
    def slots(self) -> int:
        """Slots of all its tasks."""
        return self.tasks * self.slots_per_task

    def launched(self, now_ms: int) -> None:
        """An attempt that is no copy; it is among the stage's attempts."""
        self.job.order.launched(self.key, now_ms)
        self.last_launch_ms = now_ms
        self.barrier.open_tasks = len(self.attempts)

    def finish(self, index: int, duration_ms: int) -> None:
        """A first success of task ``index``."""
        self.done.add(index)
        duration = float(max(1, duration_ms))
        self.times.add(duration)
        if self.job.rule.observes:
            self.barrier.task_ended(duration)

    def fell(self, now_ms: int) -> None:
        """All tasks are done: the barrier fell."""
        if self.job.rule.observes:
            barrier_ms = float(max(1, now_ms - self.last_launch_ms))
            self.job.barriers.ended(self.barrier, barrier_ms)

    def waits(self) -> bool:
        """Whether some of its tasks wait for a slot."""
        return len(self.done) + len(self.attempts) < self.tasks

    def past_threshold(self) -> bool:
        return len(self.done) > self.job.rule.pre_reserve_threshold * self.tasks

    def next_slots(self) -> int | None:
        """n: the slots that the stage which follows needs; None when nothing is known.

        Knowledge from this run precedes that from earlier runs. Without either, the upper bound is used as n.
        """
        next_ = self.following
        if next_.in_dag is not None:
            return next_.in_dag
        if next_.learned is not None:
            return next_.learned
        later = self._later()
        if not later:
            return next_.at_most
        return later[0] if next_.at_most is None else min(later[0], next_.at_most)

    def next_is_bound(self) -> bool:
        """Whether n is no more than a bound."""
        next_ = self.following
        if next_.at_most is None:
            return False
        return next_.in_dag is None and next_.learned is None and not self._later()

    def is_last(self) -> bool:
        """Whether the job ends with this stage, as its DAG says or as earlier runs did."""
        if self.following.last:
            return True
        known = self.job.rule.stage_tasks
        return self.index == len(known) - 1 and self._in_step() and not self.following.known

    def rest(self) -> tuple[int, bool]:
        """Slots that a marked job's widest stage from here on needs, and whether that is known: the widest
        that earlier runs had, else the widest so far."""
        later = self._later()
        if later:
            return max(later), True
        known, peak_slots = self.following.in_dag is not None, self.job.demand.peak_slots
        return (peak_slots if known else max(self.slots, peak_slots)), known

    def _later(self) -> list[int]:
        """Slots of the stages that followed this one in earlier runs; empty where this run is another."""
        if not self._in_step():
            return []
        # Earlier runs tell tasks: those that follow are taken to need what these need.
        return [tasks * self.slots_per_task for tasks in self.job.rule.stage_tasks[self.index + 1 :]]

    def _in_step(self) -> bool:
        known = self.job.rule.stage_tasks
        return self.index < len(known) and known[self.index] == self.tasks

    def stragglers(self, now_ms: int) -> list[LedgerAttempt]:
        """Running tasks due for a copy; none unless the idle held slots suffice for all running tasks
        (section IV-C)."""
        j = self.job
        if not j.rule.copies or not self.restartable or j.held == 0 or not self.pace_known():
            return []
        # Most calls end here: of tasks that all run at least this many have no copy.
        if (self.tasks - len(self.done) - len(self.copied)) * self.slots_per_task > j.held:
            return []
        running = self.running_tasks()
        # Tasks still waiting for a slot come before copies.
        if running == 0 or len(self.done) + running < self.tasks:
            return []
        done, copied = self.done, self.copied
        uncopied = [
            a for a in self.attempts.values() if not a.copy and a.index not in done and a.index not in copied
        ]
        if len(uncopied) * self.slots_per_task > j.held:
            return []
        age_ms = self.copy_age_ms()
        return [a for a in uncopied if a.launch_ms + age_ms <= now_ms]

    def copy_age_ms(self) -> int:
        """How long a task must run before a copy is worth a kill: a task as fast as its siblings ends before
        that.

        One attempt is killed, and its slot is missed for as long as that takes. A Pareto tail of alpha <= 2
        has at least as much left to run as it ran: what ran for s typical times and the time of a kill
        outlasts a copy by that time on average.
        """
        least = self.job.rule.copy_age
        if least.min_slowdown == 0.0:
            return least.min_task_ms
        slow_ms = round_half_up(least.min_slowdown * self.times.typical_ms) + self.times.kill_ms
        return max(least.min_task_ms, slow_ms)

    def pace_known(self) -> bool:
        """Whether a sibling has finished: without one a straggler cannot be distinguished from a long
        task."""
        return self.times.count > 0 or self.job.rule.copy_age.min_slowdown == 0.0

    def running_tasks(self) -> int:
        done = self.done
        return sum(1 for a in self.attempts.values() if not a.copy and a.index not in done)

    def deadline_ms(self, now_ms: int) -> int:
        """When reservations made for this stage end (section IV-B3), in the clock of ``now_ms``."""
        rule = self.job.rule
        if rule.calibrates:
            hold_ms = self.job.barriers.deadline_ms(self.barrier, rule.isolation)
        elif rule.deadline == "pareto" and rule.isolation < 1.0:
            hold_ms = self._pareto_hold_ms(now_ms)
        else:
            hold_ms = math.inf
        # The paper's stage starts all its tasks at time 0; with more tasks than slots the clock starts with
        # the last.
        return self.last_launch_ms + (
            rule.max_hold_ms if hold_ms >= rule.max_hold_ms else round_half_up(hold_ms)
        )

    def predicted_idle_ms(self) -> int:
        """Upper bound of the expected cost of holding its slots, in slot-ms (section IV-B3): the paper's
        bound on the utilization assumes that every slot is held until the deadline. 0 if no slot is held at
        the barrier.

        The stage is over, so that its own task times give t_m and alpha.
        """
        rule = self.job.rule
        if self.is_last() or not self.job.may_hold or not self.times.count:
            return 0
        k, t_m = self.times.count, self.times.shortest_ms
        alpha = shape_from_sums(k, self.times.sum_log_ms - k * math.log(t_m), rule.shape, rule.shape_weight)
        hold_ms = min(float(rule.max_hold_ms), deadline_ms(rule.isolation, t_m, alpha, self.tasks))
        if hold_ms <= t_m:
            return 0
        return round_half_up(self.slots * hold_ms * (1.0 - utilization(t_m / hold_ms, alpha)))

    def _pareto_hold_ms(self, now_ms: int) -> float:
        """The paper's D (equation 2), with t_m and alpha estimated from the tasks so far."""
        rule = self.job.rule
        k = self.times.count
        t_m = self.times.shortest_ms if k else rule.scale_ms
        if t_m is None:
            return math.inf
        log = math.log
        sum_log_ratios = self.times.sum_log_ms - k * log(t_m) if k else 0.0
        # A wave starts at one time, so that one logarithm serves many tasks; ln(t_m / t_m) adds nothing.
        done = self.done
        launch_ms, log_ratio = now_ms, 0.0
        for a in self.attempts.values():
            if not a.copy and a.index not in done:
                if a.launch_ms != launch_ms:
                    launch_ms = a.launch_ms
                    age_ms = now_ms - launch_ms
                    log_ratio = log(age_ms / t_m) if age_ms > t_m else 0.0
                sum_log_ratios += log_ratio
        shape = shape_from_sums(k, sum_log_ratios, rule.shape, rule.shape_weight)
        return deadline_ms(rule.isolation, t_m, shape, self.tasks)


class LedgerAttempt:
    """One attempt of a task."""

    __slots__ = ("copy", "executor", "index", "launch_ms", "slots", "stage", "task")

    def __init__(
        self, task: int, stage: LedgerStage, index: int, executor: str, copy: bool, launch_ms: int, slots: int
    ) -> None:
        self.task = task
        self.stage = stage
        self.index = index
        self.executor = executor
        self.copy = copy
        self.launch_ms = launch_ms
        self.slots = slots  # that it took of its executor


def deadline_ms(isolation: float, t_m_ms: float, alpha: float, n_tasks: int) -> float:
    """D = t_m (1 - P^(1/N))^(-1/alpha) in milliseconds; t_m at P = 0, infinity at P = 1.

    The scalar twin of :func:`spark_sched.policies.reservation.reservation_deadline_s`, which the tests hold
    it to: the ledger needs it at every task completion, where the arrays and checks of the public one take
    most of the time.
    """
    if isolation <= 0.0 or n_tasks == 0:
        return t_m_ms
    if isolation >= 1.0:
        return math.inf
    # 1 - P^(1/N) by expm1, since P^(1/N) is within rounding of 1 for large N.
    return t_m_ms * math.pow(-math.expm1(math.log(isolation) / n_tasks), -1.0 / alpha)


def utilization(t_m_share: float, alpha: float) -> float:
    """Equation 3: the lower bound of the utilization of slots that are held for ``t_m / t_m_share``."""
    return (alpha * t_m_share - math.pow(t_m_share, alpha)) / (alpha - 1.0)


def round_half_up(value: float) -> int:
    """``java.lang.Math.round``: both ledgers must round alike, and Python's ``round`` goes to the even
    neighbour."""
    return math.floor(value + 0.5)
