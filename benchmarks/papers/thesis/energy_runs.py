"""Chapters 3 and 4: the runs behind the figures; ``load`` is that of `google_like`."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_sched_lab.energy import (
    CHAPTER_4,
    HEURISTICS,
    LARGE,
    SMALL,
    Totals,
    google_like,
    simulate_gems,
    simulate_slots,
)
from spark_sched_lab.energy.optimum import Optimum

#: Of a job's tasks in the small data centre: the trace's widest jobs are larger than all of it.
_SMALL_WIDTH = 0.02


def _document(totals: Totals) -> dict[str, Any]:
    energy, tasks, servers, switches = totals.energy, totals.tasks, totals.servers, totals.switches
    found = {
        "server_kwh": energy.server_kwh,
        "network_kwh": energy.network_kwh,
        "total_kwh": energy.total_kwh,
        "always_on_kwh": energy.always_on_kwh,
        "span_s": totals.span_s,
        "tasks": tasks.ended,
        "wait_s": tasks.wait_s,
        "response_s": tasks.response_s,
        "held_load": servers.held_load,
        "cpu_use": servers.cpu_use,
        "memory_use": servers.memory_use,
        "on_servers": servers.on,
        "most_on_servers": servers.most_on,
        "on_switches": switches.on,
        "most_on_switches": switches.most_on,
        "wakes": servers.wakes,
        "queued": tasks.queued,
        "unconnected": tasks.unconnected,
    }
    return {name: float(value) for name, value in found.items()}


def small(
    seed: int, horizon_s: int, scheduler: str, limit_s: float = 5.0, load: float = 0.3
) -> dict[str, Any]:
    """A scheduler on the small data centre in slots of a minute; ``limit_s`` is the solver's time per
    slot (``MTEC`` and ``MSEC``).

    Returns:
        The totals; for ``MTEC`` and ``MSEC`` also how many slots were planned and proven optimal to 0.2 %,
        and by how much of their energy the plans of all slots may be above the optimum (``gap``; 0 if no slot
        had a task). ``beps`` is the energy of BEPS's plans over that of these plans, each for the same slot
        and what runs in it, of the slots for which BEPS places all tasks.
    """
    rng = np.random.default_rng(seed)
    tasks = google_like(rng, SMALL, horizon_s=float(horizon_s), load=load, width=_SMALL_WIDTH)
    if scheduler in HEURISTICS:
        return _document(
            simulate_slots(SMALL, tasks, HEURISTICS[scheduler](), slot_s=60, horizon_s=horizon_s)
        )
    planner = Optimum("mtec" if scheduler == "MTEC" else "msec", limit_s, rng)
    found = _document(simulate_slots(SMALL, tasks, planner, slot_s=60, horizon_s=horizon_s))
    value = sum(r.base_j + r.value_j for r in planner.reports)
    bound = sum(r.base_j + r.bound_j for r in planner.reports)
    proven = sum(r.value_j - r.bound_j <= 2e-3 * (r.base_j + r.value_j) for r in planner.reports)
    gap = (value - bound) / value if value > 0.0 else 0.0
    both = [(r.base_j + r.beps_j, r.base_j + r.value_j) for r in planner.reports if r.beps_j is not None]
    beps = sum(theirs for theirs, _ in both) / sum(ours for _, ours in both) if both else 1.0
    return {**found, "slots": len(planner.reports), "proven": int(proven), "gap": gap, "beps": beps}


def large(
    seed: int, horizon_s: int, scheduler: str, warm_up_s: int = 1800, load: float = 0.3
) -> dict[str, Any]:
    """A heuristic on the large data centre in slots of a second: its totals over ``horizon_s`` seconds.

    Args:
        warm_up_s: seconds before them that do not count. The mean task times of jobs go up to 15 min, so that
            the data centre, empty at first, needs about twice that to hold the load.
    """
    end_s = warm_up_s + horizon_s
    tasks = google_like(np.random.default_rng(seed), LARGE, horizon_s=float(end_s), load=load)
    return _document(
        simulate_slots(LARGE, tasks, HEURISTICS[scheduler](), slot_s=1, horizon_s=end_s, warm_up_s=warm_up_s)
    )


def chapter_4(
    seed: int, horizon_s: int, variant: str, estimate: str, snapshot_s: int = 0, load: float = 0.3
) -> dict[str, Any]:
    """GEMS or what it is compared with, in slots of a second, to the last task's end.

    Returns:
        The totals; with ``snapshot_s`` also ``series``, every fifth second's number of servers that are on
        over ten minutes around the largest burst of arrivals after that time.
    """
    rng = np.random.default_rng(seed)
    tasks = google_like(rng, CHAPTER_4, horizon_s=float(horizon_s), load=load)
    totals = simulate_gems(CHAPTER_4, tasks, variant, estimate=estimate, rng=rng)  # type: ignore[arg-type]
    found = _document(totals)
    if snapshot_s:
        counts = np.bincount(tasks.arrival_s[tasks.arrival_s >= min(snapshot_s, int(tasks.arrival_s[-1]))])
        servers = totals.servers
        begin = max(int(servers.at_s[0]), int(counts.argmax()) - 120)
        at = np.arange(begin, begin + 600, 5)
        on = servers.on_at[np.clip(np.searchsorted(servers.at_s, at, side="right") - 1, 0, None)]
        found["series"] = [[int(t - begin), int(n)] for t, n in zip(at, on, strict=True)]
    return found
