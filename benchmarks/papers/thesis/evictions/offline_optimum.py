"""How far eviction rules are from the offline optimum, on small instances that are solved exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.papers.figures import Figure, figure
from benchmarks.papers.means import mean_value
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from spark_sched.policies.eviction import named_rule
from spark_sched_lab.evictions import ServerGroup, TaskTable, simulate_priorities
from spark_sched_lab.evictions.results import WEIGHT_OFFSET

_RULES = ("fcfs", "mrs", "lrs", "mrs5-keep", "priced")
_SLOTS, _TASKS, _WITHIN_S = 3, 12, 24
#: Share of tasks and mean demand of the three classes.
_CLASSES = {0: (0.4, 10.0), 4: (0.4, 6.0), 9: (0.2, 6.0)}


def small_instance(rng: np.random.Generator) -> TaskTable:
    """Twelve tasks of three classes with exponential demands in whole seconds. They want about 1.3 times what
    three slots have while they arrive."""
    arrival_s = np.sort(rng.integers(0, _WITHIN_S, _TASKS)).astype(float)
    priority = rng.choice(list(_CLASSES), size=_TASKS, p=[share for share, _ in _CLASSES.values()])
    means = np.array([_CLASSES[int(p)][1] for p in priority])
    demand = np.ceil(rng.exponential(means))
    return TaskTable(arrival_s, priority, demand, np.zeros(_TASKS))


def best_response(tasks: TaskTable, slots: int) -> float:
    """The least V (equation 6.5) of any schedule without resume on equal slots, all tasks known beforehand.

    It evicts no task: without a lost attempt the rest of the schedule is possible, too. So it is a start for
    each task, found by a time-indexed integer program. Arrivals and demands must be whole seconds. Raises
    RuntimeError if the solver found no optimum.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_matrix

    demand = tasks.demand.astype(int)
    arrival = tasks.arrival_s.astype(int)
    classes, counts = np.unique(tasks.priority, return_counts=True)
    of_class = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    weight = [(p + WEIGHT_OFFSET) / of_class[p] / len(of_class) for p in tasks.priority.tolist()]
    # Some slot is free at the latest when all other work is done.
    until = int(arrival.max() + demand.sum() // slots + demand.max() + 1)
    starts = [(j, t) for j in range(len(tasks)) for t in range(int(arrival[j]), until)]
    cost = np.array([weight[j] * (t + demand[j] - arrival[j]) for j, t in starts])
    rows = lil_matrix((len(tasks) + until + int(demand.max()), len(starts)))
    for column, (j, t) in enumerate(starts):
        rows[j, column] = 1.0
        rows[len(tasks) + t : len(tasks) + t + int(demand[j]), column] = 1.0
    once, busy = np.ones(len(tasks)), np.full(rows.shape[0] - len(tasks), float(slots))
    limits = LinearConstraint(rows.tocsr(), np.concatenate([once, 0.0 * busy]), np.concatenate([once, busy]))
    found = milp(cost, constraints=limits, integrality=np.ones(len(starts)), bounds=Bounds(0.0, 1.0))
    if found.status != 0:
        raise RuntimeError(f"no optimum: {found.message}")
    return float(found.fun)


def small_instances(seed: int, instances: int) -> dict[str, list[float]]:
    """V of each rule over the optimum's, by instance."""
    rng = np.random.default_rng([seed, 14])
    server = ServerGroup("equal", 1, float(_SLOTS), 0.0, _SLOTS, cores=_SLOTS)
    ratios: dict[str, list[float]] = {rule: [] for rule in _RULES}
    for _ in range(instances):
        tasks = small_instance(rng)
        least = best_response(tasks, _SLOTS)
        for rule in _RULES:
            run = simulate_priorities(tasks, [server], named_rule(rule), seed=seed, wake_s=0)
            ratios[rule].append(run.weighted_response() / least)
    return ratios


def _runs(scale: Scale) -> list[RunSpec]:
    return [
        run_of(small_instances, 0.5, seed=seed, instances=5 if scale.quick else 20) for seed in scale.seeds
    ]


@figure("optimum", "Eviction rules and the offline optimum", _runs)
def optimum(scale: Scale, results: Results) -> Figure:
    found = [results[run] for run in _runs(scale)]
    rows, values = [], []
    for rule in _RULES:
        every: Sequence[float] = [ratio for each in found for ratio in each[rule]]
        values.append(mean_value(f"V_of_{rule}_over_optimum".lower(), "", None, every))
        rows.append({
            "rule": rule,
            "V over optimum": round(float(np.mean(every)), 3),
            "worst": round(max(every), 3),
            "optimal in %": round(100.0 * float(np.mean(np.array(every) < 1.0 + 1e-9)), 1),
            "instances": len(every),
        })  # fmt: skip
    notes = (
        f"{_TASKS} tasks on {_SLOTS} equal slots, without wake-ups. The optimum knows all tasks beforehand; "
        "no rule that sees only arrivals can always reach it. The prices of `priced` are learned from tasks "
        "that ended: in so small an instance it knows next to nothing."
    )
    return Figure(rows, values, notes)
