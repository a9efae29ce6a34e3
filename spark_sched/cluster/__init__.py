"""Real standalone Spark clusters: on this machine for demo, benchmarks and tests, elsewhere, and on EC2."""

from spark_sched.cluster.local import ClusterError, LocalCluster
from spark_sched.cluster.standalone import StandaloneCluster

__all__ = ["ClusterError", "LocalCluster", "StandaloneCluster"]
