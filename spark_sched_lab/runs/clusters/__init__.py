"""Real standalone Spark clusters: on this machine for demo, benchmarks and tests, elsewhere, and on EC2."""

from spark_sched_lab.runs.clusters.local import ClusterError, LocalCluster
from spark_sched_lab.runs.clusters.standalone import StandaloneCluster

__all__ = ["ClusterError", "LocalCluster", "StandaloneCluster"]
