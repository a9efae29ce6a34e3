"""GS, SLearn's generic scheduler: jobs in queues by their total work, sized by any predictor (§5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.policies.base import Capabilities, ChangesWith, KeptEntries, PolicySettings, dated_plan
from spark_sched.policies.options import Options
from spark_sched.policies.sizes import SizedForecast
from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.policies.slearn.doubts import Doubts, Recurs
from spark_sched.policies.slearn.job_memory import GsMemory, JobMemory
from spark_sched.policies.slearn.queues import FIRST_QUEUE, AdaptedQueues, Queues
from spark_sched.policies.slearn.sizing import Sizing, others_ms
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.pilots import StageTimes, TaskForecast
from spark_sched.protocol.plan import JobPlan, PilotSet, Plan
from spark_sched.state import JobView, Snapshot, StageView

#: Pilots run at the second-highest priority (§5.1.2, "Fast sampling").
SAMPLING_QUEUE = 1
#: Narrower jobs go to the top queue unsampled.
THIN_LIMIT = 3
#: Number of times that pilots are chosen for one stage before its job is sized without pilots.
_ROUNDS = 3
#: Largest number of stages per job that are remembered as counted in its size, because a stream never ends.
_COUNTED_KEPT = 1_000
_NO_TIMES = StageTimes({}, frozenset())


class GenericScheduler:
    """Jobs in queues by estimated total work, slots by weighted shares between queues, FIFO within.

    A job is sized once. A thin job joins the top queue without a size. For any other job the sizing sets how
    many random tasks of its first wide stage run first as pilots; the job's size follows when they have
    ended. Pilots that failed, were copied, evicted or lost do not count. If none is left, or the stage ended
    before any pilot did, new pilots are chosen; after three rounds the job is sized by other knowledge. For
    jobs of several stages, history's later stages are scaled by history's error on the first (§6).

    No job starves: a slot goes to the queue with the fewest running tasks over its weight, and of equals to
    the one that was due first (``schedcore.plan.QueueTurns``). So a queue gets about its share of the time, a
    hundredth at least, even where more queues have work than there are slots, and within it no job waits for
    a later one. A barrier stage still needs all its slots at once.

    Args:
        sizing: pilots, history or both.
        thin_limit: jobs with fewer tasks are thin; 0: none is.
        fixed_percent: a sampling ratio that never changes, instead.
        thin_by_history: thin jobs with a history are sized by it instead (§7).
        doubts: occasionally use pilots to check whether history holds (§7).

    Raises BadInputError for a negative limit, or a ratio that is not above 0 and at most 100.
    """

    capabilities = Capabilities(
        changes_with=ChangesWith.GATES,
        task_times=True,
        start_times=True,
        pilots=True,
        new_jobs_wait=True,
        marks=frozenset(),
    )
    options = Options((FIRST_QUEUE,))

    def __init__(
        self,
        settings: PolicySettings,
        sizing: Sizing,
        *,
        name: str,
        thin_limit: int = 0,
        fixed_percent: float | None = None,
        thin_by_history: bool = False,
        doubts: bool = False,
    ) -> None:
        if thin_limit < 0 or not (fixed_percent is None or 0.0 < fixed_percent <= 100.0):
            raise BadInputError(
                f"thin_limit is {thin_limit}, fixed_percent is {fixed_percent}: give a limit of 0 tasks or "
                "more and a ratio above 0 and up to 100 percent"
            )
        self.name = name
        self._settings = settings
        self._kept = KeptEntries()
        self._sizing = sizing
        self._thin_limit = thin_limit
        self._adapted = AdaptedQueues.of(settings.options)
        self._fixed_percent = fixed_percent
        self._thin_by_history = thin_by_history
        self._doubts = Doubts() if doubts else None

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: GsMemory | None,
    ) -> tuple[Plan, GsMemory]:
        before = memory
        if before is None:
            before = GsMemory(doubts=self._doubts, adapted=self._adapted)
        adapted = before.adapted or self._adapted
        sizes_ms: list[float] = []
        # 1. Jobs that ended since the last plan: score their sampling ratio.
        ratio = before.ratio
        for key, old in before.jobs.items():
            if key in snapshot.jobs:
                continue
            ended = snapshot.ended.get(key)
            if ended is None or not ended.attained_ms:
                continue  # it ran no task, or its run is unknown
            if old.work_ms is None:
                sizes_ms.append(ended.attained_ms)  # it was thin, or ended before its pilots
            normalised_jct = (ended.ended_ms - old.started_ms) / ended.attained_ms
            if old.percent is not None:
                ratio = ratio.ended(old.percent, normalised_jct)
        # 2. Every job's pilots and size.
        jobs: dict[str, JobMemory] = {}
        percent, doubts = ratio.percent(), before.doubts
        for key, job in snapshot.jobs.items():
            known = before.jobs.get(key) or JobMemory(job.started_ms)
            forecast = forecasts.get(key, UNKNOWN)
            if self._thin_limit and known.pilots is not None and _pilots_run(known.pilots, job, forecast):
                jobs[key] = known
                continue
            if doubts is not None and not known.sized and isinstance(forecast, TaskForecast):
                recurs = (job.marks.user, job.marks.name)
                if key not in before.jobs:
                    doubts = doubts.came(recurs)
                forecast = forecast.doubted(doubts.of(recurs))
                jobs[key] = self._sized(known, job, forecast, percent, rng, adapted.queues)
                doubts = _checked(doubts, recurs, forecast, known.pilots, jobs[key].pilots_ms)
            else:
                jobs[key] = self._sized(known, job, forecast, percent, rng, adapted.queues)
            if known.work_ms is None and (work_ms := jobs[key].work_ms) is not None:
                sizes_ms.append(work_ms)
            if known.percent is None and jobs[key].percent is not None:
                ratio = ratio.next_job()
                percent = ratio.percent()
        # 3. Queues, and within them by arrival.
        adapted = adapted.after(sizes_ms)
        return self._plan(snapshot, jobs, now_ms, adapted), GsMemory(jobs, ratio, doubts, adapted)

    def lasting(self, memory: GsMemory) -> Mapping[str, Any]:
        """The record of the sampling ratio, and the doubts about history."""
        doubts = None if memory.doubts is None else memory.doubts.to_json()
        return {"ratio": memory.ratio.to_json(), "doubts": doubts}

    def restored(self, lasting: Mapping[str, Any]) -> GsMemory:
        doubts = self._doubts
        if doubts is not None and lasting["doubts"] is not None:
            doubts = doubts.restored(lasting["doubts"])
        return GsMemory(ratio=AdaptiveRatio().restored(lasting["ratio"]), doubts=doubts)

    # ---- one job ----

    def _sized(
        self,
        known: JobMemory,
        job: JobView,
        forecast: Forecast,
        percent: int,
        rng: np.random.Generator,
        queues: Queues,
    ) -> JobMemory:
        """The job's memory with the times of its pilots, or with newly chosen pilots."""
        if known.sized:
            return self._with_new_stages(known, job)
        others = forecast.others if isinstance(forecast, TaskForecast) else forecast
        if isinstance(others, SizedForecast) and others.work_slot_ms is not None and not self._thin_limit:
            return replace(known, work_ms=others.work_slot_ms, reason="its true size")
        expected = forecast.expected if isinstance(forecast, TaskForecast) else ()
        if known.pilots is not None:
            return self._after_pilots(known, job, forecast, expected, rng)
        if not job.stages:
            return known
        width = max([stage.tasks for stage in job.stages] + [each.tasks for each in expected])
        if width < self._thin_limit:
            first = job.stages[0]
            prior = expected[first.index] if first.index < len(expected) else None
            if self._thin_by_history and self._sizing.task_ms((), prior) is not None:
                return self._size(known, job, first.index, (), expected)
            return replace(known, thin=True, reason=f"{width} tasks: too few for pilots")
        stage = next((p for p in job.stages if p.tasks >= self._thin_limit), None)
        if stage is None:
            # Its wide stages come later: until then it counts as thin.
            return replace(known, thin=True, reason="no stage wide enough for pilots so far")
        prior = expected[stage.index] if stage.index < len(expected) else None
        percent = percent if known.percent is None else known.percent
        at = percent if self._fixed_percent is None else self._fixed_percent
        wanted = 0
        if not stage.barrier:
            wanted = self._sizing.pilots(stage.tasks, prior, at, stage.slots_per_task, queues)
        if wanted == 0:
            return self._size(known, job, stage.index, (), expected)
        times = _times(forecast, stage.index)
        among = [i for i in range(stage.tasks) if i not in times.spoiled]
        if not among:
            return self._size(known, job, stage.index, [], expected)
        chosen = self._choose(known, stage, among, min(wanted, len(among)), rng)
        return replace(chosen, thin=False, percent=percent)

    def _choose(
        self,
        known: JobMemory,
        stage: StageView,
        among: Sequence[int],
        count: int,
        rng: np.random.Generator,
    ) -> JobMemory:
        tasks = rng.choice(np.asarray(among), size=count, replace=False)
        return replace(
            known,
            pilots=PilotSet(stage.index, tuple(sorted(int(task) for task in tasks))),
            sampled=(stage.index, max(_slots(stage), _sampled_slots(known, stage.index))),
            rounds=known.rounds + 1,
            reason=f"{count} of {stage.tasks} tasks first, to learn its size",
        )

    def _after_pilots(
        self,
        known: JobMemory,
        job: JobView,
        forecast: Forecast,
        expected: tuple[StageExpectation, ...],
        rng: np.random.Generator,
    ) -> JobMemory:
        """The job, with its size if its pilots have ended, or with new pilots if all were lost."""
        pilots = known.pilots
        assert pilots is not None
        if _pilots_run(pilots, job, forecast):
            return known
        stage = next((p for p in job.stages if p.index == pilots.stage), None)
        times = _times(forecast, pilots.stage)
        ended_ms = [float(times.ended_ms[i]) for i in pilots.tasks if i in times.ended_ms]
        if stage is None and not ended_ms and known.rounds < _ROUNDS:
            # The stage failed or was skipped: the next wide stage gets pilots, as if the job had just
            # arrived.
            return replace(known, pilots=None, reason="its stage ended before any of its pilots did")
        if ended_ms or stage is None:
            return self._size(known, job, pilots.stage, ended_ms, expected)
        runs = {task.index for task in stage.running}
        left = [
            i for i in range(stage.tasks)
            if i not in times.spoiled and i not in times.ended_ms and i not in runs
        ]  # fmt: skip
        if known.rounds < _ROUNDS and left:
            return self._choose(known, stage, left, min(len(pilots.tasks), len(left)), rng)
        return self._size(known, job, pilots.stage, [float(ms) for ms in times.ended_ms.values()], expected)

    def _size(
        self,
        known: JobMemory,
        job: JobView,
        index: int,
        pilots_ms: Sequence[float],
        expected: tuple[StageExpectation, ...],
    ) -> JobMemory:
        """The job with its size, if known, from the stage of that index."""
        prior = expected[index] if index < len(expected) else None
        task_ms = self._sizing.task_ms(pilots_ms, prior)
        known = replace(known, pilots_ms=tuple(pilots_ms))
        if task_ms is None:
            return replace(known, pilots=None, unsizeable=True, reason="its size is unknown")
        stage = next((p for p in job.stages if p.index == index), None)
        slots = prior.tasks if prior is not None else 0
        if stage is not None:
            slots = _slots(stage)
        slots = max(slots, _sampled_slots(known, index))
        others = others_ms(self._sizing, expected, index, task_ms, sampled=bool(pilots_ms))
        by = f"{len(pilots_ms)} pilot{'s' * (len(pilots_ms) > 1)}" if pilots_ms else "history"
        reach_ms = self._sizing.reach_ms(pilots_ms, prior)
        sure = "" if reach_ms is None else ", 90 % sure of {:.0f} to {:.0f} ms".format(*reach_ms)
        return self._with_new_stages(
            replace(
                known,
                pilots=None,
                task_ms=task_ms,
                work_ms=task_ms * slots + others,
                counted=frozenset({index, *range(len(expected))}),
                reason=f"tasks of {task_ms:.0f} ms by {by}{sure}",
            ),
            job,
        )

    def _with_new_stages(self, known: JobMemory, job: JobView) -> JobMemory:
        """The job with its unexpected stages, whose tasks are assumed to take as long as the others'."""
        if known.task_ms is None:
            return known
        new = [stage for stage in job.stages if stage.index not in known.counted]
        if not new:
            return known
        assert known.work_ms is not None
        counted = known.counted | {stage.index for stage in new}
        if len(counted) > 2 * _COUNTED_KEPT:
            counted = frozenset(sorted(counted)[-_COUNTED_KEPT:])
        return replace(
            known,
            work_ms=known.work_ms + known.task_ms * sum(map(_slots, new)),
            counted=counted,
        )

    # ---- the plan ----

    def _plan(
        self, snapshot: Snapshot, jobs: Mapping[str, JobMemory], now_ms: int, adapted: AdaptedQueues
    ) -> Plan:
        queues = {key: _queue(job, adapted.queues) for key, job in jobs.items()}
        # Equal texts are one object, by which entries that stay the same are found.
        first_queue = intern(adapted.reason)

        def make(job: JobView, rank: int) -> JobPlan:
            known, queue = jobs[job.job], queues[job.job]
            size = "" if known.work_ms is None else f"{known.work_ms / 1000.0:.1f} slot-seconds: "
            why = known.reason or "none of its stages has started yet"
            return JobPlan(
                job.job,
                rank,
                0,
                None,
                f"queue {queue}: {size}{why}{first_queue}",
                pilots=known.pilots,
                queue=queue,
                # Its first stage may get pilots: no task starts until this is decided.
                deferred=known.undecided,
            )

        entries = self._kept.of(
            adapted.queues.ranked(snapshot.jobs.values(), queues),
            lambda job: (jobs[job.job], queues[job.job], first_queue),
            make,
        )
        return dated_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            entries,
            new_jobs_wait=True,  # nothing starts before its pilots are chosen
            queue_weights=adapted.queues.weights,
        )


def _pilots_run(pilots: PilotSet, job: JobView, forecast: Forecast) -> bool:
    """Whether pilots wait or run whose stage is active."""
    stage = next((p for p in job.stages if p.index == pilots.stage), None)
    if stage is None:
        return False
    times = _times(forecast, pilots.stage)
    ended, spoiled = times.ended_ms, times.spoiled
    # A retry of the stage that came before a plan saw its end may have fewer tasks.
    over = sum([(i in ended) + (i in spoiled or i >= stage.tasks) for i in pilots.tasks])
    return over < len(pilots.tasks)


def _queue(job: JobMemory, queues: Queues) -> int:
    if job.work_ms is not None:
        return queues.of(job.work_ms)
    return 0 if job.thin and not job.unsizeable else min(SAMPLING_QUEUE, queues.count - 1)


def _times(forecast: Forecast, index: int) -> StageTimes:
    """What is known of the tasks of the stage of that index."""
    return forecast.times.get(index, _NO_TIMES) if isinstance(forecast, TaskForecast) else _NO_TIMES


def _slots(stage: StageView) -> int:
    """Slots that all tasks of the stage take."""
    return stage.tasks * stage.slots_per_task


def _sampled_slots(job: JobMemory, index: int) -> int:
    """The same when the stage's pilots were chosen; 0 where none were."""
    sampled, slots = job.sampled
    return slots if sampled == index else 0


def _checked(
    doubts: Doubts,
    recurs: Recurs,
    forecast: TaskForecast,
    pilots: PilotSet | None,
    pilots_ms: Sequence[float],
) -> Doubts:
    """The doubts after a job's pilots, if these ended."""
    if pilots is None or pilots.stage >= len(forecast.expected):
        return doubts
    return doubts.checked(recurs, forecast.expected[pilots.stage], pilots_ms)
