"""Event logs of small applications, written event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

T0 = 1_700_000_000_000


class Log:
    """Listener events as Spark writes them; times in ms since the application's start."""

    def __init__(self, **properties: str) -> None:
        self.events: list[dict[str, Any]] = [
            {"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"},
            {
                "Event": "SparkListenerApplicationStart",
                "App Name": "test",
                "App ID": "app-1",
                "Timestamp": T0,
                "User": "anna",
            },
            {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": properties},
        ]

    def add(self, kind: str, **fields: Any) -> Log:
        self.events.append({"Event": kind, **fields})
        return self

    def executor(self, at: int, name: str, cores: int, **info: Any) -> Log:
        return self.add(
            "SparkListenerExecutorAdded",
            **{
                "Timestamp": T0 + at,
                "Executor ID": name,
                "Executor Info": {"Host": f"h{name}", "Total Cores": cores, **info},
            },
        )

    def job(self, number: int, begin: int, end: int, tasks: list[tuple[int, int]], **properties: str) -> Log:
        """A Spark job of one stage that is submitted when it is; tasks by (launch, finish) on executor 1."""
        info = {
            "Stage ID": number,
            "Stage Attempt ID": 0,
            "Stage Name": f"stage {number}",
            "Number of Tasks": len(tasks),
            "Parent IDs": [],
            "Submission Time": T0 + begin,
        }
        self.add(
            "SparkListenerJobStart",
            **{
                "Job ID": number,
                "Submission Time": T0 + begin,
                "Stage Infos": [info],
                "Properties": {k.replace("_", "."): v for k, v in properties.items()},
            },
        )
        self.add("SparkListenerStageSubmitted", **{"Stage Info": info})
        for index, (launch, finish) in enumerate(tasks):
            self.add(
                "SparkListenerTaskEnd",
                **{
                    "Stage ID": number,
                    "Stage Attempt ID": 0,
                    "Task End Reason": {"Reason": "Success"},
                    "Task Info": {
                        "Index": index,
                        "Attempt": 0,
                        "Launch Time": T0 + launch,
                        "Finish Time": T0 + finish,
                        "Executor ID": "1",
                        "Locality": "PROCESS_LOCAL",
                    },
                },
            )
        done = {**info, "Completion Time": T0 + max(finish for _, finish in tasks)}
        self.add("SparkListenerStageCompleted", **{"Stage Info": done})
        return self.add(
            "SparkListenerJobEnd",
            **{"Job ID": number, "Completion Time": T0 + end, "Job Result": {"Result": "JobSucceeded"}},
        )

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(e, separators=(",", ":")) + "\n" for e in self.events))
        return path


def contended(log: Log | None = None, **marks: str) -> Log:
    """Two slots. A long job of four tasks, and a short one with these marks that waits for it for 1.9 s."""
    log = (log or Log()).executor(0, "1", 2)
    log.job(0, 100, 4_120, [(120, 2_120), (120, 2_120), (2_120, 4_100), (2_120, 4_100)])
    return log.job(1, 200, 5_120, [(4_100, 5_100)], **marks)
