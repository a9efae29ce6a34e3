"""Which RDDs stages read from the cache, and where the cached blocks are if the log has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spark_sched_lab.traces.stage_input import StageInput

_BLOCK = re.compile(r"rdd_(\d+)_(\d+)")
_STORED = ("Use Memory", "Use Disk", "Use Off Heap", "Use ExternalBlockStore", "Use Tachyon")


class SparkCache:
    """Follows the blocks of cached RDDs through a log.

    A log has them with ``spark.eventLog.logBlockUpdates.enabled``, or in the metrics of tasks with
    ``spark.taskMetrics.trackUpdatedBlockStatuses``.
    """

    def __init__(self) -> None:
        self._told = False
        self._on: dict[int, dict[int, set[str]]] = {}

    def stage(self, info: Mapping[str, Any]) -> StageInput | None:
        """What a stage reads whose submission has this description; None if it says nothing of that."""
        rdds = {int(rdd["RDD ID"]): rdd for rdd in info.get("RDD Info") or ()}
        shuffles_of = tuple(int(stage) for stage in info.get("Parent IDs") or ())
        if not rdds:
            return StageInput(shuffles_of=shuffles_of) if shuffles_of else None
        inner = {int(parent) for rdd in rdds.values() for parent in rdd.get("Parent IDs") or ()}
        last = next((number for number in rdds if number not in inner), next(iter(rdds)))
        partitions = int(rdds[last].get("Number of Partitions", 0))
        order: dict[int, None] = {}
        stack = [last]
        while stack:
            number = stack.pop()
            if number in order or number not in rdds:
                continue
            order[number] = None
            stack += [int(parent) for parent in reversed(rdds[number].get("Parent IDs") or ())]
        cached = tuple(
            number
            for number in order
            if any((rdds[number].get("Storage Level") or {}).get(place) for place in _STORED)
            # Where an RDD is joined to others or made coarser, a task's partition of it is not known.
            and int(rdds[number].get("Number of Partitions", 0)) == partitions
        )
        whole = partitions == int(info["Number of Tasks"])
        blocks = self._blocks(cached, partitions) if self._told else None
        return StageInput(cached, shuffles_of, whole=whole, blocks=blocks)

    def _blocks(self, cached: tuple[int, ...], partitions: int) -> dict[int, frozenset[str]]:
        found: dict[int, frozenset[str]] = {}
        alike: dict[frozenset[str], frozenset[str]] = {}
        for rdd in reversed(cached):
            for partition, on in self._on.get(rdd, {}).items():
                if on and partition < partitions:
                    at = frozenset(on)
                    found[partition] = alike.setdefault(at, at)
        return found

    def updated(self, event: Mapping[str, Any], prefix: str) -> None:
        """A block was stored or dropped; ``prefix`` stands before executors' names in the trace."""
        info = event["Block Updated Info"]
        executor = str(info["Block Manager ID"]["Executor ID"])
        self._update(str(info["Block ID"]), info.get("Storage Level") or {}, f"{prefix}{executor}")

    def task_ended(self, metrics: Any, executor: str) -> None:
        """The blocks that a task stored or dropped on its executor."""
        for block in (metrics or {}).get("Updated Blocks") or ():
            self._update(str(block["Block ID"]), block["Status"].get("Storage Level") or {}, executor)

    def unpersisted(self, event: Mapping[str, Any]) -> None:
        self._on.pop(int(event["RDD ID"]), None)

    def executor_removed(self, executor: str) -> None:
        for partitions in self._on.values():
            for on in partitions.values():
                on.discard(executor)

    def _update(self, block: str, level: Mapping[str, Any], executor: str) -> None:
        found = _BLOCK.fullmatch(block)
        if found is None:
            return
        self._told = True
        on = self._on.setdefault(int(found[1]), {}).setdefault(int(found[2]), set())
        if any(level.get(place) for place in _STORED):
            on.add(executor)
        else:
            on.discard(executor)
