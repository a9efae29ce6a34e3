"""How long an attempt runs, from its own draw, the node's speed and the distance of its input."""

from __future__ import annotations

import numpy as np

from spark_sched_lab.cluster.cluster import ClusterSpec
from spark_sched_lab.engine.records import StageRun


class Durations:
    """Durations in whole ms on the nodes of a cluster.

    Attributes:
        vary: whether durations depend on the node for every job; otherwise only for jobs that prefer
            partitions.
    """

    def __init__(self, cluster: ClusterSpec, seed: int) -> None:
        self.vary = cluster.locality is not None or any(node.speed != 1.0 for node in cluster.nodes)
        self._cluster = cluster
        self._seed = seed

    def copy_ms(self, stage: StageRun, index: int) -> int:
        """The duration that a copy of a task draws: the same under every policy."""
        if stage.spec.copies_ms and index in stage.spec.copies_ms:
            return stage.spec.copies_ms[index]
        rng = np.random.default_rng((self._seed, stage.job.arrival, stage.index, index))
        draw = stage.spec.copy_duration_ms
        if draw is not None:
            return draw(rng, 1)[0]
        return stage.spec.durations_ms[int(rng.integers(stage.spec.tasks))]

    def there_ms(self, stage: StageRun, node: int, duration_ms: int, has_input: bool = True) -> int:
        """The time of a task of ``duration_ms`` on ``node``; counts the task if its input is elsewhere."""
        nodes, locality, job = self._cluster.nodes, self._cluster.locality, stage.job
        factor = 1.0 / nodes[node].speed
        if locality is not None and not has_input:
            same_rack = nodes[node].rack in stage.places.local_racks
            on_rack = locality.rack_slowdown if same_rack else None
            factor *= locality.slowdown if on_rack is None else on_rack
            job.sums.nonlocal_tasks += 1
        preferred = job.spec.preferred
        if preferred is not None and nodes[node].partition not in preferred.partitions:
            factor *= preferred.elsewhere_factor
        return max(1, round(duration_ms * factor))
