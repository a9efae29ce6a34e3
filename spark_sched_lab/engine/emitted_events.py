"""The simulation as the events that a live planner receives, for an optional listener."""

from __future__ import annotations

from collections.abc import Callable

from spark_sched.predict import Predictor
from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobChanged,
    JobEnded,
    JobStarted,
    SchedulingChanged,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import JobSummary, StageSummary
from spark_sched_lab.cluster.cluster import ClusterSpec, NodeSpec
from spark_sched_lab.engine.records import Attempt, JobRun, StageRun
from spark_sched_lab.engine.workload import JobSpec

#: The types of live events.
_OUTCOMES = {"success": "success", "killed": "killed", "evicted": "killed", "lost": "lost"}


class EmittedEvents:
    """Counts events, and creates them if an observer or a predictor listens.

    A predictor that needs no events says so by ``observes = False`` (the oracle), one that needs none of
    attempts by ``observes_attempts = False``.

    Attributes:
        listener: gets all events; None: there is no listener, and no event is made.
        of_attempts: the same for starts and ends of attempts.
    """

    def __init__(
        self, predictor: Predictor | None, observer: Callable[[Event], None] | None, cluster: ClusterSpec
    ) -> None:
        self.version = 0
        self._predictor = predictor
        self._observer = observer
        self._observes = predictor is not None and bool(getattr(predictor, "observes", True))
        self.listener: Callable[[Event], None] | None = None
        self.of_attempts: Callable[[Event], None] | None = None
        if observer is not None or self._observes:
            self.listener = self._tell
            if observer is not None or getattr(predictor, "observes_attempts", True):
                self.of_attempts = self._tell
            for node in cluster.nodes:
                if node.from_ms == 0:
                    self._tell(ExecutorAdded(0, node.name, node.name, node.slots))

    def _tell(self, event: Event) -> None:
        if self._observer is not None:
            self._observer(event)
        if self._observes:
            assert self._predictor is not None
            self._predictor.observe(event)

    def node_joined(self, node: NodeSpec, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(ExecutorAdded(now_ms, node.name, node.name, node.slots))

    def node_left(self, name: str, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(ExecutorRemoved(now_ms, name, "decommissioned"))

    def job_started(self, spec: JobSpec, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(
                JobStarted(
                    time_ms=now_ms,
                    job=spec.key,
                    name=spec.name,
                    user=spec.user,
                    priority=spec.priority,
                    isolation=spec.isolation,
                    deadline_ms=spec.deadline_ms,
                    job_class=spec.job_class,
                    copies=spec.copies,
                    marked=spec.marked,
                )
            )

    def job_changed(self, job: JobRun, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            s = job.spec
            self.listener(
                JobChanged(now_ms, s.key, s.priority, s.isolation, s.deadline_ms, job.terms.on_hold, by="")
            )

    def scheduling_changed(self, policy: str, paused: bool, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(SchedulingChanged(now_ms, policy, "on", paused, by=""))

    def job_ended(self, job: JobRun, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(JobEnded(now_ms, job.key, "ended"))
        if self._predictor is not None:
            s = job.spec
            self._predictor.learn(
                JobSummary(s.key, s.name, s.marked, "ended", job.started_ms, now_ms, cut_short=False)
            )

    def stage_started(self, stage: StageRun, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(
                StageStarted(
                    time_ms=now_ms,
                    job=stage.job.key,
                    stage=stage.key,
                    name=stage.spec.name,
                    index=stage.index,
                    tasks=stage.spec.tasks,
                    next_tasks=stage.edges.next_tasks,
                    last=stage.edges.last,
                    barrier=stage.spec.gang,
                    restartable=stage.restartable,
                )
            )

    def stage_ended(self, stage: StageRun, now_ms: int) -> None:
        self.version += 1
        if self.listener is not None:
            self.listener(StageEnded(now_ms, stage.job.key, stage.key, True))
        if self._predictor is not None:
            self._predictor.learn(
                StageSummary(
                    job=stage.job.key,
                    job_name=stage.job.spec.name,
                    stage=stage.key,
                    name=stage.spec.name,
                    index=stage.index,
                    tasks=stage.spec.tasks,
                    completed=True,
                    ended_ms=now_ms,
                    durations=stage.durations.summary(),
                )
            )

    def launched(self, a: Attempt, now_ms: int, executor: str) -> None:
        """The caller has raised ``version``: it does so for every attempt and calls only for a listener."""
        if self.of_attempts is not None:
            stage = a.stage
            evictions = stage.reruns.evictions.get(a.index, 0)
            self.of_attempts(
                TaskLaunched(now_ms, stage.job.key, stage.key, a.task, a.index, executor, a.copy, evictions)
            )

    def ended(
        self, a: Attempt, outcome: str, now_ms: int, executor: str, beneficiary: str | None = None
    ) -> None:
        """As `launched`."""
        if self.of_attempts is not None:
            stage = a.stage
            self.of_attempts(
                TaskEnded(
                    time_ms=now_ms,
                    job=stage.job.key,
                    stage=stage.key,
                    task=a.task,
                    index=a.index,
                    executor=executor,
                    duration_ms=now_ms - a.start_ms,
                    outcome=_OUTCOMES[outcome],
                    copy=a.copy,
                    evicted_for=beneficiary,
                )
            )
