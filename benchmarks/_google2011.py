"""The task events of the Google 2011 trace, as the fits of this folder read them."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import click

#: Time 0 and 600 s stand for "existed before".
TRACE_START_S = 600.0
_SUBMIT, _SCHEDULE, _FINISH = 0, 1, 4
_ENDINGS = (2, 3, 4, 5, 6)
_CONTIGUOUS_PARTS = 14  # parts 14, 18 and 19 are missing; 0 to 13 have no hole


@dataclass
class TaskEvents:
    """The data of each job in a contiguous window, by its number; times in seconds.

    Attributes:
        submitted: first submission.
        tasks: indices of its tasks.
        durations_s: of its finished tasks, from the last schedule to the finish.
        requests: CPU and memory of its last submission that states both.
        end_s: of the window.
    """

    submitted: dict[int, float] = field(default_factory=dict)
    tasks: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    durations_s: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[int, tuple[float, float]] = field(default_factory=dict)
    end_s: float = 0.0

    def seen_whole(self) -> list[int]:
        """Jobs of the window's first half with a finished task.

        A task of up to half the window's length is seen to its end; later jobs would bring in their short
        tasks only.
        """
        return [
            job
            for job, at_s in self.submitted.items()
            if TRACE_START_S < at_s <= self.end_s / 2 and self.durations_s.get(job)
        ]


def task_events(trace_dir: Path) -> TaskEvents:
    """The events of ``task_events/part-?????-of-00500.csv.gz``. Raises UsageError where there are none."""
    parts = sorted((trace_dir / "task_events").glob("part-*-of-00500.csv.gz"))[:_CONTIGUOUS_PARTS]
    if not parts:
        raise click.UsageError(f"TRACE_DIR is {trace_dir}: it holds no task_events/part-*-of-00500.csv.gz")
    found = TaskEvents()
    running: dict[tuple[int, int], float] = {}
    for part in parts:
        with gzip.open(part, "rt") as rows:
            for row in csv.reader(rows):
                time_s, job, index, event = int(row[0]) / 1e6, int(row[2]), int(row[3]), int(row[5])
                found.end_s = time_s
                if event == _SUBMIT:
                    found.submitted.setdefault(job, time_s)
                    found.tasks[job].add(index)
                    if row[9] and row[10]:
                        found.requests[job] = (float(row[9]), float(row[10]))
                elif event == _SCHEDULE:
                    running[job, index] = time_s
                elif event in _ENDINGS:
                    started_s = running.pop((job, index), None)
                    if event == _FINISH and started_s is not None:
                        found.durations_s[job].append(time_s - started_s)
    return found
