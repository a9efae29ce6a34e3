"""How long 15 h of priority scheduling take: about 60,000 tasks on 125 servers, per policy.

    python benchmarks/priority_speed.py [--rounds 3] [--json]

The basis is one event per start and end in a bare `heapq` loop: what no event simulation can do without.
CPU time is measured and the best of the rounds counts. Goal: under 60 s per policy on two cores.
"""

from __future__ import annotations

import argparse
import heapq
import json
import platform
import time

from spark_sched.policies.eviction import named_rule
from spark_sched_lab.evictions import TaskTable, simulate_priorities, thesis_servers
from spark_sched_lab.evictions.workloads import workload

RULES = ("mrs", "rnd", "lrs", "mrs5", "wasp", "hybrid", "priced", "priced-slots")


def basis_s(tasks: TaskTable) -> float:
    """Seconds of CPU for an arrival and an end of each task in one heap."""
    begin = time.process_time()
    events = [(at_s, 0, task) for task, at_s in enumerate(tasks.arrival_s.tolist())]
    demands = tasks.demand.tolist()
    heapq.heapify(events)
    while events:
        at_s, kind, task = heapq.heappop(events)
        if kind == 0:
            heapq.heappush(events, (at_s + demands[task], 1, task))
    return time.process_time() - begin


def measure(rounds: int) -> dict[str, float]:
    """Best CPU seconds of the basis and of each rule."""
    tasks = workload("W-A-generated", 1)
    found = {"basis": min(basis_s(tasks) for _ in range(rounds))}
    for name in RULES:
        configuration = "WASC" if name in ("wasp", "hybrid") else "SC2"
        best = float("inf")
        for _ in range(rounds):
            begin = time.process_time()
            simulate_priorities(tasks, thesis_servers(configuration), named_rule(name), seed=1)
            best = min(best, time.process_time() - begin)
        found[name] = best
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds)
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    if arguments.json:
        print(json.dumps({**machine, "rounds": arguments.rounds, "cpu_s": seconds}, indent=2))
    else:
        print(f"CPU s, best of {arguments.rounds}, Python {machine['python']}, {machine['machine']}")
        for name, value in seconds.items():
            print(f"{name:12s} {value:6.2f}  {value / seconds['basis']:5.1f} x basis")
