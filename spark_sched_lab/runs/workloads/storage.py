"""Input that is slow to read, so that slots and not processors are what jobs compete for.

On a laptop with two cores, tasks that compute would compete for the processors, and no scheduler could keep
a job isolated. Here the computation is real but small, and a task spends most of its time *reading*: each
read of a partition takes that partition's own time, every time it is read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SlowStorage:
    """Partitions that take ``min_read_s`` to ``max_read_s`` to read.

    Attributes:
        partitions: their number, at least 1.
        min_read_s, max_read_s: read times are spread evenly over this range and dealt to the partitions by
            ``seed``: tasks are uneven and light-tailed, yet the longest is the same for every seed.
        seed: deals the read times and makes the data.
    """

    partitions: int
    min_read_s: float
    max_read_s: float
    seed: int

    def read_times_s(self) -> np.ndarray:
        """Seconds to read each partition; shape ``(partitions,)``."""
        times_s = np.linspace(self.min_read_s, self.max_read_s, self.partitions)
        return np.random.default_rng([self.seed, 1]).permutation(times_s)

    def rng(self, partition: int) -> np.random.Generator:
        """Take as long as reading the partition takes, then return the generator that makes its data."""
        time.sleep(float(self.read_times_s()[partition]))
        return self.data_rng(partition)

    def data_rng(self, partition: int) -> np.random.Generator:
        """The partition's generator without the wait: for the driver's own needs and for tests."""
        return np.random.default_rng([self.seed, 2, partition])


def slow_storage(parameters: Mapping[str, Any], seed: int) -> SlowStorage:
    """The storage of a workload's parameters; a ``seed`` among them replaces the run's own."""
    own = parameters.get("seed")
    return SlowStorage(
        int(parameters["partitions"]),
        float(parameters["min_read_s"]),
        float(parameters["max_read_s"]),
        seed if own is None else int(own),
    )
