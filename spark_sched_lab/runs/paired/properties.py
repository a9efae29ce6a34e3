"""Spark properties of applications whose runs are compared."""

from __future__ import annotations

from collections.abc import Mapping

POOL = "foreground"
POOL_WEIGHT = 1000
# Leaves a small machine's processors to the tasks.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def quiet_application(cluster: Mapping[str, str], name: str, workers: int, slots: int) -> dict[str, str]:
    """An executor of ``slots`` slots on each of the cluster's workers, without features that cost time."""
    return {
        **cluster,
        "spark.app.name": name,
        "spark.cores.max": str(workers * slots),
        "spark.executor.cores": str(slots),
        "spark.python.daemon.module": "spark_sched_lab.runs.workloads.warm_daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _JAVA,
    }


def allocation_file(slots: int) -> str:
    """FAIR pools for Spark's own scheduler, with the strongest preference for the foreground that Spark
    supports."""
    return (
        '<?xml version="1.0"?>\n<allocations>\n'
        f'  <pool name="{POOL}">\n    <schedulingMode>FIFO</schedulingMode>\n'
        f"    <weight>{POOL_WEIGHT}</weight>\n    <minShare>{slots}</minShare>\n  </pool>\n</allocations>\n"
    )
