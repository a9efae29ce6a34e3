"""A real standalone Spark cluster on this machine, for the demo, the benchmarks and the tests."""

from spark_sched.cluster.local import ClusterError, LocalCluster, Worker

__all__ = ["ClusterError", "LocalCluster", "Worker"]
