"""The event loop: a virtual clock in whole milliseconds and one event queue; the same seed gives the same
run.

One turn of the loop is one instant:

1. Everything that happens at this instant, in the order of `spark_sched_lab.engine.agenda`: ends of tasks,
   servers, stages whose delay is over, arrivals, timers.
2. Holds whose deadline has been reached expire.
3. The policy makes a plan, if something happened that its plans depend on.
4. Waiting tasks get slots: by priority, by the plan's queues and ranks if it has any, by arrival. Then tasks
   behind a gate get the slots that no other task can use.
5. Held slots of jobs without waiting tasks run copies of stragglers.
6. The next wake-up for holds, copies and planned starts is set.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable

from spark_sched.config import Settings, keys
from spark_sched.config.queues import NO_QUEUES
from spark_sched.protocol.events import Event
from spark_sched_lab.cluster.cluster import ClusterSpec
from spark_sched_lab.cluster.durations import Durations
from spark_sched_lab.cluster.nodes import Nodes
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.cluster.servers import Servers
from spark_sched_lab.enforce.enforcement import StartGate
from spark_sched_lab.enforce.idle import FOREVER_MS
from spark_sched_lab.enforce.queues import QueueTurns
from spark_sched_lab.engine import planning
from spark_sched_lab.engine.agenda import (
    Agenda,
    Arrival,
    DriverDone,
    Follower,
    Happening,
    Instant,
    LocalityOver,
    MarksChanged,
    MemoryCheck,
    NextCompletion,
    NodeChange,
    PlanDue,
    StageReady,
    WakeUp,
)
from spark_sched_lab.engine.attempts import Attempts
from spark_sched_lab.engine.collector import seldom_collected
from spark_sched_lab.engine.emitted_events import EmittedEvents
from spark_sched_lab.engine.gates import Gates
from spark_sched_lab.engine.jobs import ActiveJobs, Newcomers
from spark_sched_lab.engine.launching import Launcher
from spark_sched_lab.engine.plan_in_force import Plans
from spark_sched_lab.engine.records import Attempt, JobRun
from spark_sched_lab.engine.reservations import Reservations
from spark_sched_lab.engine.results import Recorder, Result
from spark_sched_lab.engine.rules import Rules
from spark_sched_lab.engine.tenant_queues import TenantQueues
from spark_sched_lab.engine.waiting import WaitingStages
from spark_sched_lab.engine.workload import JobSpec, SchedulingChange

#: Instants between two calls of ``progress``.
_PROGRESS_EVERY = 2048


class Simulation:
    """One run of a workload on a cluster under a policy.

    Arguments are those of `spark_sched_lab.simulator.simulate`, with a planner and checked settings instead
    of names. The same seed gives the same bytes; a copy's duration depends on the seed, job, stage and task
    alone, so that runs under two policies stay paired.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        jobs: Iterable[JobSpec],
        planner: planning.Planner,
        settings: Settings,
        *,
        seed: int = 0,
        keep_tasks: bool = True,
        until_ms: int | None = None,
        observer: Callable[[Event], None] | None = None,
        check: bool = False,
        changes: Iterable[SchedulingChange] = (),
    ) -> None:
        cluster.check()
        instant = self._instant = Instant()
        agenda = self._agenda = Agenda()
        self._until_ms = until_ms
        self._check = check
        self._changes = deque(sorted(changes, key=lambda change: change.at_ms))
        rng = random.Random(seed)
        slots = self._slots = Slots(cluster, rng)
        emitted = EmittedEvents(planner.predictor, observer, cluster)
        recorder = self._recorder = Recorder(slots.nodes.names)
        waiting = WaitingStages(planner.policy.capabilities.by_spark_job)
        gates = Gates(waiting)
        queues = QueueTurns()
        starts = self._starts = StartGate(FOREVER_MS)  # a planner of the simulator never dies
        newcomers = Newcomers(reserve=bool(planner.every_ms))
        rules = Rules.of(settings)
        active: dict[str, JobRun] = {}
        reservations = Reservations(
            slots, active, [node.slots for node in cluster.nodes], [node.profile for node in cluster.nodes],
            emitted.listener, rules.overlay.idle, seed,
        )  # fmt: skip
        tree = settings[keys.QUEUES]
        if tree is None and any(change.queues is not None for change in self._changes):
            tree = NO_QUEUES
        tenants = None if tree is None else TenantQueues(tree, instant, reservations, active)
        self._jobs = ActiveJobs(
            instant, agenda, cluster, slots, waiting, gates, emitted, recorder, newcomers, rules,
            reservations, active, iter(jobs),
        )  # fmt: skip
        durations = Durations(cluster, seed)
        attempts = self._attempts = Attempts(
            instant, agenda, slots, queues, gates, starts, durations, reservations, emitted,
            recorder if keep_tasks else None, follow_outputs=cluster.locality is not None,
            stage_over=self._jobs.end_stage, since_plan=self._jobs.since_plan,
        )  # fmt: skip
        self._servers: Servers | None = None
        if cluster.model == "sharing":
            self._servers = attempts.servers = Servers(cluster, slots, rng, agenda.push, attempts.evict)
        at_first = [0 if node.from_ms else node.slots for node in cluster.nodes]
        if tenants is not None:
            tenants.usage.capacity(sum(at_first))
        self._plans = Plans(
            planner, instant, agenda, self._jobs, attempts, slots, waiting, gates, queues, starts, emitted,
            at_first,
        )  # fmt: skip
        self._launcher = Launcher(
            slots, waiting, gates, reservations, queues, starts,
            launch=attempts.launch,
            wake=lambda at_ms, stage: agenda.push(at_ms, LocalityOver(stage)),
            replan=self._plans.make if self._replans(planner.mask) else None,
            tenants=tenants,
        )  # fmt: skip
        self._nodes = Nodes(cluster.nodes, instant, slots, reservations, emitted, attempts, self._plans)
        self._armed_ms: int | None = None
        self._nodes.schedule(agenda)

    # ---- the loop ----

    def run(self, progress: Callable[[int, int], None] | None = None) -> Result:
        """Run to the end. ``progress(jobs ended, now_ms)`` is called occasionally.

        Raises BadInputError for a job that cannot be simulated.
        """
        with seldom_collected():
            return self._run(progress)

    def _run(self, progress: Callable[[int, int], None] | None) -> Result:
        heap, slots, instant, plans = self._agenda.heap, self._slots, self._instant, self._plans
        reservations = self._jobs.reservations
        active, tenants = self._jobs.active, reservations.tenants
        mask, succeeded, changes = plans.planner.mask, self._attempts.succeeded, self._changes
        pop = heapq.heappop
        self._jobs.next_arrival()
        if plans.planner.every_ms and heap and heap[0][0] > 0:
            # As in a live application, a plan is in force when the first job arrives.
            plans.make()
        instants = 0
        while heap:
            now = heap[0][0]
            if changes and changes[0].at_ms < now:
                now = max(changes[0].at_ms, instant.now_ms)
            if self._until_ms is not None and now > self._until_ms:
                break
            instant.now_ms = now
            if changes and changes[0].at_ms <= now:
                plans.settle()
            if tenants is not None:
                tenants.usage.advance(now)
            # 1. What happens now.
            while heap and heap[0][0] == now:
                item = pop(heap)[3]
                if isinstance(item, Attempt):
                    if item.alive:
                        succeeded(item)
                else:
                    self._happened(item, now)
            while changes and changes[0].at_ms <= now:
                mask = self._changed(changes.popleft())
            # 2. What expires now.
            if slots.holders and reservations.expire(now):
                instant.changed |= planning.EXPIRED
            if tenants is not None:
                tenants.usage.freed(now)
                for key in tenants.usage.overdue(now):
                    self._jobs.refused(active[key])
            # 3. The plan.
            if instant.changed & mask:
                plans.make()
            # 4. and 5. Slots for tasks, held ones for copies.
            if slots.free_total and self._launcher.wanted:
                self._launcher.launch_all(now)
                if mask & planning.ROUNDS and instant.changed:
                    plans.make()
            if tenants is not None and self._evicts_for_floors(tenants):
                self._launcher.launch_all(now)
            # 6. The next wake-up.
            if slots.holders or self._starts.active or tenants is not None:
                self._arm()
            if self._check:
                reservations.check(now)
            instants += 1
            if progress is not None and instants % _PROGRESS_EVERY == 0:
                progress(self._recorder.ended, now)
        return self._finish()

    def _changed(self, change: SchedulingChange) -> int:
        """Apply an operator's change for all jobs. Returns the changes on which plans depend from now on."""
        self._plans.changed(change)
        tenants = self._jobs.reservations.tenants
        if change.queues is not None and tenants is not None:
            tenants.changed(change.queues)
            self._slots.offers.all = True
        mask = self._plans.planner.mask
        self._launcher.replan = self._plans.make if self._replans(mask) else None
        return mask

    def _replans(self, mask: int) -> bool:
        """Whether a plan is made after each launch."""
        return bool(mask & planning.LAUNCHES) and not self._plans.planner.every_ms

    def _happened(self, item: Happening, now_ms: int) -> None:
        match item:
            case NextCompletion() | MemoryCheck():
                assert self._servers is not None
                for attempt in self._servers.happened(item, now_ms):
                    self._attempts.succeeded(attempt)
            case StageReady(job, index):
                # Its queue may have refused the job during the stage's delay.
                if self._jobs.active.get(job.key) is job:
                    self._jobs.start_stage(job, index)
            case DriverDone(job):
                self._jobs.end(job)
            case Arrival(spec):
                self._jobs.arrived(spec)
            case Follower(following):
                self._jobs.followed(following)
            case MarksChanged(job, change):
                self._jobs.marks_changed(job, change)
            case NodeChange(node, joins):
                self._nodes.changed(node, joins)
            case LocalityOver(stage):
                stage.places.refused = False
                self._slots.offers.all = True
            case WakeUp():
                if self._armed_ms == now_ms:
                    self._armed_ms = None
            case PlanDue():
                self._plans.due(item)

    def _evicts_for_floors(self, tenants: TenantQueues) -> bool:
        """Evict attempts for queues that stay below their floors. Returns whether there were any."""
        attempts = tenants.to_evict()
        for attempt in attempts:
            self._attempts.evict(attempt)
        return bool(attempts)

    # ---- 6. timers, and the end ----

    def _arm(self) -> None:
        """Set the next timer. One that fires too early costs less than moving it with each deadline."""
        now_ms = self._instant.now_ms
        reservations = self._jobs.reservations
        tenants = reservations.tenants
        wakes_ms = (
            reservations.next_wake_ms(now_ms) if self._slots.holders else None,
            self._starts.next_start_ms(now_ms),
            None if tenants is None else tenants.next_wake_ms(),
        )
        wake_ms = min(at_ms for at_ms in (*wakes_ms, FOREVER_MS) if at_ms is not None)
        if wake_ms < (FOREVER_MS if self._armed_ms is None else self._armed_ms):
            self._armed_ms = max(wake_ms, now_ms + 1)
            self._agenda.push(self._armed_ms, WakeUp())

    def _finish(self) -> Result:
        now_ms = self._instant.now_ms
        for job in self._jobs.active.values():
            self._jobs.reservations.settle(job, now_ms)
            self._recorder.unfinished(job)
        totals: dict[str, float] = {
            "end_ms": now_ms,
            "tasks_launched": self._attempts.launched,
            "plans": self._plans.planner.plans,
            **self._jobs.reservations.totals(now_ms),
        }
        if self._servers is not None:
            totals["energy_j"] = sum(self._servers.energy_j(now_ms))
        # Jobs that are still in the queue or in the source at the horizon were never submitted.
        totals["jobs_not_submitted"] = self._jobs.never_submitted()
        tenants = self._jobs.reservations.tenants
        return self._recorder.result(totals, [] if tenants is None else tenants.rows())
