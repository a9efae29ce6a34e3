"""3σSched: a plan of start times, places and preemptions by expected utility (3Sigma §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, dated_plan
from spark_sched.policies.budget import OUT_OF_TIME
from spark_sched.policies.three_sigma.curves import GONE, conditional, curves, means, overrun_s, utilities
from spark_sched.policies.three_sigma.jobs import EquivalenceSet, PendingJob, chances, is_best_effort
from spark_sched.policies.three_sigma.malleable import narrower
from spark_sched.policies.three_sigma.present import Computed, Present, RunningJob, ThreeSigmaMemory, look
from spark_sched.policies.three_sigma.problem import NO_OPTION, Assignment, Candidate, Problem, Running, build
from spark_sched.policies.three_sigma.settings import ThreeSigmaOptions
from spark_sched.policies.three_sigma.solvers import Ask, Prices, Solution, Solver, create_guarded
from spark_sched.policies.three_sigma.split import split
from spark_sched.policies.three_sigma.verify import PlannedStart, broken_promise
from spark_sched.policies.three_sigma.warm import warm_up
from spark_sched.policies.three_sigma.window import is_fixed, usual_runtime, window_for, window_of
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import JobPlan, Plan, PlanQuality
from spark_sched.state import JobView, Snapshot

#: Time to plan one waiting job, generously: a live plan considers as many as its budget allows.
_JOB_MS = 0.2
_NOT_CONSIDERED = (
    f"not considered: {OUT_OF_TIME} it came to this job, after those with earlier deadlines or arrivals"
)


class ThreeSigmaPolicy:
    """Plans all waiting jobs again in each cycle.

    Jobs without a deadline are best-effort. A job that has started continues without a plan: its later stages
    take free slots before any planned job.

    Args:
        settings: of the application; names the solver.
        solver: instead of the one that the settings name.
        clock_s: for the runtimes in a plan's quality, and nothing else; None: they are not measured.
    """

    capabilities = Capabilities(
        changes_with=ChangesWith.STAGES,
        places=True,
        start_times=True,
        preempts=True,
        new_jobs_wait=True,
        warm_up=warm_up,
        marks=frozenset({"deadline"}),
    )

    def __init__(
        self,
        settings: PolicySettings,
        options: ThreeSigmaOptions | None = None,
        *,
        name: str = "3sigma",
        solver: Solver | None = None,
        clock_s: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.options = ThreeSigmaOptions() if options is None else options
        # Without settings and with the usual window it follows the jobs' runtimes.
        self._follows = options is None or options.grid is ThreeSigmaOptions().grid
        if is_fixed(settings.options):
            self._follows = False
            self.options = replace(self.options, grid=window_of(settings.options))
        self._settings = settings
        self._solver = create_guarded(settings.solver) if solver is None else solver
        self._clock_s = clock_s

    def planning(self, memory: ThreeSigmaMemory | None, version: int) -> ThreeSigmaOptions:
        """How the plan for a snapshot of that version is made after this memory."""
        runtime = None if memory is None else memory.as_of(version).runtime
        if runtime is None or not self._follows:
            return self.options
        return replace(self.options, grid=window_for(runtime))

    def starts_ms(self, memory: ThreeSigmaMemory | None, version: int) -> Ints:
        return self.planning(memory, version).grid.starts_ms

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: ThreeSigmaMemory | None,
    ) -> tuple[Plan, ThreeSigmaMemory]:
        past = (memory or ThreeSigmaMemory()).as_of(snapshot.version)
        runtime = past.runtime or usual_runtime()
        following = runtime.after(past.runtimes_ms(snapshot, forecasts)) if self._follows else None
        planner = copy(self)
        planner.options = self.planning(past, snapshot.version)
        plan, prices, since_ms, present = planner._cycle(snapshot, forecasts, now_ms, rng, past)
        return plan, past.next(snapshot.version, prices, since_ms, present, following)

    def _cycle(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        past: ThreeSigmaMemory,
    ) -> tuple[Plan, Prices | None, Mapping[str, int], Present]:
        watch = _StopWatch(self._clock_s)
        # 1. Running and waiting jobs.
        present = look(snapshot, forecasts, self.options, past)
        capacity, running, waiting = present.capacity, present.runs, self._considered(present.waits)
        held = self._held(running, waiting, now_ms)
        watch.lap("jobs")
        # 2. Options: eq. 1 for each place and start; only starts that are worth something.
        starts_s = (now_ms + self.options.grid.starts_ms) / 1000.0
        busy = np.array([job.slots for job in running]).sum(axis=0) if running else np.zeros(len(capacity))
        places = [(number, place) for number, job in enumerate(waiting) for place in job.places]
        whole = len(places)
        free = int((capacity - busy).sum())
        used = [job.used for job in running]
        places += narrower(waiting, free, used, held, self.options.grid, now_ms)
        which = np.fromiter((number for number, _ in places), np.int64, len(places))
        factors = np.fromiter((place.factor for _, place in places), float, len(places))
        worth = utilities(
            curves([job.runtime for job in waiting]),
            which,
            factors,
            [waiting[number].utility for number, _ in places],
            starts_s,
        )
        worth[whole:, 1:] = 0.0  # later there may be slots for all of it
        candidates = [
            Candidate(number, place.mask, place.slots, row, place.consumption)
            for (number, place), row in zip(places, worth, strict=True)
        ]
        watch.lap("options")
        # 3. The model: eq. 2 for running jobs, eq. 3 for candidates.
        problem = build(self.options.grid, capacity, len(waiting), candidates, held)
        watch.lap("model")
        # 4. Solve.
        start = None if past.prices is None else past.prices.moved_to(problem, now_ms)
        ask = Ask(rng, self.options.gap, self.options.limit_s, start, clock_s=self._clock_s)
        solution = self._solver.solve(problem, ask)
        watch.lap("solve")
        # 5. Slots for what starts now; then check all of it against the jobs themselves.
        planned, gone, broken = self._place(problem, solution, waiting, places, running, held, capacity, busy)
        status = "refused" if broken else solution.status
        quality = PlanQuality(
            solver=solution.solver,
            status=status,
            value=0.0 if broken else solution.value,
            bound=float(solution.bound) if np.isfinite(solution.bound) else None,
            pending=len(waiting),
            options=problem.options,
        )
        without = frozenset() if len(waiting) == len(present.waits) else _keys(present.waits) - _keys(waiting)
        plan = self._plan(snapshot, now_ms, present, planned, gone, quality, broken, without)
        watch.lap("plan")
        prices = None
        if solution.price is not None:
            prices = Prices(now_ms + problem.grid.starts_ms, problem.unions, solution.price)
        since = {job.view.job: job.since_ms for job in running if job.view.job not in gone}
        if watch.laps_ms:
            plan = replace(plan, quality=replace(quality, steps_ms=watch.laps_ms))
        return plan, prices, {**since, **present.idle}, present

    # ---- 1. jobs ----

    def _considered(self, waiting: list[PendingJob]) -> list[PendingJob]:
        """The jobs that one plan has time for: the earliest deadlines first, then the others by arrival."""
        limit_ms = self._settings.budget.limit_ms
        if len(waiting) * _JOB_MS <= limit_ms:
            return waiting

        def urgency(job: PendingJob) -> tuple[float, int]:
            due_ms = job.view.marks.deadline_ms
            return float("inf") if due_ms is None else due_ms, job.view.arrival

        first = _keys(sorted(waiting, key=urgency)[: max(1, int(limit_ms / _JOB_MS))])
        return [job for job in waiting if job.view.job in first]

    def _held(self, running: list[RunningJob], waiting: list[PendingJob], now_ms: int) -> list[Running]:
        """The expected use of running jobs, and the cost of their preemption.

        A preempted job loses its remaining utility and its work so far. That work used slots
        that other best-effort jobs could have used, and is valued at what such jobs gain in these slots.
        """
        known = curves([job.runtime for job in running])
        factors = np.array([job.factor for job in running], dtype=float)
        elapsed_s = np.array([max(0, now_ms - job.since_ms) for job in running], dtype=float) / 1000.0
        ahead_s = self.options.grid.starts_ms / 1000.0
        cycle_s = self.options.cycle_ms / 1000.0
        stays, left_s, alive = conditional(known, factors, elapsed_s, ahead_s)
        for r in np.flatnonzero(alive <= GONE).tolist():
            # It has outlived its distribution (§4.2.1).
            over_s = max(0.0, float(elapsed_s[r] - running[r].runtime.t_s[-1] * factors[r]))
            left_s[r] = overrun_s(over_s, cycle_s)
            stays[r] = ahead_s < left_s[r]
        slots = np.array([job.used for job in running], dtype=float)
        work = [
            k * mean_s
            for job, k, mean_s in zip(running, slots.tolist(), (means(known) * factors).tolist(), strict=True)
            if job.view.marks.deadline_ms is None
        ]
        work += [job.slots * job.runtime.mean_s for job in waiting if job.view.marks.deadline_ms is None]
        typical = max(1.0, sum(work) / len(work)) if work else 1.0
        lost = (self.options.worth.best_effort / typical * slots * elapsed_s).tolist()
        ends_s = (now_ms / 1000.0 + left_s).tolist()
        in_time = chances(known, [job.view for job in running])
        held = []
        for r, job in enumerate(running):
            cost = None
            if self.options.preempt and job.view.evictable and is_best_effort(job.view, now_ms):
                # The same utility as when it waited: with less, two late jobs would preempt each other
                # forever.
                worth = self.options.worth.of(job.view, in_time[r], float(job.runtime.t_s[-1]))
                cost = worth.at(ends_s[r]) + lost[r]
            held.append(Running(job.slots, stays[r], cost))
        return held

    # ---- 5. places and verification ----

    def _place(
        self,
        problem: Problem,
        solution: Solution,
        waiting: list[PendingJob],
        places: list[tuple[int, EquivalenceSet]],
        running: list[RunningJob],
        held: list[Running],
        capacity: Floats,
        busy: Floats,
    ) -> tuple[dict[str, PlannedStart], set[str], str | None]:
        """When and where each job starts; the preempted jobs; and the reason if the whole plan is refused."""
        assignment: Assignment = solution.assignment
        preempted = problem.preemptible[assignment.preempted].tolist()
        gone = {running[r].view.job for r in preempted}
        free_now = capacity - busy + sum((running[r].slots for r in preempted), np.zeros(len(capacity)))
        chosen = [
            (number, int(group), int(start))
            for number, (group, start) in enumerate(
                zip(assignment.group.tolist(), assignment.start.tolist(), strict=True)
            )
            if group != NO_OPTION
        ]
        now = [each for each in chosen if each[2] == 0]
        now.sort(key=lambda each: (-problem.utility[each[1], 0], each[0]))
        place_of = [places[candidate][1] for candidate in problem.candidate_of.tolist()]
        demands = [(place_of[g].mask, place_of[g].slots) for _, g, _ in now]
        shares, refused = split(demands, [max(0, int(slots)) for slots in free_now.tolist()])
        share_of = {now[i][0]: share for i, share in enumerate(shares)}
        without = {now[i][0] for i in refused}
        planned = {}
        for number, group, start in chosen:
            if number in without:
                continue
            job = waiting[number]
            planned[job.view.job] = PlannedStart(job, place_of[group], start, share_of.get(number, {}))
        use = sum(
            (
                job.slots[:, None] * job.remaining
                for number, job in enumerate(held)
                if number not in preempted
            ),
            np.zeros((len(capacity), problem.grid.steps)),
        )
        expected_free = np.maximum(capacity[:, None] - use, 0.0)
        broken = broken_promise(list(planned.values()), problem.grid, free_now, expected_free)
        return (planned, gone, None) if broken is None else ({}, set(), broken)

    # ---- the plan ----

    def _why_not(self, known: Computed[PendingJob | None] | None, broken: str | None) -> str:
        if broken is not None:
            return f"the plan was refused: {broken}"
        if known is None or known.result is None:
            return "no task of it waits for slots that exist now"
        starts_ms, how = self.options.grid.starts_ms, ", by runtimes so far" if self._follows else ""
        window = (
            f"the next {starts_ms[-1] / 60_000:.3g} min, in steps from {starts_ms[1] / 1000:.3g} s on{how}"
        )
        return f"no start in the window ({window}) is worth the slots that it takes from other jobs"

    def _plan(
        self,
        snapshot: Snapshot,
        now_ms: int,
        present: Present,
        planned: Mapping[str, PlannedStart],
        gone: set[str],
        quality: PlanQuality,
        broken: str | None,
        without: frozenset[str],
    ) -> Plan:
        starts_ms = self.options.grid.starts_ms
        begun = present.running.keys() - gone
        # Where in the order, and the job's entry but for its rank there.
        entries: list[tuple[tuple[int, int, int], dict[str, Any]]] = []
        for key, view in snapshot.jobs.items():
            if key in begun or key in present.idle:
                entry = {"job": key, "reason": "runs" if key in begun else "between two stages"}
                entries.append(((0, 0, view.arrival), entry))
            elif key in gone:
                reason = "preempted: other jobs gain more than it loses"
                entries.append(((4, 0, view.arrival), _deferred(key, reason, evict=True)))
            elif key in planned:
                entries.append(_planned_entry(key, view, planned[key], now_ms, starts_ms))
            else:
                reason = (
                    _NOT_CONSIDERED if key in without else self._why_not(present.pending.get(key), broken)
                )
                entries.append(((3, 0, view.arrival), _deferred(key, reason)))
        entries.sort(key=lambda pair: pair[0])
        later = [int(starts_ms[each.start]) for each in planned.values() if each.start > 0]
        # Jobs without any utility left wait in vain.
        again_ms = now_ms + min([*later, self.options.again_ms]) if quality.options else None
        if any(each.start == 0 and each.place.slots < each.job.tasks for each in planned.values()):
            again_ms = now_ms + 1  # once it runs it may take more than its share
        return dated_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            [
                JobPlan(rank=rank, priority=0, reservation=None, **entry)
                for rank, (_, entry) in enumerate(entries)
            ],
            new_jobs_wait=True,
            again_ms=again_ms,
            quality=quality,
        )


def _keys(jobs: Iterable[PendingJob]) -> frozenset[str]:
    return frozenset(job.view.job for job in jobs)


def _planned_entry(
    key: str, view: JobView, each: PlannedStart, now_ms: int, starts_ms: Ints
) -> tuple[tuple[int, int, int], dict[str, Any]]:
    wait_ms = int(starts_ms[each.start])
    if each.start == 0:
        fewer = f" of the {each.job.slots} that it can use" if each.place.slots < each.job.slots else ""
        reason = f"starts now on {each.place.slots} slots{fewer}"
        share = dict(sorted(each.share.items()))
        return (1, 0, view.arrival), {"job": key, "reason": reason, "start_ms": now_ms, "share": share}
    reason = f"starts in {wait_ms / 1000.0:g} s on {each.job.slots} slots"
    entry = {"job": key, "reason": reason, "start_ms": now_ms + wait_ms, "deferred": True}
    return (2, wait_ms, view.arrival), entry


def _deferred(key: str, reason: str, *, evict: bool = False) -> dict[str, Any]:
    return {"job": key, "reason": reason, "deferred": True, "evict": evict}


class _StopWatch:
    """Laps of a clock, if there is one."""

    def __init__(self, clock_s: Callable[[], float] | None) -> None:
        self._clock_s = clock_s
        self._at_s = clock_s() if clock_s else 0.0
        self.laps_ms: dict[str, float] = {}

    def lap(self, name: str) -> None:
        if self._clock_s is not None:
            now_s = self._clock_s()
            self.laps_ms[name] = (now_s - self._at_s) * 1000.0
            self._at_s = now_s
