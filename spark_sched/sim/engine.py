"""The event loop: a virtual clock in whole milliseconds, one queue, the same rules for the same seed.

One turn of the loop is one instant:

1. Everything that happens at this instant, in the order of `_ORDER` and then of its scheduling: ends of
   tasks, servers, stages whose delay is over, arrivals, timers.
2. Holds whose deadline has come expire.
3. The policy plans, if something happened that its plans depend on.
4. Waiting tasks get slots: by priority, by the plan's queues and ranks where it orders, by arrival; then
   what waits behind a gate gets the slots that nobody else can use.
5. Held slots without a task to wait for run copies of stragglers.
6. The next wake-up for holds and copies is set.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from spark_sched.config import Settings, keys
from spark_sched.errors import BadInputError
from spark_sched.events import Event
from spark_sched.sim import planning
from spark_sched.sim.cluster import ClusterSpec
from spark_sched.sim.collector import seldom_collected
from spark_sched.sim.durations import Durations
from spark_sched.sim.gates import Gates
from spark_sched.sim.launching import Launcher
from spark_sched.sim.placement import Slots
from spark_sched.sim.queues import QueueTurns
from spark_sched.sim.records import UNRANKED, Attempt, JobRun, StageRun
from spark_sched.sim.reserve import Reservations
from spark_sched.sim.results import Recorder, Result
from spark_sched.sim.servers import Servers
from spark_sched.sim.stages import new_stage
from spark_sched.sim.story import Story
from spark_sched.sim.waiting import WaitingStages
from spark_sched.sim.workload import JobSpec
from spark_sched.state import EndedJob

__all__ = ["Simulation"]

# The order of what happens at one instant: ends before starts, so that a slot freed now is had now.
_TASK_END, _SERVER, _NODE, _STAGE_READY, _ARRIVAL, _FOLLOWER, _LOCALITY, _WAKE, _PLAN = range(9)
_ORDER = ("task end", "server", "node", "stage ready", "arrival", "follower", "locality", "wake-up", "plan")

#: Instants between two calls of ``progress``.
_PROGRESS_EVERY = 2048


class Simulation:
    """One run of a workload on a cluster under a policy.

    Args:
        cluster: where.
        jobs: what, in the order of submission; read as the clock gets there, so that it may be a generator.
        planner: the policy and what it may know.
        settings: ``spark.sched.*`` settings, as live.
        seed: of placement and of copies' durations. The same seed gives the same bytes; a copy's duration
            depends on the seed, job, stage and task alone, so that runs under two policies stay paired.
        keep_tasks: keep a row for every attempt.
        until_ms: stop the clock here; None: when nothing more can happen.
        observer: gets every event a live planner would get.
        check: look for broken promises of the ledger at every instant (slow).
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
    ) -> None:
        cluster.check()
        self.now_ms = 0
        self._cluster = cluster
        self._source = iter(jobs)
        self._planner = planner
        self._until_ms = until_ms
        self._check = check
        self._own_rule = planning.own_rule(settings)
        self._enabled = settings[keys.RESERVATION_ENABLED]
        rng = random.Random(seed)
        self._slots = Slots(cluster, rng)
        self._totals = [0 if node.from_ms else node.slots for node in cluster.nodes]
        self._jobs: dict[str, JobRun] = {}
        self._new: dict[str, JobRun] = {}  # since the last plan
        self._ended: dict[str, EndedJob] = {}  # since the last plan
        self._story = Story(planner.predictor, observer, cluster)
        self._reservations = Reservations(self._slots, self._jobs, self._story.listener)
        self._servers: Servers | None = None
        if cluster.model == "sharing":
            self._servers = Servers(cluster, self._slots, rng, self._push_server, self._evicted)
        self._durations = Durations(cluster, seed)
        self._keep_tasks = keep_tasks
        self._recorder = Recorder(self._slots.names)
        self._heap: list[tuple[int, int, int, object]] = []
        self._pushes = 0
        self._tasks = 0
        self._stages = 0
        self._arrivals = 0
        self._parts = 0
        self._changed = 0
        self._waiting = WaitingStages()
        self._gates = Gates(self._waiting)
        self._queues = QueueTurns()
        self._launcher = Launcher(
            self._slots,
            self._waiting,
            self._gates,
            self._reservations,
            self._queues,
            launch=self._launch,
            wake=self._wake_for_locality,
            replan=self._plan if planner.mask & planning.LAUNCHES and not planner.every_ms else None,
        )
        self._unranked = 0  # rank of a job that the plan in force does not know
        self._new_jobs_wait = False  # whether such a job waits for the next plan: without a plan none does
        self._armed_ms: int | None = None
        self._plan_at_ms = -1
        self._again_ms: int | None = None  # the plan in force wants another one then
        for number, node in enumerate(cluster.nodes):
            if node.from_ms:
                self._push(node.from_ms, _NODE, (number, True))
            if node.until_ms is not None:
                self._push(node.until_ms, _NODE, (number, False))

    # ---- the loop ----

    def run(self, progress: Callable[[int, int], None] | None = None) -> Result:
        """Run to the end. ``progress(jobs ended, now_ms)`` is called now and then.

        Raises BadInputError for a job that cannot be simulated.
        """
        with seldom_collected():
            return self._run(progress)

    def _run(self, progress: Callable[[int, int], None] | None) -> Result:
        heap, slots, changes = self._heap, self._slots, self._planner.mask
        pop = heapq.heappop
        self._arrive()
        if self._planner.every_ms and heap and heap[0][0] > 0:
            # As live: a plan is in force when the first job comes.
            self._plan()
        instants = 0
        while heap:
            now = heap[0][0]
            if self._until_ms is not None and now > self._until_ms:
                break
            self.now_ms = now
            # 1. What happens now.
            while heap and heap[0][0] == now:
                _, kind, _, item = pop(heap)
                if kind == _TASK_END:
                    if item.alive:  # type: ignore[attr-defined]
                        self._succeeded(item)  # type: ignore[arg-type]
                else:
                    self._happened(kind, item)
            # 2. What expires now.
            if slots.holders:
                self._reservations.expire(now)
            # 3. The plan.
            if self._changed & changes:
                self._plan()
            # 4. and 5. Slots for tasks, held ones for copies.
            if slots.free_total and (self._waiting.order or slots.holders or self._gates):
                self._launcher.launch_all(now)
                if changes & planning.ROUNDS and self._changed:
                    self._plan()
            # 6. The next wake-up.
            if slots.holders:
                self._arm()
            if self._check:
                self._reservations.check(now)
            instants += 1
            if progress is not None and instants % _PROGRESS_EVERY == 0:
                progress(self._recorder.ended, now)
        return self._finish()

    def _happened(self, kind: int, item: object) -> None:
        if kind == _SERVER:
            assert self._servers is not None
            for attempt in self._servers.happened(item, self.now_ms):
                self._succeeded(attempt)
        elif kind == _STAGE_READY:
            self._start_stage(*item)  # type: ignore[misc]
        elif kind == _ARRIVAL:
            self._start_job(item)  # type: ignore[arg-type]
            self._arrive()
        elif kind == _FOLLOWER:
            assert isinstance(item, JobSpec)
            item.check()
            self._start_job(replace(item, submit_ms=self.now_ms))
        elif kind == _NODE:
            self._node_changed(*item)  # type: ignore[misc]
        elif kind == _LOCALITY:
            item.waiting = False  # type: ignore[attr-defined]
        elif kind == _WAKE:
            if self._armed_ms == self.now_ms:
                self._armed_ms = None
        elif item is None:
            self._plan_at_ms = self.now_ms
        elif self._again_ms == self.now_ms:
            self._plan_at_ms = self.now_ms
            self._changed |= planning.ARRIVALS  # whatever the policy depends on: it asked

    def _push(self, at_ms: int, kind: int, item: object) -> None:
        self._pushes += 1
        heapq.heappush(self._heap, (at_ms, kind, self._pushes, item))

    def _wake_for_locality(self, at_ms: int, stage: StageRun) -> None:
        self._push(at_ms, _LOCALITY, stage)

    def _push_server(self, at_ms: int, item: object) -> None:
        self._push(at_ms, _SERVER, item)

    def _node_changed(self, node: int, joins: bool) -> None:
        spec = self._cluster.nodes[node]
        self._totals = self._totals.copy()  # snapshots keep theirs
        self._totals[node] = spec.slots if joins else 0
        self._changed |= planning.NODES
        if joins:
            self._slots.join(node, spec.slots)
            self._reservations.node_joined(node, self.now_ms)
            self._story.node_joined(spec, self.now_ms)
        else:
            self._reservations.node_leaves(node, self.now_ms)
            self._slots.leave(node, spec.slots)
            if spec.dies:
                for attempt in self._running(lambda a: a.node == node):
                    if attempt.alive:
                        self._evicted(attempt, "lost")
            self._node_emptied(node)

    def _node_emptied(self, node: int) -> None:
        """A node that leaves is gone when the last of its tasks has ended."""
        if self._slots.left.get(node) == 0:
            self._story.node_left(self._slots.names[node], self.now_ms)

    # ---- jobs and stages ----

    def _arrive(self) -> None:
        """The next job of the workload waits for its time."""
        spec = next(self._source, None)
        if spec is not None:
            spec.check()
            if spec.submit_ms < self.now_ms:
                raise BadInputError(
                    f"job {spec.key!r} is submitted at {spec.submit_ms} ms, after a job of {self.now_ms} ms: "
                    "sort the jobs by their submission"
                )
            self._push(spec.submit_ms, _ARRIVAL, spec)

    def _start_job(self, spec: JobSpec) -> None:
        if spec.key in self._jobs:
            raise BadInputError(f"two jobs that run at once have the key {spec.key!r}: keys must differ")
        job = JobRun(spec, self._arrivals, self._own_rule(spec), self.now_ms)
        self._arrivals += 1
        job.parts[spec.stages[0].part] = self._parts
        self._parts += 1
        job.rank = self._unranked
        job.deferred = self._new_jobs_wait
        self._jobs[spec.key] = job
        self._new[spec.key] = job
        self._changed |= planning.ARRIVALS
        self._story.job_started(spec, self.now_ms)
        if self._planner.every_ms:
            # Until the next plan its own rule holds; an ideal planner plans before anything is launched.
            self._reservations.rule_set(job, self.now_ms)
        for index, stage in enumerate(spec.stages):
            if not stage.parents:
                self._ready(job, index)

    def _ready(self, job: JobRun, index: int) -> None:
        delay_ms = job.spec.stages[index].delay_ms
        if delay_ms > 0:
            self._push(self.now_ms + delay_ms, _STAGE_READY, (job, index))
        else:
            self._start_stage(job, index)

    def _start_stage(self, job: JobRun, index: int) -> None:
        part = job.spec.stages[index].part
        if part not in job.parts:
            job.parts[part] = self._parts
            self._parts += 1
        stage = new_stage(
            job, index, f"{self._stages}.0", self.now_ms, self._cluster, self._slots, job.parts[part]
        )
        self._stages += 1
        job.stages[stage.key] = stage
        job.view = None
        for at_ms in sorted({stage.rack_at_ms, stage.any_at_ms}):
            if at_ms > self.now_ms:
                self._push(at_ms, _LOCALITY, stage)
        self._changed |= planning.STAGES
        self._story.stage_started(stage, self.now_ms)
        self._reservations.stage_started(stage, self.now_ms)
        self._waiting.add(stage)
        if job.pilots is not None and job.pilots.stage == index:
            self._gates.shut(stage, job.pilots.tasks)

    def _end_stage(self, stage: StageRun) -> None:
        job = stage.job
        del job.stages[stage.key]
        job.view = None
        job.stages_left -= 1
        if self._cluster.locality is not None:
            job.outputs[stage.index] = stage.ran_on
        self._changed |= planning.STAGES
        self._story.stage_ended(stage, self.now_ms)
        self._reservations.stage_ended(stage, self.now_ms)
        if job.stages_left == 0:
            self._end_job(job)
            return
        for index, child in enumerate(job.spec.stages):
            if stage.index in child.parents:
                job.parents_left[index] -= 1
                if job.parents_left[index] == 0:
                    self._ready(job, index)

    def _end_job(self, job: JobRun) -> None:
        self._reservations.job_ended(job, self.now_ms)
        del self._jobs[job.key]
        self._new.pop(job.key, None)
        self._ended[job.key] = EndedJob(self.now_ms, job.work_ms + job.wasted_ms)
        self._changed |= planning.JOBS
        self._story.job_ended(job, self.now_ms)
        self._recorder.job(job, self.now_ms)
        for pause_ms, follower in job.spec.then:
            self._push(self.now_ms + pause_ms, _FOLLOWER, follower)

    # ---- attempts ----

    def _launch(self, stage: StageRun, index: int, node: int, copy: bool = False) -> None:
        now, job = self.now_ms, stage.job
        self._tasks += 1
        a = Attempt(self._tasks, stage, index, node, now, copy)
        self._slots.take(node)
        stage.running[a.task] = a
        stage.view = job.view = None
        job.running_slots += 1
        if job.queue is not None:
            self._queues.started(job.queue)
        job.starts += 1
        if job.first_launch_ms < 0:
            job.first_launch_ms = now
        self._changed |= planning.TASKS
        if copy:
            duration_ms = self._durations.copy_ms(stage, index)
            original = stage.originals[index]
            a.twin, original.twin = original, a
            job.copies += 1
        else:
            duration_ms = stage.spec.durations_ms[index]
        if self._servers is not None:
            memory = stage.spec.memory[index] if stage.spec.memory else 0.0
            self._servers.start(a, duration_ms, memory, now)
        else:
            if self._durations.vary or job.spec.preferred is not None:
                has_input = self._slots.has_input(stage, node)
                duration_ms = self._durations.there_ms(stage, node, duration_ms, has_input)
            self._pushes += 1
            heapq.heappush(self._heap, (now + duration_ms, _TASK_END, self._pushes, a))
        self._story.version += 1
        if self._story.listener is not None:
            self._story.launched(a, now, self._slots.names[node])
        if self._reservations.engaged:
            self._reservations.launched(a, now)
            if a.reserves and not copy:
                stage.originals[index] = a

    def _succeeded(self, a: Attempt) -> None:
        stage = a.stage
        self._stop(a, "success")
        duration_ms = self.now_ms - a.start_ms
        stage.add_duration(max(1, duration_ms))
        stage.job.work_ms += duration_ms
        if self._cluster.locality is not None:
            stage.ran_on[a.node] = None
        if a.reserves:
            stage.originals.pop(a.index, None)
        twin = a.twin
        if twin is not None:
            stage.job.copies_won += a.copy
            if twin.alive:
                stage.job.wasted_ms += self.now_ms - twin.start_ms
                self._stop(twin, "killed")
        if stage.finished == stage.spec.tasks:
            self._end_stage(stage)

    def _evicted(self, a: Attempt, outcome: str = "evicted") -> None:
        """Its work is lost and its task waits again; the job's place in the order is as before."""
        stage, job = a.stage, a.stage.job
        self._stop(a, outcome)
        job.evictions += outcome == "evicted"
        job.wasted_ms += self.now_ms - a.start_ms
        if a.twin is None or not a.twin.alive:
            self._gates.again(stage, a.index)

    def _stop(self, a: Attempt, outcome: str) -> None:
        now, stage = self.now_ms, a.stage
        a.alive = False
        self._slots.give(a.node)
        del stage.running[a.task]
        job = stage.job
        stage.view = job.view = None
        job.running_slots -= 1
        if job.queue is not None:
            self._queues.stopped(job.queue, now - a.start_ms, now)
        self._changed |= planning.TASKS
        if a.index in stage.pilots and self._gates.ended(a):
            self._changed |= planning.GATES
        if self._servers is not None:
            self._servers.stop(a, now)
        if self._keep_tasks:
            self._recorder.attempt(a, now, outcome)
        self._story.version += 1
        if self._story.listener is not None:
            self._story.ended(a, outcome, now, self._slots.names[a.node])
        if self._slots.left:
            self._node_emptied(a.node)
        if self._reservations.engaged:
            self._reservations.ended(a, outcome == "success", now)

    # ---- 3. the plan ----

    def _plan(self) -> None:
        every_ms, now = self._planner.every_ms, self.now_ms
        if every_ms and self._plan_at_ms != now:
            # Not yet: at the next multiple, once.
            at_ms = now + (-now) % every_ms
            if at_ms > now and self._plan_at_ms < now:
                self._plan_at_ms = at_ms
                self._push(at_ms, _PLAN, None)
            if at_ms > now:
                return
        self._changed = 0
        one_by_one = self._planner.one_by_one
        jobs = self._new if one_by_one else self._jobs
        ended, self._ended = self._ended, {}
        plan = self._planner.plan(jobs, self._slots, self._totals, self._story.version, now, ended)
        ordered = plan.ordered and not one_by_one
        self._unranked = UNRANKED if ordered else 0
        self._new_jobs_wait = plan.new_jobs_wait
        for job in planning.put_in_force(
            plan, jobs, ordered=plan.ordered, by_arrival=one_by_one, enabled=self._enabled
        ):
            self._waiting.unsorted = True
            self._reservations.rule_set(job, now)
        for entry in plan.jobs:
            job = jobs[entry.job]
            if entry.evict:
                self._evict(job)
            if entry.pilots != job.pilots:
                job.pilots = entry.pilots
                for stage in job.stages.values():
                    if entry.pilots is not None and entry.pilots.stage == stage.index:
                        self._gates.shut(stage, entry.pilots.tasks)
                    elif stage.pilots:
                        self._gates.open(stage)
        self._new.clear()
        self._queues.put(plan.queue_weights, self._jobs.values())
        if plan.again_ms is None:
            self._again_ms = None
        else:
            # Never at this instant again, and at the planner's own pace.
            at_ms = max(plan.again_ms, now + 1)
            at_ms += -at_ms % every_ms if every_ms else 0
            if at_ms != self._again_ms:
                self._again_ms = at_ms
                self._push(at_ms, _PLAN, "again")

    def _evict(self, job: JobRun) -> None:
        """Kill a job's running tasks for others, as live those of restartable stages; they wait again."""
        for attempt in self._running(lambda a: a.stage.job is job and a.stage.restartable):
            if attempt.alive:
                self._evicted(attempt)
        self._changed = 0  # the plan knows

    def _running(self, chosen: Callable[[Attempt], bool]) -> list[Attempt]:
        """Running attempts in the order of their launch. Rare enough to look through the whole queue."""
        found = [
            item
            for _, kind, _, item in self._heap
            if kind == _TASK_END and isinstance(item, Attempt) and item.alive and chosen(item)
        ]
        return sorted(found, key=lambda a: a.task)

    # ---- 6. timers, and the end ----

    def _arm(self) -> None:
        """A timer that fires too early costs less than moving it each time a deadline moves."""
        wake_ms = self._reservations.next_wake_ms(self.now_ms)
        if wake_ms is not None and (self._armed_ms is None or wake_ms < self._armed_ms):
            self._armed_ms = max(wake_ms, self.now_ms + 1)
            self._push(self._armed_ms, _WAKE, None)

    def _finish(self) -> Result:
        for job in self._jobs.values():
            self._recorder.unfinished(job)
        totals: dict[str, float] = {
            "end_ms": self.now_ms,
            "tasks_launched": self._tasks,
            "plans": self._planner.plans,
            **self._reservations.totals(self.now_ms),
        }
        if self._servers is not None:
            totals["energy_j"] = sum(self._servers.energy_j(self.now_ms))
        # What waits in the queue and in the source at the horizon was never submitted.
        waiting = [item for _, _, _, item in self._heap if isinstance(item, JobSpec)]
        source = list(self._source) if waiting else []
        behind = [job.spec for job in self._jobs.values()]
        never = [spec for first in (*waiting, *source, *behind) for spec in first.and_followers()]
        totals["jobs_not_submitted"] = len(never) - len(behind)
        return self._recorder.result(totals)
