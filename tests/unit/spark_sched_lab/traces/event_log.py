"""Writes event logs for tests, event by event, and reads them back."""

from __future__ import annotations

import json

from spark_sched_lab.traces import open_trace

T0 = 1_700_000_000_000


class Log:
    """Writes listener events the way Spark does; times in ms since the application's start."""

    def __init__(self, app="app-1", attempt=None):
        start = {"App Name": "test", "App ID": app, "Timestamp": T0, "User": "anna"}
        if attempt:
            start["App Attempt ID"] = attempt
        self.events = [
            {"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"},
            {"Event": "SparkListenerApplicationStart", **start},
            {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.task.cpus": "2"}},
        ]

    def add(self, kind, **fields):
        self.events.append({"Event": kind, **fields})
        return self

    def executor(self, at, name, cores):
        info = {"Host": "h", "Total Cores": cores}
        return self.add(
            "SparkListenerExecutorAdded", **{"Timestamp": T0 + at, "Executor ID": name, "Executor Info": info}
        )

    def job(self, number, at, stages, **properties):
        infos = [
            {
                "Stage ID": s,
                "Stage Attempt ID": 0,
                "Stage Name": f"stage {s}",
                "Number of Tasks": 1,
                "Parent IDs": p,
            }
            for s, p in stages.items()
        ]
        return self.add(
            "SparkListenerJobStart",
            **{"Job ID": number, "Submission Time": T0 + at, "Stage Infos": infos, "Properties": properties},
        )

    def job_end(self, number, at, result="JobSucceeded"):
        return self.add(
            "SparkListenerJobEnd",
            **{"Job ID": number, "Completion Time": T0 + at, "Job Result": {"Result": result}},
        )

    def stage(self, stage, begin, end, tasks=1, attempt=0, failure=None, reason="Success", task_ends=True):
        info = {
            "Stage ID": stage,
            "Stage Attempt ID": attempt,
            "Stage Name": f"stage {stage}",
            "Number of Tasks": tasks,
        }
        info["Submission Time"] = T0 + begin
        self.add("SparkListenerStageSubmitted", **{"Stage Info": dict(info)})
        for index in range(tasks if task_ends else 0):
            self.task(stage, index, begin + min(10, (end - begin) // 2), end, attempt=attempt, reason=reason)
        info["Completion Time"] = T0 + end
        if failure:
            info["Failure Reason"] = failure
        return self.add("SparkListenerStageCompleted", **{"Stage Info": info})

    def task(self, stage, index, begin, end, attempt=0, reason="Success", copy=False, number=0):
        info = {"Task ID": 1, "Index": index, "Attempt": number, "Launch Time": T0 + begin,
                "Executor ID": "1", "Host": "h", "Speculative": copy, "Finish Time": T0 + end}  # fmt: skip
        return self.add(
            "SparkListenerTaskEnd",
            **{
                "Stage ID": stage,
                "Stage Attempt ID": attempt,
                "Task End Reason": {"Reason": reason},
                "Task Info": info,
            },
        )

    def begin(self, task, stage, index, begin, executor="1"):
        info = {"Task ID": task, "Index": index, "Attempt": 0, "Launch Time": T0 + begin,
                "Executor ID": executor, "Host": "h", "Speculative": False, "Finish Time": 0}  # fmt: skip
        return self.add(
            "SparkListenerTaskStart", **{"Stage ID": stage, "Stage Attempt ID": 0, "Task Info": info}
        )

    def text(self):
        return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in self.events)

    def write(self, path):
        path.write_text(self.text())
        return path


def read(path):
    reader = open_trace(path)
    return reader.read(), reader


def two_jobs():
    log = Log().job(0, 0, {0: []}).stage(0, 1, 10, tasks=3).job_end(0, 11)
    return log.job(1, 20, {1: []}).stage(1, 21, 30, tasks=3).job_end(1, 31)
