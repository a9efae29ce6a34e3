"""Energy-aware placement of tasks in data centres whose servers and switches can sleep.

The model, the optimum and the heuristics of chapters 3 and 4 of Çavdar's thesis, in a package of their own:
the event simulator does not import them, so they add no cost to it. See docs/explanation/energy.md.
"""

from __future__ import annotations

from spark_sched_lab.energy.demands import FlowSizes, Tasks, google_like
from spark_sched_lab.energy.gems import VARIANTS, simulate_gems
from spark_sched_lab.energy.heuristics import HEURISTICS, Demand
from spark_sched_lab.energy.meter import Totals
from spark_sched_lab.energy.power import SERVER_TYPES
from spark_sched_lab.energy.slots import simulate_slots
from spark_sched_lab.energy.topology import CHAPTER_4, LARGE, SMALL, Topology, types_by_ratio

__all__ = [
    "CHAPTER_4",
    "HEURISTICS",
    "LARGE",
    "SERVER_TYPES",
    "SMALL",
    "VARIANTS",
    "Demand",
    "FlowSizes",
    "Tasks",
    "Topology",
    "Totals",
    "google_like",
    "simulate_gems",
    "simulate_slots",
    "types_by_ratio",
]
