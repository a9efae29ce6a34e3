"""Attempts of tasks: their starts, their ends, and the components notified of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spark_sched_lab.cluster.durations import Durations
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.cluster.servers import Servers
from spark_sched_lab.enforce.enforcement import RunningAttempt, StartGate, preempted, victims
from spark_sched_lab.enforce.queues import QueueTurns
from spark_sched_lab.engine import planning
from spark_sched_lab.engine.agenda import Agenda, Instant
from spark_sched_lab.engine.emitted_events import EmittedEvents
from spark_sched_lab.engine.gates import Gates
from spark_sched_lab.engine.jobs import SincePlan
from spark_sched_lab.engine.records import Attempt, JobRun, StageRun
from spark_sched_lab.engine.reservations import Reservations
from spark_sched_lab.engine.results import Recorder


@dataclass(slots=True, eq=False)
class Attempts:
    """Starts and ends attempts.

    Attributes:
        recorder: gets a row for every attempt; None: rows are not kept.
        follow_outputs: whether to record where tasks ran, for the stages that read their output.
        since_plan: gets the jobs whose running slots change.
        stage_over: called when all tasks of a stage are done.
        servers: the servers whose cores tasks share; None: each task has a slot for itself.
    """

    instant: Instant
    agenda: Agenda
    slots: Slots
    queues: QueueTurns
    gates: Gates
    starts: StartGate
    durations: Durations
    reservations: Reservations
    emitted: EmittedEvents
    recorder: Recorder | None
    follow_outputs: bool
    stage_over: Callable[[StageRun], None]
    since_plan: SincePlan
    servers: Servers | None = None
    launched: int = 0

    def launch(self, stage: StageRun, index: int, node: int, copy: bool = False) -> None:
        """Start an attempt of a task of the stage on a free slot of the node."""
        now, job = self.instant.now_ms, stage.job
        self.launched += 1
        a = Attempt(self.launched, stage, index, node, now, copy)
        if (tenants := self.reservations.tenants) is not None:
            tenants.launched(job, self.slots.holders.get(job, {}).get(node, 0), now)
        self.slots.take(node)
        stage.running[a.task] = a
        stage.view = job.view = None
        job.running_slots += 1
        if self.since_plan.touched is not None:
            self.since_plan.touched[job] = None
        if job.queue is not None:
            self.queues.started(job.queue)
        sums = job.sums
        sums.starts += 1
        if sums.first_launch_ms < 0:
            sums.first_launch_ms = now
        self.instant.changed |= planning.TASKS
        if copy:
            duration_ms = self.durations.copy_ms(stage, index)
            original = stage.reruns.originals[index]
            a.twin, original.twin = original, a
            sums.copies += 1
        else:
            duration_ms = stage.spec.durations_ms[index]
        if self.servers is not None:
            memory = stage.spec.memory[index] if stage.spec.memory else 0.0
            self.servers.start(a, duration_ms, memory, now)
        else:
            if self.durations.vary or job.spec.preferred is not None:
                has_input = self.slots.has_input(stage, node)
                duration_ms = self.durations.there_ms(stage, node, duration_ms, has_input)
            elif stage.places.near is not None and not copy:
                duration_ms = stage.places.near.there_ms(index, node, duration_ms)
            self.agenda.push(now + duration_ms, a)
        self.emitted.version += 1
        if self.starts.active:
            self.starts.launched(job.key, self.emitted.version)
        if self.emitted.of_attempts is not None:
            self.emitted.launched(a, now, self.slots.nodes.names[node])
        if self.reservations.engaged:
            self.reservations.launched(a, now)
            if a.reserves and not copy:
                stage.reruns.originals[index] = a

    def succeeded(self, a: Attempt) -> None:
        """The attempt completed its task; its twin is killed."""
        stage, now = a.stage, self.instant.now_ms
        self._stop(a, "success")
        duration_ms = now - a.start_ms
        durations, sums = stage.durations, stage.job.sums
        durations.add(duration_ms)
        sums.work_ms += duration_ms
        if self.follow_outputs:
            stage.places.ran_on[a.node] = None
        if a.reserves:
            stage.reruns.originals.pop(a.index, None)
        twin = a.twin
        if twin is not None:
            sums.copies_won += a.copy
            if twin.alive:
                sums.wasted_ms += now - twin.start_ms
                self._stop(twin, "killed")
        if durations.count == stage.spec.tasks:
            self.stage_over(stage)

    def evict(self, a: Attempt, outcome: str = "evicted", beneficiary: str | None = None) -> None:
        """Evict the attempt: its work is lost and its task waits again; the job keeps its place in the order.

        ``beneficiary``: the job for which it is evicted, if any.
        """
        stage, sums = a.stage, a.stage.job.sums
        self._stop(a, outcome, beneficiary)
        if outcome == "evicted":
            sums.evictions += 1
            evictions = stage.reruns.evictions
            evictions[a.index] = evictions.get(a.index, 0) + 1
        ran_ms = self.instant.now_ms - a.start_ms
        sums.wasted_ms += ran_ms
        if beneficiary is not None:
            sums.evicted_ms += ran_ms
        if a.twin is None or not a.twin.alive:
            self.gates.again(stage, a.index)

    def lose(self, node: int) -> None:
        """All attempts on the node are lost. This is rare, so scanning all events is affordable."""
        for attempt in self.agenda.ends():
            if attempt.node == node and attempt.alive:
                self.evict(attempt, "lost")

    def evict_job(self, job: JobRun) -> None:
        """Kill a job's running tasks for other jobs, those of restartable stages as in a live application;
        they wait again."""
        running = {task: a for stage in job.stages.values() for task, a in stage.running.items()}
        for task in victims((task, a.stage.restartable) for task, a in sorted(running.items())):
            if running[task].alive:
                self.evict(running[task])

    def preempt(self, job: JobRun, named: Sequence[int], jobs: Iterable[JobRun]) -> None:
        """Kill those of the named running attempts whose slots the job's waiting tasks need."""
        wanted = set(named)
        found = {
            task: a
            for each in jobs
            for stage in each.stages.values()
            for task, a in stage.running.items()
            if task in wanted
        }

        def running(task: int) -> RunningAttempt | None:
            a = found.get(task)
            return None if a is None else _facts(a)

        tenants = self.reservations.tenants

        def gives(task: int, going: Sequence[int]) -> bool:
            """A slot of another tenants' queue that the order of queues would give back is not worth an
            eviction."""
            stage = found[task].stage
            free = self.slots.open_by_profile().get(stage.executor_profile, 0)
            moved = [found[each].stage.job.key for each in going]
            return tenants is None or tenants.cedes(stage.job.key, job.key, free, moved)

        waiting_slots = Counter[int]()
        for stage in job.stages.values():
            waiting_slots[stage.executor_profile] += stage.waiting_slots
        if tenants is not None:
            room = tenants.room(job)
            waiting_slots = Counter({profile: min(n, room) for profile, n in waiting_slots.items()})
        for task in preempted(named, job.priority, waiting_slots, running, gives):
            self.evict(found[task], beneficiary=job.key)

    def _stop(self, a: Attempt, outcome: str, beneficiary: str | None = None) -> None:
        now, stage = self.instant.now_ms, a.stage
        a.alive = False
        self.slots.give(a.node)
        del stage.running[a.task]
        job = stage.job
        stage.view = job.view = None
        job.running_slots -= 1
        if (tenants := self.reservations.tenants) is not None:
            tenants.usage.stopped(job.key, 1)
        if self.since_plan.touched is not None:
            self.since_plan.touched[job] = None
        if job.queue is not None:
            self.queues.stopped(job.queue, now - a.start_ms, now)
        self.instant.changed |= planning.TASKS
        if stage.gate is not None and self.gates.ended(a):
            self.instant.changed |= planning.GATES
        if self.servers is not None:
            self.servers.stop(a, now)
        if self.recorder is not None:
            self.recorder.attempt(a, now, outcome)
        self.emitted.version += 1
        if self.emitted.of_attempts is not None:
            self.emitted.ended(a, outcome, now, self.slots.nodes.names[a.node], beneficiary)
        if self.reservations.engaged:
            self.reservations.ended(a, outcome == "success", now)
        if self.slots.left:
            self.node_emptied(a.node)

    def node_emptied(self, node: int) -> None:
        """A leaving node is removed when the last of its tasks has ended."""
        if self.slots.left.get(node) == 0:
            self.reservations.node_left(node, self.instant.now_ms)
            self.emitted.node_left(self.slots.nodes.names[node], self.instant.now_ms)


def _facts(a: Attempt) -> RunningAttempt:
    return RunningAttempt(a.stage.job.priority, a.stage.restartable, 1, a.stage.executor_profile)
