"""Assignment of free slots at one instant: to waiting tasks, copies of stragglers, tasks behind a gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from spark_sched_lab.cluster.open_nodes import NONE
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.enforce.enforcement import Enforcement, OfferRank, Start, StartGate
from spark_sched_lab.enforce.queue_shares import Standing
from spark_sched_lab.enforce.queues import QueueTurns
from spark_sched_lab.engine.gates import Gates
from spark_sched_lab.engine.records import StageRun
from spark_sched_lab.engine.reservations import Reservations
from spark_sched_lab.engine.stages import fits_whole
from spark_sched_lab.engine.tenant_queues import TenantQueues
from spark_sched_lab.engine.waiting import WaitingStages

_ONLY_SPARE = frozenset({Start.SPARE, Start.UNPLANNED})


class _Launch(Protocol):
    def __call__(self, stage: StageRun, index: int, node: int, copy: bool = False) -> None: ...


@dataclass(slots=True, eq=False)
class Launcher:
    """Assigns the free slots of an instant.

    Attributes:
        launch: starts an attempt of a task of a stage on a node.
        wake: schedules a round of launches at a time (ms), until which a stage waits for a nearer slot.
        replan: makes a plan after each launch; None: plans last for the instant.
        tenants: the tenants' queues; None: there are none.
    """

    slots: Slots
    waiting: WaitingStages
    gates: Gates
    reservations: Reservations
    queues: QueueTurns
    starts: StartGate
    launch: _Launch
    wake: Callable[[int, StageRun], None]
    replan: Callable[[], None] | None
    tenants: TenantQueues | None = None
    _enforcement: Enforcement = field(init=False)

    def __post_init__(self) -> None:
        self._enforcement = Enforcement(self.starts, self.queues, self.tenants)

    @property
    def _shares(self) -> bool:
        """Whether tenants' queues have floors or weights."""
        return self.tenants is not None and self.tenants.usage.shares is not None

    @property
    def wanted(self) -> bool:
        """Whether any task may want a free slot: waiting tasks, copies, tasks behind a gate."""
        return self.waiting.count > 0 or bool(self.slots.holders or self.gates)

    def launch_all(self, now_ms: int) -> None:
        """Launch all tasks that the free slots of this instant allow."""
        slots, waiting = self.slots, self.waiting
        if waiting.pools:
            waiting.rank_pools(self.reservations.jobs.values())
        waiting.sort()
        self._enforcement.begin(now_ms)
        self._open(now_ms)
        if slots.holders:
            while slots.holders and self._privileged(now_ms):  # planned again
                if slots.open_total > 0:  # of holds that the launch ended
                    self._open(now_ms)
            while (due := self.reservations.due_copy(now_ms)) is not None:
                self.launch(*due, copy=True)
        if (slots.open_total > 0 or slots.holders) and (self.gates or self.starts.active):
            if waiting.pools:
                waiting.rank_pools(self.reservations.jobs.values())
                waiting.sort()
            held = bool(slots.holders)
            self._left_over(now_ms)
            # A job may have taken slots that it held in place of spare ones.
            while held and self._enforcement.spares_again(slots.open_by_profile(), waiting):
                if not self._left_over(now_ms):
                    break
        slots.opened.clear()
        slots.offers.all = False

    def _open(self, now_ms: int) -> None:
        """Give out slots that no job holds."""
        if self._shares:
            self._by_share(now_ms)
        elif self.queues.weights:
            self._by_queue(now_ms)
        else:
            while self.slots.open_total > 0 and self._in_order(self.waiting, now_ms):
                pass  # planned again

    def _in_order(self, stages: Iterable[StageRun], now_ms: int) -> bool:
        """Give open slots to stages that wait, first one first. Returns whether the order has changed."""
        slots = self.slots
        for stage in stages:
            if stage.pending and self._fill(stage, now_ms):
                return True
            if slots.open_total <= 0:
                break
        return False

    def _by_share(self, now_ms: int) -> None:
        """Give each tenants' queue its part of the open slots, and then what is left to anybody."""
        slots, enforcement = self.slots, self._enforcement
        if slots.open_total > 0:
            enforcement.divide(slots.open_by_profile(), self._by_standing())
            while slots.open_total > 0 and self._in_order(self._by_standing(), now_ms):
                pass  # planned again
            if enforcement.end_parts():
                while slots.open_total > 0 and self._in_order(self._by_standing(), now_ms):
                    pass

    def _by_standing(self) -> list[StageRun]:
        """The stages that wait in the order of their tenants' queues, and in one queue in the usual order."""
        return sorted(self.waiting, key=self._enforcement.rank if self.queues.weights else self._standing)

    def _standing(self, stage: StageRun) -> Standing:
        return self._enforcement.rank(stage).standing

    def _privileged(self, now_ms: int) -> bool:
        """Give held slots to the stages that may take them. Returns whether the order has changed."""
        slots, waiting = self.slots, self.waiting
        stages = waiting.privileged(slots, now_ms, shares=self._shares)
        if self._shares:
            stages.sort(key=self._standing)
        for stage in stages:
            entry, before = stage.entry, slots.open_total
            if not stage.pending:
                continue
            if self._fill(stage, now_ms):
                return True
            # Stages behind it take the slots of holds that its job no longer needs.
            if slots.open_total > before:
                behind = self._by_standing() if self._shares else waiting.behind(entry)
                if self._in_order(behind, now_ms):
                    return True
        return False

    def _by_queue(self, now_ms: int) -> None:
        """Give out slots one by one, each to the queue whose turn it is."""
        slots, turn = self.slots, self.queues.of
        for level in self.waiting.levels():
            at = dict.fromkeys(level, 0)
            while at and slots.open_total > 0:
                queue = min(at, key=turn)
                stages = level[queue]
                stage = stages[at[queue]]
                before = stage.job.sums.starts
                if stage.pending:
                    self._fill(stage, now_ms, 1)
                if not stage.pending or stage.job.sums.starts == before:
                    at[queue] += 1
                    if at[queue] == len(stages):
                        del at[queue]

    def _left_over(self, now_ms: int) -> bool:
        """Give slots that no other job can use to tasks behind a gate (§5.1.2, "Work conservation"), to jobs
        that no plan contains yet, and to jobs without a planned start, because every job must end. Gangs wait
        for a planned start: otherwise they would keep their slots from all other jobs. Returns whether a task
        was launched."""
        enforcement, slots = self._enforcement, self.slots
        wanting = [stage for stage in self.waiting if self._only_spare(stage) and not stage.spec.gang]
        gated = [
            stage
            for stage in self.gates.shut_stages()
            if not self._only_spare(stage) and not stage.job.terms.on_hold
        ]
        if not wanting and not gated:
            return False
        launched = False
        enforcement.begin_spare(slots.open_by_profile(), self.waiting)
        for stage in sorted([*gated, *wanting], key=self._spare_order):
            behind = not self._only_spare(stage)
            tasks = self.gates.behind(stage) if behind else stage.pending
            while tasks and (slots.open_total > 0 or slots.holders) and enforcement.planned(stage).may:
                node = self._choose(stage, tasks, now_ms, within_share=False)
                if node == NONE:
                    self._wake_refused(stage, now_ms)
                    break
                self.launch(stage, tasks.pop(), node)
                enforcement.launched(stage)
                launched = True
            if not tasks and behind:
                self.gates.emptied(stage)
            elif not tasks:
                self.waiting.remove(stage)
        enforcement.end_spare()
        return launched

    def _spare_order(self, stage: StageRun) -> tuple[int, int, OfferRank, int, int]:
        rank = self._enforcement.rank(stage)
        pool = self.waiting.pool_place(stage.job) if self.waiting.pools else 0
        return rank.priority, pool, rank, stage.edges.part, stage.index

    def _only_spare(self, stage: StageRun) -> bool:
        return self.starts.active and self._enforcement.start(stage.job.key) in _ONLY_SPARE

    def _choose(self, stage: StageRun, pending: list[int], now_ms: int, *, within_share: bool = True) -> int:
        """The node for the last one of ``pending``, or NONE."""
        slots, near, share = self.slots, stage.places.near, stage.job.terms.share
        if share is not None and within_share:
            node = slots.choose_within(stage, share)
            if node != NONE:
                share[slots.nodes.partition[node]] -= 1
                if near is not None:
                    near.forget()
            return node
        return slots.choose(stage, now_ms) if near is None else near.choose(pending, now_ms)

    def _wake_refused(self, stage: StageRun, now_ms: int) -> None:
        """Ask the stage again when it may take the slots that it refuses now."""
        near = stage.places.near
        if near is not None and (wake_ms := near.wake_ms(now_ms)) is not None:
            self.wake(wake_ms, stage)

    def _fill(self, stage: StageRun, now_ms: int, most: int = 0) -> bool:
        """Launch as many of the stage's tasks as there are slots for, at most ``most`` of them; of a gang all
        tasks. Returns whether the order has changed."""
        slots, pending, places = self.slots, stage.pending, stage.places
        checked = self.starts.active or self.tenants is not None
        if checked and not self._enforcement.planned(stage).may:
            return False
        if places.refused and not slots.could_take(stage, slots.opened, now_ms):
            return False
        if stage.spec.gang and not fits_whole(stage, slots, now_ms):
            return False
        while pending:
            # A queue below its floor takes slots beyond its job's share, too.
            beyond = self._shares and self._only_spare(stage)
            node = self._choose(stage, pending, now_ms, within_share=not beyond)
            if node == NONE:
                self._wake_refused(stage, now_ms)
                places.refused = places.local is not None
                return False
            self.launch(stage, pending.pop(), node)
            if stage.spec.gang:
                continue
            most -= 1
            if most == 0:
                break
            if self.tenants is not None and pending and not self._enforcement.planned(stage).may:
                break
            if self.replan is not None:
                if not pending or not self.waiting.only_one:
                    break
                self.replan()
        if not pending:
            self.waiting.remove(stage)
        if self.replan is None:
            return False
        self.replan()
        if slots.open_total > 0 or slots.holders:
            self.waiting.sort()
        return True
