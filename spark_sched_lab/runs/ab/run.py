"""Runs an A/B test: block by block, until the intervals are narrow enough or all blocks are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spark_sched_lab.runs.ab.analysis import narrow_enough
from spark_sched_lab.runs.ab.schedule import RunKey, block_runs
from spark_sched_lab.runs.ab.store import Record, RunStore
from spark_sched_lab.runs.ab.suite import Suite

#: Called with the name of the next run, the number of runs done, and the greatest number of runs.
Progress = Callable[[str, int, int], None]


class Runner(Protocol):
    """Where the runs take place: a cluster or the simulator."""

    def run(self, key: RunKey) -> Record: ...


def run_blocks(suite: Suite, store: RunStore, start: Callable[[], Runner], progress: Progress) -> int:
    """Run the missing runs; returns the number of blocks at which the test ended.

    ``start`` makes the runner before the first run; it is not called if nothing is missing.
    """
    looks = suite.runs.looked_after
    per_block = len(suite.workloads) * len(suite.settings)
    total = suite.runs.blocks * per_block
    runner: Runner | None = None
    for block in range(suite.runs.blocks):
        for nth, key in enumerate(block_runs(suite, block)):
            if key in store.records:
                continue
            progress(f"block {block + 1}: {key.workload}, {key.setting}", block * per_block + nth, total)
            if runner is None:
                runner = start()
            store.append(runner.run(key))
        done = block + 1
        if done in looks and done < suite.runs.blocks and narrow_enough(suite, store.records, done):
            return done
    return suite.runs.blocks
