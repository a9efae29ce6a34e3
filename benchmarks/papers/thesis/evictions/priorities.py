"""Chapters 6 and 7: victims, memory evictions, limits on eviction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.papers.thesis.evictions.comparisons import (
    Comparison,
    Plot,
    RunSummary,
    absolute,
    comparison,
    dropped,
    lower,
    over_time,
)
from spark_sched_lab.evictions.settings import SETTINGS, EvictionSetup


def _settings(*names: str) -> dict[str, EvictionSetup]:
    return {name: SETTINGS[name] for name in names}


_BOTH = {
    f"{victims.upper()} {'resume' if resume else 'non-resume'}": EvictionSetup(victims, resume=resume)
    for resume in (True, False)
    for victims in ("mrs", "rnd", "lrs")
}
_LIMITS = {name.upper(): EvictionSetup(name) for name in ("mrs", "rnd", "lrs", "mrs5", "rnd5", "lrs5")} | {
    "MRS5 kept": EvictionSetup("mrs5-keep"),
    "priced": EvictionSetup("priced"),
}
_V_WE_E = ("V", "WE", "E_kwh")
#: Tables 7.2 and 7.3: MRS, RND and LRS with resume, then without. WE in cpu·s, read as millionths.
_TABLE_7_2_WE = {"WE": (0, 0, 0, 219e3, 878e3, 1014e3)}
_TABLE_7_2 = {
    "R": (1305, 1286, 1303, 1779, 3724, 4750),
    "R_lowest": (2501, 2490, 2442, 3959, 10222, 13678),
    "R/9": (2668, 2652, 2699, 2877, 3109, 3125),
    "R_lowest_not_evicted": (1585, 1540, 1536, 2616, 8165, 12302),
    "R_lowest_evicted": (4323, 5200, 5662, 6877, 17590, 22218),
}
_TABLE_7_3 = {
    "NE": (16022, 16069, 15970, 18781, 28367, 28398),
    "NET": (7229, 5663, 4807, 6850, 4806, 3152),
    "mean_evictions": (2.2, 2.8, 3.3, 2.7, 5.9, 9.0),
    "max_evictions": (17, 36, 36, 21, 47, 49),
}


def _absolute(table: Mapping[str, Sequence[float]], unit: str) -> list[Comparison]:
    """A number for each arm; those without resume have the rule's name alone."""
    return [
        Comparison(
            f"{metric.replace('/', '_')}_{arm.removesuffix(' non-resume').replace(' ', '_')}",
            unit,
            paper,
            absolute(metric, arm),
        )
        for metric, papers in table.items()
        for arm, paper in zip(_BOTH, papers, strict=True)
    ]


def _more_than(arm: str, count: int) -> Callable[[Mapping[str, RunSummary]], float | None]:
    def percent(found: Mapping[str, RunSummary]) -> float | None:
        counts = found[arm]["evictions_of_tasks"]
        total = sum(counts.values())
        return 100.0 * sum(n for k, n in counts.items() if int(k) > count) / total if total else None

    return percent


def _distribution(found: RunSummary) -> list[tuple[float, float]]:
    counts = {int(k): n for k, n in found["evictions_of_tasks"].items()}
    total = sum(counts.values())
    return [(k, sum(n for other, n in counts.items() if other <= k) / total) for k in sorted(counts)]


_SHARED = (
    " The policies differ as far as the cluster is full: the thesis' W-A evicts up to 28,000 times for "
    "60,000 tasks, so that lost work keeps it full."
)

FIGURES = (
    comparison(
        "fig6.7",
        "Priority eviction policy, unlimited memory",
        _settings("S1", "S2", "S3"),
        _V_WE_E,
        [
            Comparison("WE_MRS_below_LRS", "%", 90, lower("WE", "S3", "S1")),
            Comparison("V_MRS_below_LRS", "%", 20, lower("V", "S3", "S1")),
            Comparison("V_MRS_below_RND", "%", 10, lower("V", "S3", "S2")),
        ],
        "S1 LRS, S2 RND, S3 MRS; 24 and 48 slots." + _SHARED,
        chart="WE",
    ),
    comparison(
        "fig6.8",
        "Memory eviction policy without priorities",
        _settings("S4", "S5"),
        (*_V_WE_E, "NE_memory"),
        [
            Comparison("V_LSF_below_LPF", "%", 10, lower("V", "S5", "S4")),
            Comparison("E_LSF_below_LPF", "%", 10, lower("E_kwh", "S5", "S4")),
            Comparison("WE_LSF_below_LPF", "%", None, lower("WE", "S5", "S4")),
        ],
        "S4 LPF, S5 LSF, first come first served. Where memory never runs out, both are the same.",
        chart="WE",
    ),
    comparison(
        "fig6.9",
        "Priority and memory eviction policies",
        _settings("S6", "S7", "S8", "S9", "S10", "S11"),
        (*_V_WE_E, "NE_memory"),
        [
            Comparison("WE_S11_below_S6", "%", 80, lower("WE", "S11", "S6")),
            Comparison("V_S11_below_S6", "%", 20, lower("V", "S11", "S6")),
            Comparison("E_S11_below_S6", "%", 20, lower("E_kwh", "S11", "S6")),
        ],
        "S6 LRS with LPF to S11 MRS with LSF." + _SHARED,
        chart="WE",
    ),
    comparison(
        "table7.2",
        "Wasted execution and response times, resume and non-resume",
        _BOTH,
        ("WE", "R", "R_lowest", "R/9", "R_lowest_not_evicted", "R_lowest_evicted"),
        [
            Comparison("WE_MRS_below_LRS", "%", 78, lower("WE", "MRS non-resume", "LRS non-resume")),
            Comparison("R_MRS_below_LRS", "%", 62.5, lower("R", "MRS non-resume", "LRS non-resume")),
            Comparison("V_MRS_below_LRS", "%", 20, lower("V", "MRS non-resume", "LRS non-resume")),
            *_absolute(_TABLE_7_2_WE, "cpu·s"),
            *_absolute(_TABLE_7_2, "s"),
        ],
        "16 and 32 slots, unlimited memory. A run lasts until its last task has left. The thesis gives V for "
        "figure 6.7 alone: 20 %." + _SHARED,
    ),
    comparison(
        "table7.3",
        "Evictions and evicted tasks, resume and non-resume",
        _BOTH,
        ("NE", "NET", "mean_evictions", "max_evictions"),
        _absolute(_TABLE_7_3, ""),
        "NE evictions, NET evicted tasks." + _SHARED,
        chart="NET",
    ),
    comparison(
        "fig7.1",
        "How often evicted tasks are evicted",
        _BOTH,
        ("NET", "mean_evictions", "max_evictions"),
        [
            Comparison(f"evicted_more_than_twice_{arm.split()[0]}", "%", None, _more_than(arm, 2))
            for arm in ("MRS non-resume", "RND non-resume", "LRS non-resume")
        ],
        "The plot is the distribution over the tasks that were evicted.",
        plots=[Plot("Evicted tasks up to a number of evictions", "evictions", "share", _distribution)],
    ),
    comparison(
        "fig7.2",
        "Whether the victim was evicted before",
        _BOTH,
        ("victim_evicted_before", "running_evicted_before"),
        [],
        "Shares at evictions where tasks of the lowest class of both kinds run. Statement 7.3 has 0 for MRS "
        "and 1 for LRS; neither holds always: an evicted task that restarts after others started is the most "
        "recently started one.",
        chart="victim_evicted_before",
    ),
    comparison(
        "fig7.3",
        "Limits on eviction",
        _LIMITS,
        ("NE", "WE", "E_kwh", "E_all_kwh", "dropped", "V", "max_evictions"),
        [
            Comparison("WE_MRS5_below_MRS", "%", 50, lower("WE", "MRS5", "MRS")),
            Comparison("WE_RND5_below_RND", "%", 50, lower("WE", "RND5", "RND")),
            Comparison("WE_LRS5_below_LRS", "%", 50, lower("WE", "LRS5", "LRS")),
            # §7.3.4: LRS5 drops "two times more" than MRS5.
            Comparison("dropped_MRS5", "%", 1.8, dropped("MRS5")),
            Comparison("dropped_LRS5", "%", 3.6, dropped("LRS5")),
            *[
                Comparison(f"{energy}_{rule}_below_{base}", "%", paper, lower(f"{energy}_kwh", rule, base))
                for energy in ("E", "E_all")
                for rule, base, paper in (
                    ("MRS", "LRS", 12),
                    ("MRS5", "MRS", 4),
                    ("RND5", "RND", 15),
                    ("LRS5", "LRS", 16),
                )
            ],
        ],
        "The fifth eviction drops a task; 'kept': it is evicted no more instead. 'priced': an eviction must "
        "be worth it. A limit of 5 saves what is lost after the fifth eviction of a task, so that it matters "
        "only where tasks are evicted more often.",
        chart="WE",
    ),
    comparison(
        "fig7.4",
        "Slots, queue and servers over time",
        _LIMITS,
        ("slots_used", "queue_mean", "servers_on"),
        [],
        "The table has means over the run, the plots one seed over time.",
        plots=[
            over_time("Slots in use", "share", 1),
            over_time("Waiting tasks", "tasks", 2),
            over_time("Servers that are on", "servers", 3),
        ],
    ),
    comparison(
        "fig7.5",
        "Response time by class",
        _LIMITS,
        ("R/0", "R/1", "R/2", "R/4", "R/6", "R/8", "R/9"),
        [Comparison("R_0_MRS_below_LRS", "%", 71, lower("R/0", "MRS", "LRS"))],
        "Tasks that were dropped have no response time.",
        chart="R/0",
    ),
)
