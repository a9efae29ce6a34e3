"""Generators of workloads. Each takes a NumPy ``Generator``: the same seed gives the same bytes.

`GENERATORS` names them for the command line; each is ``function(rng, **parameters) -> Trace``.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_sched_lab.traces.generators.e2e import e2e
from spark_sched_lab.traces.generators.pareto import pareto_jobs
from spark_sched_lab.traces.generators.recurring import recurring
from spark_sched_lab.traces.generators.thesis import thesis_workload
from spark_sched_lab.traces.tables import Trace

__all__ = ["GENERATORS", "e2e", "pareto_jobs", "recurring", "thesis_workload"]

#: A new generator: its function, and a line here.
GENERATORS: dict[str, Callable[..., Trace]] = {
    "e2e": e2e,
    "pareto": pareto_jobs,
    "recurring": recurring,
    "thesis": thesis_workload,
}
