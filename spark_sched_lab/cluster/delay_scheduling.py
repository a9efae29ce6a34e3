"""Spark's delay scheduling: tasks that prefer executors, hosts or racks, and how long they wait for them.

A stage accepts slots up to a locality level. It starts at the nearest level that one of its tasks can have,
and accepts the next one when a timer has run for the wait of its level, or when no waiting task has a
preference of that level. As in ``TaskSetManager`` since Spark 3.1, the timer restarts after a round of offers
in which the stage launched a task and refused no slot, if all free slots were offered or no slot was refused
since the last restart; ``LocalityWaits.restarts_at_launch`` is the older rule, each launch.

Spark offers the slots of the executor on which a task ended. It offers all free slots when a stage is
submitted, and once per `LocalityWaits.revive_ms`, so a slot that was refused is offered again only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_sched_lab.cluster.locality import Delay, Level, LocalityWaits
from spark_sched_lab.cluster.open_nodes import NONE
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine.records import StageRun


class _Alike:
    """Waiting tasks with the same preferences.

    Attributes:
        executors: nodes that cache the tasks' input.
        nodes: those, and all nodes of the hosts that the tasks prefer.
        racks: of these nodes.
        waiting: tasks, the next one last.
    """

    __slots__ = ("executors", "nodes", "racks", "waiting")

    def __init__(self, executors: frozenset[int], nodes: frozenset[int], racks: frozenset[int]) -> None:
        # In the order of their numbers: a set has another order in every process.
        self.executors = tuple(sorted(executors))
        self.nodes = tuple(sorted(nodes | executors))
        self.racks = racks
        self.waiting: list[int] = []

    def nodes_at(self, level: Level) -> tuple[int, ...]:
        return self.executors if level == Level.PROCESS else self.nodes

    def prefers(self, level: Level) -> bool:
        if level == Level.PROCESS:
            return bool(self.executors)
        if level == Level.NODE:
            return bool(self.nodes)
        if level == Level.RACK:
            return bool(self.racks)
        return not self.nodes


class _Round:
    """One round of offers to the stage: what happens at one instant.

    Attributes:
        full: whether all free slots are offered.
        nearest: level of the nearest launch; None: no launch.
        refused: whether the stage refused a slot.
        at: position of the level that is tried now.
    """

    __slots__ = ("at", "full", "nearest", "now_ms", "refused")

    def __init__(self, now_ms: int, full: bool) -> None:
        self.now_ms = now_ms
        self.full = full
        self.nearest: Level | None = None
        self.refused = False
        self.at = 0


class DelayScheduling:
    """The preferred places of one active stage's tasks, and the level that it accepts."""

    __slots__ = (
        "_alike", "_delay", "_level", "_levels", "_list", "_of", "_places", "_reset_ms", "_round", "_seen",
        "_slots", "_stage", "_unrefused", "_waiting", "_wake_ms",
    )  # fmt: skip

    def __init__(self, stage: StageRun, slots: Slots, now_ms: int) -> None:
        self._stage = stage
        self._slots = slots
        spec, nodes = stage.spec, slots.nodes
        number = nodes.number
        near_ms = spec.near_wait_ms
        delay = self._delay = spec.delay or Delay(LocalityWaits(near_ms, near_ms, near_ms))
        self._seen = [number[name] for name in spec.seen_on]
        no_sets = [frozenset[str]()] * spec.tasks
        pairs = list(
            zip(delay.cached or no_sets, (spec.near if spec.delay or near_ms else ()) or no_sets, strict=True)
        )
        known: dict[tuple[frozenset[str], frozenset[str]], _Alike] = {}
        for pair in pairs:
            if pair not in known:
                cached, near = (frozenset(number[name] for name in names) for names in pair)
                racks = frozenset(nodes.racks[node] for node in cached | near) - {-1}
                known[pair] = _Alike(cached, near, racks)
        self._of = [known[pair] for pair in pairs]
        self._alike = list(known.values())
        # Which tasks wait is the stage's own list; `_alike` follows it.
        self._list: list[int] | None = None
        self._waiting = 0
        self._levels: tuple[Level, ...] = (Level.ANY,)
        self._places = -1  # the slots' count of changes for which these are the levels
        self._level = 0  # position in `_levels`
        self._reset_ms = now_ms
        self._unrefused = True
        self._round: _Round | None = None
        self._wake_ms = -1

    # ---- what the launcher asks ----

    def choose(self, pending: list[int], now_ms: int) -> int:
        """The node for the one of ``pending`` that launches next, which is moved to its end; or NONE."""
        stage, slots = self._stage, self._slots
        self._follow(pending)
        offers = self._offers(now_ms)
        while offers.at < len(self._levels):
            most = self._levels[offers.at]
            # Spark does not ask the timer when it looks for tasks without preferences.
            level = most if most == Level.NO_PREF else min(most, self._allowed(now_ms))
            found = self._find(now_ms, level)
            if found is not None:
                task, node, at = found
                self._launched(task, pending)
                # Spark calls a task without preferences PROCESS_LOCAL.
                at = Level.PROCESS if at == Level.NO_PREF else at
                offers.nearest = at if offers.nearest is None else min(at, offers.nearest)
                if self._delay.waits.restarts_at_launch and most != Level.NO_PREF:
                    self._restart(now_ms, at)
                return node
            offers.at += 1
        offers.at = 0
        # A task that reads map outputs gets most of them from other nodes wherever it runs, and a slot held
        # for it is idle meanwhile (ADR 30; live: ``SchedTaskSetManager.offered``).
        if stage.spec.parents and not self._is_tied() and stage.job in slots.holders:
            node = self._anywhere(pending[-1], now_ms)
            if node != NONE:
                self._launched(pending[-1], pending)
                return node
        if slots.open_total > 0 and any(True for _ in self._offered()):
            offers.refused = True
        return NONE

    def wake_ms(self, now_ms: int) -> int | None:
        """When to ask the stage again, which refused a slot; None: that is known, or no time is needed."""
        if self._slots.open_total <= 0 and not self._slots.holders:
            return None
        if self._level < len(self._levels) - 1:
            at_ms = max(now_ms + 1, self._reset_ms + self._delay.waits.of(self._levels[self._level]))
        elif self._round is not None and self._round.full:
            return None
        else:
            at_ms = now_ms + 1
        if self._round is not None and not self._round.full:
            at_ms = min(at_ms, now_ms + 1)
        at_ms = self._delay.waits.offered_at_ms(at_ms)
        if now_ms < self._wake_ms <= at_ms:
            return None
        self._wake_ms = at_ms
        return at_ms

    def forget(self) -> None:
        """The stage's waiting tasks changed without a choice."""
        self._list = None

    def there_ms(self, task: int, node: int, duration_ms: int) -> int:
        """The time of a task on ``node`` that took ``duration_ms`` where it was seen."""
        cached = self._of[task].executors
        if self._delay.away == 1.0 or not cached:
            return duration_ms
        seen_away = bool(self._seen) and self._seen[task] not in cached
        return max(1, round(duration_ms * self._delay.away ** ((node not in cached) - seen_away)))

    # ---- the waiting tasks ----

    def _is_tied(self) -> bool:
        """Whether nodes cache the input of a task."""
        return any(alike.executors for alike in self._alike)

    def _follow(self, pending: list[int]) -> None:
        if pending is self._list and len(pending) == self._waiting:
            return
        self._list, self._waiting = pending, len(pending)
        for alike in self._alike:
            alike.waiting.clear()
        for task in pending:
            self._of[task].waiting.append(task)

    def _launched(self, task: int, pending: list[int]) -> None:
        pending.append(pending.pop() if pending[-1] == task else pending.pop(pending.index(task)))
        waiting = self._of[task].waiting
        waiting.remove(task) if waiting[-1] != task else waiting.pop()
        self._waiting -= 1

    # ---- levels and timers ----

    def _offers(self, now_ms: int) -> _Round:
        slots = self._slots
        if self._places != slots.offers.changes:
            self._places = slots.offers.changes
            self._recompute()
        offers = self._round
        if offers is not None and offers.now_ms == now_ms:
            return offers
        if offers is not None and not self._delay.waits.restarts_at_launch:
            if offers.refused:
                self._unrefused = False
            elif offers.nearest is not None and (offers.full or self._unrefused):
                self._restart(offers.now_ms, offers.nearest)
                self._unrefused = True
        # Ends of holds are offered with all free slots, too.
        full = not self._delay.waits.revive_ms or offers is None or slots.offers.all or bool(slots.holders)
        self._round = offers = _Round(now_ms, full)
        return offers

    def _recompute(self) -> None:
        """The levels that some task can have with the nodes that are there."""
        present, racks = self._slots.present, self._slots.nodes.racks
        here = {racks[node] for node, there in enumerate(present) if there}
        found = []
        for level in Level:
            wanting = (alike for alike in self._alike if alike.waiting and alike.prefers(level))
            if level == Level.ANY or any(self._reachable(alike, level, present, here) for alike in wanting):
                found.append(level)
        before, self._levels = self._levels, tuple(found)
        if before == (Level.ANY,):
            self._level = 0
            return
        level = before[min(self._level, len(before) - 1)]
        fresh = [new for new in found if new not in before]
        self._level = self._position(fresh[0] if fresh and fresh[0] < level else level)

    @staticmethod
    def _reachable(alike: _Alike, level: Level, present: list[bool], racks: set[int]) -> bool:
        if level == Level.NO_PREF:
            return True
        if level == Level.RACK:
            return not racks.isdisjoint(alike.racks)
        return any(present[node] for node in alike.nodes_at(level))

    def _position(self, level: Level) -> int:
        return next(at for at, own in enumerate(self._levels) if own >= level)

    def _restart(self, at_ms: int, level: Level) -> None:
        self._reset_ms = at_ms
        self._level = self._position(level)

    def _allowed(self, now_ms: int) -> Level:
        while self._level < len(self._levels) - 1:
            level = self._levels[self._level]
            wait_ms = self._delay.waits.of(level)
            if not any(alike.waiting and alike.prefers(level) for alike in self._alike):
                self._reset_ms = now_ms
            elif now_ms - self._reset_ms >= wait_ms:
                self._reset_ms += wait_ms
            else:
                break
            self._level += 1
        return self._levels[self._level]

    # ---- places ----

    def _offered(self) -> Iterator[int]:
        """The nodes whose open slots are offered in this round."""
        slots = self._slots
        among: Iterable[int] = slots.opened
        if self._round is None or self._round.full:
            among = range(len(slots.present))
        return (node for node in among if slots.is_open(node))

    def _find(self, now_ms: int, most: Level) -> tuple[int, int, Level] | None:
        """Task, node and level of the next launch at this level or a nearer one."""
        for level in (Level.PROCESS, Level.NODE):
            if level <= most and level in self._levels:
                found = self._nearest(now_ms, level)
                if found is not None:
                    return (*found, level)
        if most >= Level.NO_PREF:
            for alike in self._alike:
                if alike.waiting and not alike.nodes:
                    node = self._anywhere(alike.waiting[-1], now_ms)
                    if node != NONE:
                        return alike.waiting[-1], node, Level.NO_PREF
        if most >= Level.RACK and Level.RACK in self._levels:
            racks = self._slots.nodes.racks
            for alike in self._alike:
                if alike.waiting and alike.racks:
                    there = next((n for n in self._offered() if racks[n] in alike.racks), NONE)
                    if there != NONE:
                        return alike.waiting[-1], there, Level.RACK
        if most >= Level.ANY:
            assert self._list
            task = min(alike.waiting[-1] for alike in self._alike if alike.waiting)
            node = self._anywhere(task, now_ms)
            if node != NONE:
                return task, node, Level.ANY
        return None

    def _nearest(self, now_ms: int, level: Level) -> tuple[int, int] | None:
        """A task and one of its nodes; if possible the one where it was seen."""
        stage, slots = self._stage, self._slots
        full = self._round is None or self._round.full
        other: tuple[int, int] | None = None
        for alike in self._alike:
            nodes = alike.nodes_at(level)
            if not alike.waiting or not nodes:
                continue
            task = alike.waiting[-1]
            if not full:
                nodes = tuple(node for node in nodes if node in slots.opened)
            seen = self._seen[task] if self._seen else NONE
            if seen in nodes and slots.is_open(seen) and stage.job not in slots.holders:
                return task, seen
            if other is None and nodes and any(slots.present[node] for node in nodes):
                node = slots.near(stage.job, nodes, now_ms)
                if node != NONE:
                    other = task, node
        return other

    def _anywhere(self, task: int, now_ms: int) -> int:
        """As `Slots.choose`, with the node where the task was seen in the place of chance."""
        stage, slots = self._stage, self._slots
        full = self._round is None or self._round.full
        if stage.job not in slots.holders:
            if self._seen:
                node = self._seen[task]
                if slots.is_open(node) and (full or node in slots.opened):
                    return node
            if not full:
                return next(self._offered(), NONE)
        return slots.choose(stage, now_ms)
