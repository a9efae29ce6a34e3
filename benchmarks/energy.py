#!/usr/bin/env python3
"""Energy of data centres: how long a day takes to simulate, and what the thesis' schedulers save.

    python benchmarks/energy.py [--hours 24] [--seeds 1] [--part day|paths|gems|large|small] [--json]

``day``: GEMS and BEPS over ``--hours`` in slots of a second, 1,250 servers, 536 and 530 switches, 30 % of
the CPU asked for; processor time of the simulation, workload made beforehand. ``paths``: a minimum-energy
path in a half-full data centre beside the enumeration of all paths, on growing data centres. ``gems``,
``large``, ``small``: table 4.2, figure 3.6 and figure 3.5 over ``--hours``, paired by seed.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import click
import numpy as np
from _common import publish

from spark_sched.energy import (
    CHAPTER_4,
    HEURISTICS,
    LARGE,
    VARIANTS,
    Topology,
    google_like,
    simulate_gems,
    simulate_slots,
    types_by_ratio,
)
from spark_sched.energy.centre import DataCentre
from spark_sched.energy.paths import SwitchCosts, best_path, reach
from spark_sched.experiments.reproduce.thesis.energy_runs import chapter_4, large, small


def day(hours: float, seed: int) -> dict[str, Any]:
    """Processor seconds by scheduler."""
    found: dict[str, Any] = {}
    for name, topology in (("gems", CHAPTER_4), ("BEPS-memory", LARGE)):
        tasks = google_like(np.random.default_rng(seed), topology, horizon_s=hours * 3600)
        began = time.process_time()
        if name == "gems":
            simulate_gems(topology, tasks)
        else:
            simulate_slots(topology, tasks, HEURISTICS[name](), slot_s=1, horizon_s=int(hours * 3600))
        found[name] = {"tasks": len(tasks), "processor_s": round(time.process_time() - began, 1)}
    return found


def paths(seed: int) -> dict[str, Any]:
    """Microseconds of a path by number of servers: ours, and of one listed path times their number."""
    found: dict[str, Any] = {}
    rng = np.random.default_rng(seed)
    for servers in (125, 1_250, 12_500):
        topology = Topology(8, 16, max(4, servers * 512 // 1250), types_by_ratio(servers))
        centre = DataCentre(topology)
        for links in (centre.core_links, centre.aggregation_links, centre.access_links):
            links *= rng.random(links.shape)
        costs = SwitchCosts(*(rng.random(len(flows)) for flows in centre.flows))
        server_cost = rng.random(servers)
        began = time.process_time()
        for _ in range(200):
            best_path(centre, reach(centre, costs, 0.05), 0.05, server_cost)
        ours = (time.process_time() - began) / 200
        began = time.process_time()
        nodes = (range(8), range(16), range(topology.accesses), range(servers))
        for c, a, x, s in itertools.islice(itertools.product(*nodes), 20_000):
            room = min(centre.core_links[c, a], centre.aggregation_links[a, x], centre.access_links[x, s])
            _ = room >= 0.05 and costs.core[c] + costs.aggregation[a] + costs.access[x] + server_cost[s]
        listed = (time.process_time() - began) / 20_000 * topology.paths
        found[str(servers)] = {
            "us": round(ours * 1e6, 1),
            "paths": topology.paths,
            "listed_s": round(listed, 1),
        }
    return found


def comparisons(part: str, hours: float, seeds: int) -> dict[str, Any]:
    """Totals by arm, a list over seeds."""
    horizon_s, numbers = int(hours * 3600), range(1, seeds + 1)
    if part == "gems":
        return {
            f"{variant}/{estimate}": [chapter_4(seed, horizon_s, variant, estimate) for seed in numbers]
            for variant in VARIANTS
            for estimate in ("shared", "trace")
        }
    if part == "large":
        return {arm: [large(seed, horizon_s, arm) for seed in numbers] for arm in HEURISTICS}
    return {arm: [small(seed, horizon_s, arm) for seed in numbers] for arm in ("MTEC", "MSEC", *HEURISTICS)}


def _line(arm: str, base: str, ratios: list[float], mean: dict[str, Any]) -> str:
    saved = 100 - 100 * mean["total_kwh"] / mean["always_on_kwh"]
    text = (
        f"{arm}: energy over {base} {np.mean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"{mean['total_kwh']:.1f} kWh, "
        f"network {mean['network_kwh']:.1f}; saved over always on {saved:.1f} %; "
        f"response {mean['response_s']:.1f} s, wait {mean['wait_s']:.1f} s; on {mean['on_servers']:.0f} "
        f"servers, {mean['on_switches']:.0f} switches; use of CPU {100 * mean['cpu_use']:.0f} %, "
        f"of memory {100 * mean['memory_use']:.0f} %"
    )
    if "gap" in mean:
        text += f"; gap {100 * mean['gap']:.2f} %, proven {mean['proven']:.0f} of {mean['slots']:.0f} slots"
    return text


@click.command()
@click.option("--hours", type=click.FloatRange(min=0.01), default=24.0, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--part", type=click.Choice(["day", "paths", "gems", "large", "small"]), default="day")
@click.option("--json", "json_output", is_flag=True)
def main(hours: float, seeds: int, part: str, json_output: bool) -> None:
    """Measure and print."""
    if part == "day":
        found = {"day": [day(hours, seed) for seed in range(1, seeds + 1)]}
        lines = [f"{name}: {told['tasks']:,} tasks in {told['processor_s']} s"
                 for each in found["day"] for name, told in each.items()]  # fmt: skip
    elif part == "paths":
        seeds = 1
        found = {"paths": [paths(1)]}
        lines = [f"{n} servers: {told['us']} us a path; {told['paths']:,} paths listed: {told['listed_s']} s"
                 for n, told in found["paths"][0].items()]  # fmt: skip
    else:
        arms = comparisons(part, hours, seeds)
        found = {part: arms}  # type: ignore[dict-item]
        base = {"gems": "gems/shared", "large": "RRS", "small": "MTEC"}[part]
        lines = []
        for arm, totals in arms.items():
            ratios = [a["total_kwh"] / b["total_kwh"] for a, b in zip(totals, arms[base], strict=True)]
            mean = {name: np.mean([each[name] for each in totals]) for name in totals[0]}
            lines.append(_line(arm, base, ratios, mean))
    publish({**found, "hours": hours, "runs": seeds}, lines, json_output)


if __name__ == "__main__":
    main()
