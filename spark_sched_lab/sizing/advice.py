"""Settings that follow from recorded statistics, each with its reason; missing statistics are named."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_sched_lab.evictions.wasc import (
    CHEBYSHEV,
    SENSITIVITY,
    ClassUsage,
    coverage,
    occupancies,
    slots_of,
    upper_estimate,
)
from spark_sched_lab.sizing.logged_application import LoggedApplication
from spark_sched_lab.sizing.statistics import Cpu, Group, Statistics

#: How sensitive to slow-down a class is, by its name. Classes with other names get the
#: greatest sensitivity: nothing shows that they tolerate a slow-down.
_SENSITIVITY = {"slo": SENSITIVITY["production"], "best_effort": SENSITIVITY["gratis"]}
#: Slots for each one that the log has. Tasks that sleep use no CPU, but memory, disks and what they wait for.
_MOST_TIMES = 4
#: From this share of attempts without a CPU time on, the others are not representative.
_MOST_UNSEEN = 0.1


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One setting. ``group`` is None for a property of the application; else ``setting`` is a mark of jobs of
    this group. ``recorded`` is the value that the log shows, ``""`` where it shows none."""

    setting: str
    value: str
    recorded: str
    reason: str
    group: tuple[str, ...] | None = None


@dataclass(slots=True)
class Advice:
    """Recommendations, and a sentence for each that had to be left out."""

    settings: list[Recommendation] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def properties(self) -> dict[str, str]:
        return {one.setting: one.value for one in self.settings if one.group is None}


@dataclass(frozen=True, slots=True)
class _ExecutorShape:
    """The most frequent shape of the executors."""

    cores: int
    slots: int
    task_cpus: int


def recommend(
    applications: Sequence[LoggedApplication], found: Statistics, chebyshev: float = CHEBYSHEV
) -> Advice:
    """Recommendations from the statistics of an application's runs. Its properties are those of the last run
    that recorded any."""
    advice = Advice()
    recorded = next((a.properties for a in reversed(applications) if a.properties is not None), None)
    shape = _shape(applications, recorded or {})
    master = (recorded or {}).get("spark.master", "").removeprefix("spark-sched:")
    if recorded is None:
        advice.left_out.append(
            "executors and slots: not recorded (the log has no Spark properties; give the Spark event log)"
        )
    elif not master:
        advice.left_out.append("executors and slots: not recorded (the log does not show spark.master)")
    elif master.startswith("local") and not master.startswith("local-cluster"):
        cores = _whole(found.busy.bound(chebyshev)) * _task_cpus(recorded)
        reason = _demand_words(found, chebyshev)
        advice.settings.append(Recommendation("spark.master", f"local[{cores}]", master, reason))
    elif shape is None:
        advice.left_out.append("executors and slots: not recorded (the log does not list executors)")
    else:
        slots = _executor_slots(advice, found, chebyshev, shape, recorded, master)
        _executors(advice, found, chebyshev, shape, slots, recorded, master)
    _priorities(advice, found)
    return advice


def _task_cpus(properties: Mapping[str, str]) -> int:
    text = properties.get("spark.task.cpus", "1")
    return max(1, int(text)) if text.isdecimal() else 1


def _shape(applications: Sequence[LoggedApplication], properties: Mapping[str, str]) -> _ExecutorShape | None:
    shapes: Counter[tuple[int, int]] = Counter()
    for application in applications:
        shapes.update(application.shapes)
    if not shapes:
        return None
    (cores, slots), _ = max(shapes.items(), key=lambda pair: (pair[1], pair[0]))
    return _ExecutorShape(cores, slots, _task_cpus(properties))


def _demand_words(found: Statistics, chebyshev: float) -> str:
    """The number of slots that is enough, and the reason."""
    busy = found.busy
    full = (
        f"; all slots were busy for {busy.full_share:.0%} of the time, and the log does not show how many "
        "more would have been used"
        if busy.full_share > 0
        else ""
    )
    return (
        f"{busy.mean:.1f} ± {busy.deviation:.1f} slots were busy while any was, so that "
        f"{busy.bound(chebyshev):.1f} (mean + {chebyshev:g} deviations, at most the {busy.most} ever busy) "
        f"are enough for at least {coverage(chebyshev):.0%} of this time{full}"
    )


def _executor_slots(
    advice: Advice,
    found: Statistics,
    chebyshev: float,
    shape: _ExecutorShape,
    recorded: Mapping[str, str],
    master: str,
) -> int:
    """Slots of an executor with the cores it has, from its tasks' CPU use (WASC, stage I)."""
    problem = _no_cpu(found, shape)
    if problem:
        advice.left_out.append(f"spark.executor.cores and spark.task.cpus: {problem}")
        return shape.slots
    use = _estimate(found, chebyshev)
    words = (
        f"a task used {_range(found)} cores while it ran, and {use:.2f} by Chebyshev's bound with "
        f"c = {chebyshev:g} and the sensitivity of its class"
    )
    if use > 1:
        task_cpus = min(shape.cores, _whole(use - 0.5))
        cores = shape.cores
    else:
        task_cpus = 1
        by_cpu = slots_of(shape.cores, use, shape.cores)
        cores = min(by_cpu, _MOST_TIMES * shape.cores)
        if cores < by_cpu:
            words += (
                f" ({by_cpu} slots by CPU alone; the log shows what {shape.slots} tasks beside each other "
                f"cost, so at most {_MOST_TIMES} times as many: repeat this with the log of such a run)"
            )
    slots = cores // task_cpus
    for name, value, was, reason in (
        ("spark.executor.cores", cores, shape.cores, f"so that {shape.cores} cores serve {slots} slots"),
        ("spark.task.cpus", task_cpus, shape.task_cpus, f"so that it needs {task_cpus}"),
    ):
        if value != was or name == "spark.executor.cores":
            advice.settings.append(Recommendation(name, str(value), str(was), f"{words}, {reason}"))
    if master.startswith("k8s") and cores != shape.cores:
        name = "spark.kubernetes.executor.request.cores"
        reason = "more slots than cores: the pod still asks for the cores that its tasks use"
        advice.settings.append(Recommendation(name, str(shape.cores), recorded.get(name, ""), reason))
    return slots


def _no_cpu(found: Statistics, shape: _ExecutorShape) -> str:
    """The reason why the slots of an executor cannot be derived from CPU use, or an empty text."""
    if found.unseen > _MOST_UNSEEN * found.attempts:
        return (
            f"not recorded (no CPU time of {found.unseen:,} of {found.attempts:,} attempts; that of Python "
            "workers, piped commands and GPUs is in no event log)"
        )
    if not _known(found):
        return "not recorded (the log shows no CPU time of any task)"
    if shape.slots != shape.cores // shape.task_cpus:
        return "other resources than cores limit the slots of these executors"
    return ""


def _known(found: Statistics) -> list[tuple[Group, Cpu]]:
    return [(group, group.cpu) for group in found.groups if group.cpu is not None]


def _estimate(found: Statistics, chebyshev: float) -> float:
    """The estimated CPU use of a task in cores: the mean of its class' estimates, by their occupancy."""
    known = _known(found)
    usages = [ClassUsage(cpu.tasks, cpu.mean_demand_s, cpu.mean, cpu.deviation) for _, cpu in known]
    estimates = []
    for (group, cpu), usage in zip(known, usages, strict=True):
        sensitivity = _SENSITIVITY.get(group.job_class, 1.0)
        bound = upper_estimate(usage.usage, usage.deviation, chebyshev, sensitivity)
        estimates.append(min(bound, sensitivity * cpu.most))
    return math.fsum(share * one for share, one in zip(occupancies(usages), estimates, strict=True))


def _range(found: Statistics) -> str:
    means = [(cpu.mean, cpu.deviation) for _, cpu in _known(found)]
    low, high = min(means), max(means)
    if low == high:
        return f"{low[0]:.2f} ± {low[1]:.2f}"
    return f"{low[0]:.2f} ± {low[1]:.2f} to {high[0]:.2f} ± {high[1]:.2f}"


def _executors(
    advice: Advice,
    found: Statistics,
    chebyshev: float,
    shape: _ExecutorShape,
    slots: int,
    recorded: Mapping[str, str],
    master: str,
) -> None:
    """Recommend the number of executors with ``slots`` slots each."""
    count = _whole(found.busy.bound(chebyshev) / slots)
    words = f"{_demand_words(found, chebyshev)}; an executor has {slots} slot{'s' * (slots > 1)}"
    if recorded.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        name, value = "spark.dynamicAllocation.maxExecutors", count
    elif re.match(r"spark://|local-cluster\b", master):
        cores = advice.properties.get("spark.executor.cores", str(shape.cores))
        name, value = "spark.cores.max", count * int(cores)
        words += f" in {cores} cores"
    else:
        name, value = "spark.executor.instances", count
    advice.settings.append(Recommendation(name, str(value), recorded.get(name, ""), words))


def _priorities(advice: Advice, found: Statistics) -> None:
    """One priority more for every factor of ten between the demands of jobs: the shorter first."""
    groups = [group for group in found.groups if group.demand_s > 0]
    name = "spark.sched.job.priority"
    if len(groups) < 2:
        advice.left_out.append(f"{name}: there is one group of jobs")
        return
    if any(group.wait_s is None for group in groups):
        advice.left_out.append(f"{name}: not recorded (the log has no waits of some jobs)")
        return
    if found.busy.full_share == 0:
        advice.left_out.append(f"{name}: slots were never all busy, so that no order matters")
        return
    largest = max(groups, key=lambda group: (group.demand_s, group.group))
    called = ", ".join(filter(None, largest.group)) or "the unnamed"
    for group in groups:
        factor = largest.demand_s / group.demand_s
        priority = math.floor(math.log10(factor) + 1e-9)
        if priority > 0:
            advice.settings.append(
                Recommendation(
                    name,
                    str(priority),
                    ", ".join(map(str, group.priorities)),
                    f"its jobs take {group.demand_s:,.1f} slot-seconds each, {factor:,.0f} times less than "
                    f"those of {called}, and waited {group.wait_s:,.1f} s for their first slot",
                    group.group,
                )
            )
    if not any(one.setting == name for one in advice.settings):
        advice.left_out.append(f"{name}: the demands of jobs differ by less than a factor of ten")


def _whole(number: float) -> int:
    """The next whole number, at least 1; a rounding error is not a slot."""
    return max(1, math.ceil(number - 1e-9))
