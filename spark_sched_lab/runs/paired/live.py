"""One cluster, of this machine or named, with an application for each set of properties that arms have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from spark_sched import attach
from spark_sched_lab.runs.clusters import LocalCluster, StandaloneCluster
from spark_sched_lab.runs.paired.application import ArmApplication
from spark_sched_lab.runs.paired.arms import Arm, ClusterSize
from spark_sched_lab.runs.paired.properties import allocation_file, quiet_application
from spark_sched_lab.runs.paired.scratch import scratch_folder

_MEMORY_GB = 1
# A test of an hour may wait for its cluster on a machine that is busy with something else.
_START_LIMIT_S = 300.0


@contextlib.contextmanager
def applications(
    size: ClusterSize,
    arms: Sequence[Arm],
    title: str,
    note: Callable[[str], None],
    master_url: str | None = None,
) -> Iterator[dict[tuple[object, ...], ArmApplication]]:
    """The arms' applications, launched but not awaited, by `Arm.application`; ended with the block.

    ``title`` begins their names; ``note`` receives progress messages; ``master_url`` is that of a cluster
    that runs already. Raises ClusterError if the cluster does not start or answer.
    """
    firsts: dict[tuple[object, ...], Arm] = {}
    for arm in arms:
        firsts.setdefault(arm.application, arm)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(scratch_folder("spark-sched-runs-"))
        (directory / "pools.xml").write_text(allocation_file(size.all_slots))
        note("compiling the bridge, if that was not done before")
        attach.build()
        cluster: LocalCluster | StandaloneCluster
        if master_url is None:
            note("starting the cluster and its applications, warming up")
            slots, memory_gb = worker_needs(size, arms)
            cluster = stack.enter_context(
                LocalCluster(size.workers, slots, f"{memory_gb}g", start_timeout_s=_START_LIMIT_S)
            )
        else:
            note(f"starting the applications on {master_url}, warming up")
            cluster = StandaloneCluster(master_url)
        running: dict[tuple[object, ...], ArmApplication] = {}
        for number, (which, arm) in enumerate(firsts.items()):
            properties = _properties(size, arm, f"{title}: {arm.name}", cluster, directory)
            running[which] = ArmApplication(f"application-{number}", properties, directory)
            stack.callback(running[which].kill)
            running[which].launch()
        yield running


def worker_needs(size: ClusterSize, arms: Sequence[Arm]) -> tuple[int, int]:
    """Slots and GB of memory that each worker must offer, since all applications run side by side."""
    count = len({arm.application for arm in arms})
    return size.slots * count, (_MEMORY_GB + 1) * count


def _properties(
    size: ClusterSize, arm: Arm, name: str, cluster: LocalCluster | StandaloneCluster, directory: Path
) -> dict[str, str]:
    properties = {
        **quiet_application(cluster.spark_conf(), name, size.workers, size.slots),
        "spark.executor.memory": f"{_MEMORY_GB}g",
        **dict(arm.properties),
    }
    if arm.scheduler == "fair":
        properties["spark.scheduler.mode"] = "FAIR"
        properties["spark.scheduler.allocation.file"] = (directory / "pools.xml").as_uri()
    return properties if arm.stock else dict(attach.conf(cluster.master_url, properties))
