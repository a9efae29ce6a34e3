"""A fast trace-driven simulator: live snapshots, policies, plans and slot ledger on a virtual clock.

Start with `simulate`. `Simulation` is the engine behind it; :mod:`spark_sched_lab.enforce.ledger` is the
state machine of speculative slot reservation: which idle slot is held, for which job, until when. The JVM
bridge has the same state machine in Scala (``schedcore.ledger.Ledger``); the sequences in ``protocol/golden``
must give the same decisions in both.
"""

from spark_sched_lab.cluster.cluster import ClusterSpec, Locality, NodeSpec, Power, uniform_nodes
from spark_sched_lab.cluster.delay_scheduling import Delay, LocalityWaits
from spark_sched_lab.engine.engine import Simulation
from spark_sched_lab.engine.planning import Planner
from spark_sched_lab.engine.results import Result
from spark_sched_lab.engine.run import simulate
from spark_sched_lab.engine.workload import (
    JobSpec,
    MarkChange,
    NextJob,
    SchedulingChange,
    StageSpec,
    pareto_sampler,
)

__all__ = [
    "ClusterSpec",
    "Delay",
    "JobSpec",
    "Locality",
    "LocalityWaits",
    "MarkChange",
    "NextJob",
    "NodeSpec",
    "Planner",
    "Power",
    "Result",
    "SchedulingChange",
    "Simulation",
    "StageSpec",
    "pareto_sampler",
    "simulate",
    "uniform_nodes",
]
