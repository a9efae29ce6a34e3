"""The runs of an A/B test and their order: a function of the suite, so that a restart computes the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_sched_lab.runs.ab.suite import Suite


@dataclass(frozen=True)
class RunKey:
    """One run: a block, a workload's label, and what runs (`Suite.settings`)."""

    block: int
    workload: str
    setting: str


def block_runs(suite: Suite, block: int) -> list[RunKey]:
    """The runs of a block: workloads in random order, and within each all settings in random order."""
    rng = np.random.default_rng([suite.seed, block, 1])
    labels = [job.label for job in suite.workloads]
    return [
        RunKey(block, labels[workload], suite.settings[setting])
        for workload in rng.permutation(len(labels))
        for setting in rng.permutation(len(suite.settings))
    ]


def run_seed(suite: Suite, key: RunKey) -> int:
    """The seed of a run's input and background: the same for all settings of a block and workload."""
    labels = [job.label for job in suite.workloads]
    sequence = np.random.SeedSequence([suite.seed, key.block, 2, labels.index(key.workload)])
    return int(sequence.generate_state(1)[0])
