"""pyspark's worker daemon with the workloads' imports done: ``spark.python.daemon.module`` names it.

Workers are forked from the daemon. Forked from pyspark's own, each imports NumPy, SciPy and MLlib again, half
a second of processor time per worker; eight at once take two processors for seconds, again after every minute
of idleness, when Spark ends its idle workers. That noise would drown what is measured.
"""

from __future__ import annotations

from spark_sched_lab.runs.workloads import quick_daemon  # first: it says where pyspark is imported from

# isort: split
import numpy  # noqa: F401
import pyspark.mllib.clustering
import pyspark.mllib.regression  # noqa: F401

import spark_sched_lab.runs.workloads.foreground  # noqa: F401

if __name__ == "__main__":
    quick_daemon.main()
