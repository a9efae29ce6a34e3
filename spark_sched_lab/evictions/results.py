"""The results of a run with evictions: response times, evictions, wasted work by class, samples over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_sched_lab.evictions.task_table import TaskTable

#: Equation 6.5, w = K + a: the thesis says a > 2 and no more.
WEIGHT_OFFSET = 3.0


@dataclass(slots=True)
class Observations:
    """Observations during a run; as in `PriorityResult`."""

    energy_j: float = 0.0
    samples: list[tuple[int, int, int, int, float, float]] = field(default_factory=list)
    states: list[tuple[int, int, bool]] = field(default_factory=list)
    refused: int = 0
    gone: int = 0  # tasks that left


@dataclass(frozen=True)
class PriorityResult:
    """Columns by task, in the order of the workload.

    Attributes:
        end_s: when the task finished; NaN: it was dropped.
        priority_evictions, memory_evictions: how often it was evicted.
        wasted: CPU time that its evictions lost, in cpu·s.
        energy_j: of all servers, until the last task arrived: the same time under every rule.
        energy_all_j: of all servers, until the last task left.
        samples: ``(time in s, used slots, queue length, servers on, CPU in use, memory in use)`` once a
            minute.
        states: at each priority eviction ``(running tasks of the lowest class that were evicted before, that
            were not, whether the victim was evicted before)`` (figure 7.2).
        times_s: seconds of each task on servers (figure 6.5): ``executing`` successfully (T_x), ``waking``
            its servers up (T_wu), and executing what was ``lost_for_memory`` or ``lost_for_priority`` (T_we).
        refused: evictions that were not worth their price.
    """

    tasks: TaskTable
    end_s: np.ndarray
    priority_evictions: np.ndarray
    memory_evictions: np.ndarray
    wasted: np.ndarray
    energy_j: float
    energy_all_j: float
    span_s: float
    samples: list[tuple[int, int, int, int, float, float]]
    states: list[tuple[int, int, bool]]
    times_s: Mapping[str, np.ndarray]
    refused: int = 0

    @property
    def response_s(self) -> np.ndarray:
        response_s: np.ndarray = self.end_s - self.tasks.arrival_s
        return response_s

    def breakdown(self, priority: int | None = None) -> dict[str, float]:
        """The mean response time of the tasks that finished, of a class or of all, in its parts in s (figure
        6.5). What `times_s` leaves of the response time is the time in the queue (T_q)."""
        done = np.isfinite(self.end_s)
        if priority is not None:
            done &= self.tasks.priority == priority
        if not done.any():
            return {}
        found = {name: float(values[done].mean()) for name, values in self.times_s.items()}
        return {"queued": float(self.response_s[done].mean()) - sum(found.values()), **found}

    def weighted_response(self) -> float:
        """V (equation 6.5): the mean over classes of weight × mean response time, in s."""
        found = self.by_class()
        return float(np.mean([(p + WEIGHT_OFFSET) * row["response_s"] for p, row in found.items()]))

    def by_class(self) -> dict[int, dict[str, float]]:
        """Per priority: tasks, mean response time (s) and its parts, evictions, dropped, wasted (cpu·s)."""
        found = {}
        response_s = self.response_s
        for priority in np.unique(self.tasks.priority):
            mine = self.tasks.priority == priority
            done = mine & np.isfinite(self.end_s)
            if not done.any():
                continue
            found[int(priority)] = {
                "tasks": int(mine.sum()),
                "response_s": float(response_s[done].mean()),
                **{f"{name}_s": mean_s for name, mean_s in self.breakdown(int(priority)).items()},
                "priority_evictions": int(self.priority_evictions[mine].sum()),
                "memory_evictions": int(self.memory_evictions[mine].sum()),
                "dropped": int(mine.sum() - done.sum()),
                "wasted": float(self.wasted[mine].sum()),
            }
        return found

    def summary(self) -> dict[str, Any]:
        """The metrics of §6.4.1 and of tables 7.2, 7.3 and 9.1 as JSON values."""
        evictions, memory = self.priority_evictions, self.memory_evictions
        done = np.isfinite(self.end_s)
        response_s = self.response_s
        lowest = self.tasks.priority == self.tasks.priority.min()
        hit = evictions > 0

        def mean(chosen: np.ndarray) -> float | None:
            return float(response_s[chosen & done].mean()) if (chosen & done).any() else None

        evicted_tasks = int(hit.sum())
        return {
            "tasks": len(self.tasks),
            "V": self.weighted_response(),
            "WE": float(self.wasted.sum()),
            "E_kwh": self.energy_j / 3.6e6,
            "E_all_kwh": self.energy_all_j / 3.6e6,
            "R": mean(done),
            "R_parts": self.breakdown(),
            "R_lowest": mean(lowest),
            "R_lowest_evicted": mean(lowest & hit),
            "R_lowest_not_evicted": mean(lowest & ~hit),
            "NE": int(evictions.sum() + memory.sum()),
            "NE_priority": int(evictions.sum()),
            "NE_memory": int(memory.sum()),
            "NET": evicted_tasks,
            "max_evictions": int(evictions.max()),
            "mean_evictions": float(evictions.sum() / evicted_tasks) if evicted_tasks else 0.0,
            "dropped": int((~done).sum()),
            "refused": self.refused,
            "span_s": self.span_s,
            "classes": {str(priority): row for priority, row in self.by_class().items()},
        }
