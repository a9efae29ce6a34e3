"""Executors of one Spark application, from its listener events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spark_sched_lab.traces.tables import Machine


class SparkExecutors:
    """Executors with their slots, each over its span of time.

    Args:
        seconds: a time of the log (ms since the epoch) on the trace's clock.

    Attributes:
        task_cpus: ``spark.task.cpus``; Spark's own default until the log says otherwise.
    """

    def __init__(self, seconds: Callable[[Any], float]) -> None:
        self._seconds = seconds
        self.task_cpus = 1.0
        self._profiles: dict[int, dict[str, Any]] = {}
        self._present: dict[str, Machine] = {}
        self._gone: list[Machine] = []
        self._unlisted: dict[str, Machine] = {}

    def profile_added(self, event: dict[str, Any]) -> None:
        self._profiles[int(event["Resource Profile Id"])] = dict(event["Task Resource Requests"])

    def added(self, event: dict[str, Any], prefix: str) -> None:
        """An executor is there; ``prefix`` stands before its name in the trace."""
        executor, info = str(event["Executor ID"]), event["Executor Info"]
        cores = int(info["Total Cores"])
        self._present[executor] = Machine(
            f"{prefix}{executor}",
            str(info["Host"]),
            self._slots(info, cores),
            cores,
            added_s=self._seconds(event["Timestamp"]),
        )

    def removed(self, event: dict[str, Any]) -> None:
        """An executor is gone."""
        executor, at_s = str(event["Executor ID"]), self._seconds(event["Timestamp"])
        machine = self._present.pop(executor, None)
        if machine is not None:
            self._gone.append(replace(machine, removed_s=at_s))
        elif executor in self._unlisted:
            self._unlisted[executor] = replace(self._unlisted[executor], removed_s=at_s)

    def ran(self, info: dict[str, Any], prefix: str) -> str:
        """The trace's name of the executor of a task, which the log may not list."""
        executor = str(info["Executor ID"])
        name = f"{prefix}{executor}"
        if executor not in self._present:
            host = info.get("Host")
            self._unlisted.setdefault(executor, Machine(name, None if host is None else str(host)))
        return name

    def unlisted(self) -> list[Machine]:
        """Executors that ran tasks and whose addition is not in the log: without slots and start."""
        listed = {machine.machine for machine in (*self._gone, *self._present.values())}
        return [machine for machine in self._unlisted.values() if machine.machine not in listed]

    def machines(self) -> list[Machine]:
        return [*self._gone, *self._present.values(), *self.unlisted()]

    def _slots(self, info: dict[str, Any], cores: int) -> int:
        """Tasks that run at once on an executor: by cores, and by GPUs and the like if tasks ask for any."""
        requests = self._profiles.get(int(info.get("Resource Profile Id", 0)), {})
        cpus = float(requests["cpus"]["Amount"]) if "cpus" in requests else self.task_cpus
        slots = int(cores // cpus)
        for name, resource in (info.get("Resources") or {}).items():
            amount = float(requests[name]["Amount"]) if name in requests else 0.0
            if amount > 0.0:
                # A task asks for whole units or for a part of one (ResourceUtils).
                count = len(resource["addresses"])
                slots = min(slots, count * int(1.0 / amount) if amount <= 1.0 else int(count // amount))
        return slots
