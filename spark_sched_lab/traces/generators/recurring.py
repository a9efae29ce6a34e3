"""Recurring programs whose runs and whose tasks vary as measured: SLearn's three traces (§4.2, §4.3, §6).

Table 4 gives how much mean task times vary over the runs of a program (over time) and how far a sample of 3 %
of a job's tasks is off (over space); table 5 gives how the load varies; table 8 the widths of 2Sigma's jobs.
These values are built in. Values that the paper does not give are chosen here, with a reason beside each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError, check_one_of
from spark_sched_lab.traces.generators.arrivals import check_fraction, check_positive, hyperexponential
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, chunked
from spark_sched_lab.traces.tables import Trace, TraceMeta

#: z of a 90 % quantile.
_P90 = NormalDist().inv_cdf(0.9)
#: The sampling ratio for which table 4 states the variation over space.
_SAMPLED = 0.03
#: Upper bound on the CoV of a program's runs, as a fraction of the greatest CoV of that number of values.
_MOST_COV = 0.6
#: Upper bound on the standard deviation of logarithms: beyond it one value dominates the sum.
_STEEPEST = 6.0
#: Mean number of runs between two changes.
_STRETCH_RUNS = 10.0
#: Jobs of a storm arrive within this number of seconds of each other.
_STORM_S = 200.0
_CPUS = ("0.5", "1", "2", "4")


@dataclass(frozen=True, slots=True)
class Profile:
    """One of the paper's traces.

    Attributes:
        time_cov: CoV of mean task times over all runs of a program: P50 and P90 over programs.
        space_cov: CoV of the mean of 3 % of a job's tasks, P50 and P90.
        widths: (tasks, share of programs); the rest is log-uniform over ``wide``.
        wide: least and greatest width of the rest.
        load: mean load (table 5).
        task_s: median over programs of the mean task time at width 1.
        task_sigma: standard deviation of its logarithm over programs.
        width_power: work grows as width to this power: 1 where task times do not depend on it.
        c2: squared CoV of the gaps between arrivals.
        storm_share, storms: share of jobs that arrive in a number of storms.
        season: share of the time in which the storms occur, one after the other.
        updated: share of programs that change permanently between history and the jobs.
        others: ``time_cov`` and ``space_cov`` of every other program; None: the same.
    """

    time_cov: tuple[float, float]
    space_cov: tuple[float, float]
    widths: tuple[tuple[int, float], ...]
    wide: tuple[int, int]
    load: float
    task_s: float
    task_sigma: float
    width_power: float = 1.0
    c2: float = 4.0
    storm_share: float = 0.0
    storms: int = 0
    season: float = 1.0
    updated: float = 0.0
    others: tuple[tuple[float, float], tuple[float, float]] | None = None


#: CoVs are such that table 4's measure of the trace comes near table 4 (1.00 / 3.10 and 0.18 / 0.55,
#: 0.20 / 0.73 and 0.04 / 0.58, 1.35 / 1.67 and 0.70 / 1.33): that is the least CoV over six features of the
#: runs so far, and less than what the programs have. Found by fixed-point iteration on seeds 11 to 15.
#: ``updated`` and ``update_sigma``: with table 4 alone 3Sigma puts 84 % of Google 2011's wide jobs into the
#: right queue and errs by 135 % at P90, in the paper 76 and 295 % (table 7, figure 2). The fifth of §2.4,
#: with changes by a factor of 2.75 in logarithms, makes it 76 and 285 % (seeds 11 to 40; with 2.0 it is 77
#: and 232 %, with 2.5 76 and 270 %, with 3.0 75 and 321 %).
#: On the other traces our 3Sigma is wrong as often as the paper's without.
#: ``task_s``, ``task_sigma``, ``c2`` and the storms are such that the load in windows of 1000 s comes near
#: table 5's P50 and P90 and, for 2Sigma, the shares of jobs near table 8's, the waits under 3Sigma near
#: figure 6's and FIFO's mean JCT near as many times an oracle's as in figure 5 (3.29 / 0.79). Widths of
#: 2Sigma's jobs are those of table 8 and §5.2.8; those of the Google traces, of which the text says only that
#: thin jobs matter little, are ours.
PROFILES: Mapping[str, Profile] = {
    "2sigma": Profile(
        (1.20, 9.00), (0.184, 0.535), ((1, 0.0942), (2, 0.0942), (4, 0.3966)), (5, 150), 1.05,
        task_s=2000.0, task_sigma=2.2, width_power=0.5, storm_share=0.5, storms=25, season=0.2,
    ),
    "google2011": Profile(
        (0.216, 1.10), (0.041, 0.52), ((1, 0.3), (2, 0.1)), (3, 150), 1.01,
        task_s=500.0, task_sigma=0.8, storm_share=0.6, storms=6, updated=0.2,
    ),
    "google2019": Profile(
        (1.59, 1.77), (0.707, 1.30), ((1, 0.3), (2, 0.1)), (3, 150), 1.04,
        task_s=500.0, task_sigma=1.2, storm_share=0.7, storms=6,
    ),
    # Programs whose history is accurate and whose pilots are not, and the other way round.
    "mix": Profile(
        (0.216, 1.10), (0.707, 1.30), ((1, 0.3), (2, 0.1)), (3, 150), 1.0,
        task_s=500.0, task_sigma=1.0, storm_share=0.6, storms=6, others=((1.59, 1.77), (0.041, 0.52)),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Program:
    user: str
    name: str
    application: str
    cpus: str
    width: int
    task_s: float
    cov: float
    space_cov: tuple[float, float]
    space_z: float
    updated: float


def recurring(
    rng: np.random.Generator,
    *,
    like: str = "google2011",
    jobs: int = 1250,
    history: int = 2500,
    slots: int = 150,
    programs: int = 60,
    dag: bool = False,
    updated: float | None = None,
    update_sigma: float = 2.75,
    stretches: float = 0.5,
) -> Trace:
    """Jobs of recurring programs: ``history`` of them, then ``jobs`` more that offer the profile's load to
    ``slots`` slots.

    A program has a user, a name, an application, a width and a typical task time. The mean task times of its
    runs have the CoV that the program drew; so have the task times of a job. ``stretches`` is the share of
    the variance between runs (in logarithms) that stays for ten runs on average: code and data change and
    stay changed for a while (§2.4); the rest is new with every run. The paper does not give it.

    With ``dag`` a job is a chain of 2 to 5 stages, each of them what a job of its own would be, all of one
    program (§6).

    ``updated`` is the share of programs that change permanently between history and the jobs (default: the
    profile's) (§2.4: in one cluster a fifth of all jobs ran code that changed by a tenth or more within a
    month); their task times change by a factor whose logarithm has standard deviation ``update_sigma``.
    Table 4, measured over days, does not show such changes.

    Raises:
        BadInputError: a parameter out of its range.
    """
    profile = _profile(like, jobs, history, slots, programs)
    updated = profile.updated if updated is None else updated
    check_fraction("updated", updated)
    check_fraction("stretches", stretches)
    table = _programs(rng, profile, programs, updated, update_sigma)
    popularity = rng.lognormal(0.0, 0.8, programs)
    which = rng.choice(programs, size=history + jobs, p=popularity / popularity.sum())
    chain = rng.integers(2, 6, size=history + jobs) if dag else np.ones(history + jobs, dtype=np.int64)
    factors = _run_factors(rng, table, np.repeat(which, chain), stretches)
    records, work_s = [], np.empty(history + jobs)
    at = 0
    for number, kind in enumerate(which.tolist()):
        last = at + int(chain[number])
        run = factors[at:last]
        record, work_s[number] = _record(rng, f"{like}-{number}", table[kind], run, number >= history)
        records.append(record)
        at = last
    begin_s = _submit(rng, profile, records[:history], work_s[:history], slots, 0.0)
    _submit(rng, profile, records[history:], work_s[history:], slots, begin_s)
    meta = TraceMeta(
        f"recurring-{like}",
        "SLearn §4.2, §4.3" + (", §6" if dag else ""),
        notes=("generated",),
        parameters={
            "like": like,
            "jobs": jobs,
            "history": history,
            "slots": slots,
            "programs": programs,
            "dag": dag,
            "updated": updated,
            "update_sigma": update_sigma,
            "stretches": stretches,
        },
    )
    return Trace.from_chunks(chunked(records), meta)


def _profile(like: str, jobs: int, history: int, slots: int, programs: int) -> Profile:
    check_one_of("like", like, PROFILES)
    if jobs < 1 or history < 0 or programs < 1 or slots < 1:
        raise BadInputError(
            f"jobs is {jobs}, history is {history}, programs is {programs}, slots is {slots}: give at least "
            "1 job, program and slot"
        )
    return PROFILES[like]


def _record(
    rng: np.random.Generator, job: str, program: _Program, factors: Floats, is_later: bool
) -> tuple[JobRecord, float]:
    """One run of a program and its work in seconds; ``factors``, shape (stages,), are of its task time."""
    stages = []
    total_s = 0.0
    for index, factor in enumerate(factors.tolist()):
        mean_s = program.task_s * factor * (program.updated if is_later else 1.0)
        durations = _task_times(rng, program, mean_s)
        total_s += float(durations.sum())
        stage = StageRecord(
            tasks=program.width,
            parents=(index - 1,) if index else (),
            name=f"{program.name}-{index}",
            cpus=float(program.cpus),
        )
        for task, seconds in enumerate(durations.tolist()):
            stage.rows.add(task, seconds)
        stages.append(stage)
    record = JobRecord(
        job,
        "finished",
        "malleable",
        stages,
        name=program.name,
        user=program.user,
        runtime_s=total_s / program.width,
        slots=program.width,
        features={"app_name": program.application, "half": "2" if is_later else "1"},
    )
    return record, total_s


def _submit(
    rng: np.random.Generator,
    profile: Profile,
    records: Sequence[JobRecord],
    work_s: Floats,
    slots: int,
    begin_s: float,
) -> float:
    """Set submission times that offer the profile's load; returns the end of the last in s."""
    if not records:
        return begin_s
    horizon_s = float(work_s.sum()) / slots / profile.load
    for record, submit_s in zip(records, _arrivals(rng, profile, len(records), horizon_s), strict=True):
        record.submit_s = begin_s + float(submit_s)
    return begin_s + horizon_s


def _scores(rng: np.random.Generator, count: int) -> Floats:
    """``count`` standard normal quantiles in random order: a sample without sampling error."""
    levels = (np.arange(count) + 0.5) / count
    return rng.permutation(np.array([NormalDist().inv_cdf(level) for level in levels.tolist()]))


def _programs(
    rng: np.random.Generator, profile: Profile, count: int, updated: float, update_sigma: float
) -> list[_Program]:
    shares = (np.arange(count) + 0.5) / count
    widths = []
    for share in rng.permutation(shares).tolist():
        low, high = profile.wide
        chosen = int(low * ((high + 1) / low) ** float(rng.random()))
        for width, part in profile.widths:
            share -= part
            if share < 0.0:
                chosen = width
                break
        widths.append(chosen)
    scores = _scores(rng, count) / _P90
    kinds = [(profile.time_cov, profile.space_cov), profile.others or (profile.time_cov, profile.space_cov)]
    cov = [kinds[n % 2][0][0] * (kinds[n % 2][0][1] / kinds[n % 2][0][0]) ** scores[n] for n in range(count)]
    typical = profile.task_s * np.exp(profile.task_sigma * _scores(rng, count))
    users = rng.integers(max(1, count // 4), size=count)
    space = _scores(rng, count)
    changes = np.where(rng.random(count) < updated, np.exp(update_sigma * rng.standard_normal(count)), 1.0)
    return [
        _Program(
            user=f"u{users[n]}",
            name=f"p{n}",
            application=f"a{n // 2}",
            cpus=_CPUS[int(rng.integers(len(_CPUS)))],
            width=widths[n],
            task_s=float(typical[n]) * widths[n] ** (profile.width_power - 1.0),
            cov=float(cov[n]),
            space_cov=kinds[n % 2][1],
            space_z=float(space[n]),
            updated=float(changes[n]),
        )
        for n in range(count)
    ]


def _run_factors(
    rng: np.random.Generator, table: list[_Program], which: np.ndarray, stretches: float
) -> Floats:
    """Factors of mean task times, in the order of runs: 1 on average, with the program's CoV."""
    factors = np.ones(which.size)
    for kind, program in enumerate(table):
        mine = np.flatnonzero(which == kind)
        if mine.size < 2:
            continue
        changes = rng.random(mine.size) < 1.0 / _STRETCH_RUNS
        stretch = np.cumsum(changes)
        levels = rng.standard_normal(int(stretch[-1]) + 1)[stretch]
        z = np.sqrt(stretches) * levels + np.sqrt(1.0 - stretches) * rng.standard_normal(mine.size)
        # Of so few runs one alone would make it more.
        factors[mine] = _with_cov(z, min(program.cov, _MOST_COV * (mine.size - 1) ** 0.5))
    return factors


def _task_times(rng: np.random.Generator, program: _Program, mean_s: float) -> Floats:
    """Task times of one job with that mean. Half of the variance of a job's skew is its program's."""
    low, high = program.space_cov
    z = np.sqrt(0.5) * program.space_z + np.sqrt(0.5) * rng.standard_normal()
    sampled_cov = low * (high / low) ** (float(z) / _P90)
    cov = sampled_cov * (_SAMPLED * program.width) ** 0.5
    return np.maximum(0.001, mean_s * _with_cov(rng.standard_normal(program.width), cov))


def _with_cov(z: Floats, cov: float) -> Floats:
    """exp(s z) over their mean, with s such that their CoV is ``cov``, as near as so few values can come."""
    if z.size < 2:
        return np.ones(z.size)
    below, wanted = z - z.max(), (cov * cov + 1.0) / z.size
    low, high = 0.0, _STEEPEST
    for _ in range(30):
        s = 0.5 * (low + high)
        values = np.exp(s * below)
        low, high = (s, high) if values @ values < wanted * values.sum() ** 2 else (low, s)
    values = np.exp(0.5 * (low + high) * z)
    return np.asarray(values / values.mean())


def _arrivals(rng: np.random.Generator, profile: Profile, count: int, horizon_s: float) -> Floats:
    check_positive("horizon", horizon_s)
    at_s = hyperexponential(rng, count, horizon_s / count, profile.c2)
    at_s *= horizon_s / at_s[-1]
    stormy = rng.random(count) < profile.storm_share
    if profile.storms:
        begins_s = rng.uniform(0.0, (1.0 - profile.season) * horizon_s) if profile.season < 1.0 else 0.0
        storms = begins_s + rng.uniform(0.0, profile.season * horizon_s, profile.storms)
        chosen = storms[rng.integers(profile.storms, size=int(stormy.sum()))]
        at_s[stormy] = np.minimum(chosen + rng.exponential(_STORM_S, chosen.size), horizon_s)
    return np.sort(at_s)
