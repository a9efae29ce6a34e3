#!/usr/bin/env python3
"""Energy of data centres: how long a day takes to simulate, and what the thesis' schedulers save.

    python benchmarks/energy.py [--hours 24] [--seeds 1] [--part day|paths|gems|large|small] [--arm NAME ...]
                                [--first-seed 1] [--limit-s 5] [--load 0.3] [--warm-up-s 1800] [--json]

``day``: GEMS and BEPS over ``--hours`` in slots of a second, 1,250 servers, 536 and 530 switches; processor
time of the simulation, workload made beforehand. ``paths``: a minimum-energy path in a half-full data centre
beside the enumeration of all paths, on growing data centres. ``gems``, ``large``, ``small``: table 4.2,
figure 3.6 and figure 3.5 over ``--hours``, paired by seed. ``--arm`` selects some of a part's arms, the base
of the ratios always among them, and ``--limit-s`` is the solver's time per slot.
``--load`` is the share of the CPU that tasks ask for. ``large`` is measured after ``--warm-up-s``, since
the data centre is empty at first; ``small`` and ``gems`` are measured from their start. The load held is the
CPU of running tasks divided by that of all servers, mean over time. A row per seed follows each arm.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import click
import numpy as np
from _common import publish

from benchmarks.papers.thesis.energy_runs import chapter_4, large, small
from spark_sched.errors import BadInputError
from spark_sched_lab.energy import (
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
from spark_sched_lab.energy.centre import DataCentre
from spark_sched_lab.energy.paths import SwitchCosts, best_path, reach


def day(hours: float, seed: int, arms: Sequence[str], load: float) -> dict[str, Any]:
    """Processor seconds by scheduler."""
    found: dict[str, Any] = {}
    for name in arms:
        topology = CHAPTER_4 if name == "gems" else LARGE
        tasks = google_like(np.random.default_rng(seed), topology, horizon_s=hours * 3600, load=load)
        began = time.process_time()
        if name == "gems":
            simulate_gems(topology, tasks)
        else:
            simulate_slots(topology, tasks, HEURISTICS[name](), slot_s=1, horizon_s=int(hours * 3600))
        found[name] = {"tasks_drawn": len(tasks), "processor_s": round(time.process_time() - began, 1)}
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


#: What energies are divided by; GEMS is divided by the variants of its own estimate.
_BASE = {"large": "RRS", "small": "MTEC"}
_ARMS: dict[str, tuple[str, ...]] = {
    "day": ("gems", "BEPS-memory"),
    "gems": tuple(f"{variant}/{estimate}" for estimate in ("shared", "trace") for variant in VARIANTS),
    "large": tuple(HEURISTICS),
    "small": ("MTEC", "MSEC", *HEURISTICS),
}


def _run(
    part: str, arm: str, seed: int, horizon_s: int, limit_s: float, load: float, warm_up_s: int
) -> dict[str, Any]:
    if part == "gems":
        variant, estimate = arm.split("/")
        return chapter_4(seed, horizon_s, variant, estimate, load=load)
    if part == "large":
        return large(seed, horizon_s, arm, warm_up_s, load)
    return small(seed, horizon_s, arm, limit_s, load)


def comparisons(
    part: str,
    hours: float,
    seeds: Sequence[int],
    arms: Sequence[str],
    limit_s: float,
    load: float,
    warm_up_s: int,
) -> dict[str, list[dict[str, Any]]]:
    """Totals by arm, a list over seeds, of the arms given (all where none is) and their base."""
    chosen = [arm for arm in _ARMS[part] if not arms or arm in arms or arm == _base(part, arms[0])]
    horizon_s = int(hours * 3600)
    return {
        arm: [_run(part, arm, seed, horizon_s, limit_s, load, warm_up_s) for seed in seeds] for arm in chosen
    }


def _base(part: str, arm: str) -> str:
    return f"gems/{arm.split('/')[1]}" if part == "gems" else _BASE[part]


def _rows(
    seeds: Sequence[int], base: str, totals: list[dict[str, Any]], base_totals: list[dict[str, Any]]
) -> list[str]:
    """The ratios of each seed: energy, servers' and network's energy, response time."""
    rows = []
    for seed, ours, theirs in zip(seeds, totals, base_totals, strict=True):
        ratios = (f"{name} {ours[key] / theirs[key]:.3f}" for name, key in _RATIOS if theirs[key])
        gap = f"; gap {100 * ours['gap']:.2f} %, BEPS {ours['beps']:.3f}" if "gap" in ours else ""
        counts = f"{ours['tasks']:,.0f} tasks ended, load held {100 * ours['held_load']:.1f} %"
        rows.append(f"    seed {seed}, {counts}, over {base}: {', '.join(ratios)}{gap}")
    return rows


_RATIOS = (
    ("energy", "total_kwh"),
    ("servers", "server_kwh"),
    ("network", "network_kwh"),
    ("response", "response_s"),
)


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
        text += f"; BEPS by memory over it in the same slots {mean['beps']:.3f}"
    return text


@click.command()
@click.option("--hours", type=click.FloatRange(min=0.01), default=24.0, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--first-seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--part", type=click.Choice(["day", "paths", "gems", "large", "small"]), default="day")
@click.option("--arm", "arms", multiple=True, help="Some arms of the part; default: all.")
@click.option("--limit-s", type=click.FloatRange(min=0.1), default=5.0, show_default=True)
@click.option("--load", type=click.FloatRange(min=0.01), default=0.3, show_default=True)
@click.option("--warm-up-s", type=click.IntRange(min=0), default=1800, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    hours: float,
    seeds: int,
    first_seed: int,
    part: str,
    arms: tuple[str, ...],
    limit_s: float,
    load: float,
    warm_up_s: int,
    json_output: bool,
) -> None:
    """Measure and print."""
    numbers = range(first_seed, first_seed + seeds)
    unknown = [arm for arm in arms if arm not in _ARMS.get(part, ())]
    if unknown:
        known = ", ".join(_ARMS.get(part, ())) or "none"
        raise click.UsageError(f"--arm {unknown[0]}: the arms of {part} are {known}")
    if part == "day":
        found = {"day": [day(hours, seed, arms or _ARMS["day"], load) for seed in numbers]}
        lines = [f"{name}: {figures['tasks_drawn']:,} tasks drawn in {figures['processor_s']} s"
                 for each in found["day"] for name, figures in each.items()]  # fmt: skip
    elif part == "paths":
        seeds = 1
        found = {"paths": [paths(1)]}
        lines = [f"{n} servers: {of['us']} us a path; {of['paths']:,} paths listed: {of['listed_s']} s"
                 for n, of in found["paths"][0].items()]  # fmt: skip
    else:
        try:
            by_arm = comparisons(part, hours, numbers, arms, limit_s, load, warm_up_s)
        except BadInputError as error:
            raise click.UsageError(f"--hours {hours:g}: {error}") from None
        found = {part: by_arm}  # type: ignore[dict-item]
        lines = []
        for arm, totals in by_arm.items():
            base = _base(part, arm)
            ratios = [a["total_kwh"] / b["total_kwh"] for a, b in zip(totals, by_arm[base], strict=True)]
            mean = {name: np.mean([each[name] for each in totals]) for name in totals[0]}
            lines += [_line(arm, base, ratios, mean), *_rows(numbers, base, totals, by_arm[base])]
    publish({**found, "hours": hours, "runs": seeds}, lines, json_output)


if __name__ == "__main__":
    main()
