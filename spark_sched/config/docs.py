"""``docs/reference/configuration.md``, generated from the declarations of the settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from spark_sched.config.keys import ALL, ConfigKey
from spark_sched.generated import show_or_write, table_row

REGENERATE = "python -m spark_sched.config.docs --write"

_HEAD = f"""<!-- Generated: do not edit. Change spark_sched/config/keys.py, then run: {REGENERATE} -->

# Configuration

This page lists every setting of the scheduler, and the marks of a job. A wrong key, unit or value stops
the application with a message before any executor starts. Times are whole numbers with a unit: `ms`, `s`,
`m` or `min`, `h`, `d`.

## The master

The plugin `org.apache.spark.scheduler.sparksched.SchedPlugin` in `spark.plugins` attaches an application.
`spark.master` is the master to run on:

| master | runs on | tested |
|---|---|---|
| `local`, `local[N]`, `local[*]`, `local[N,F]`, `local[*,F]` | threads of the driver | yes |
| `local-cluster[executors,cores,memory_mb]` | executor processes on this machine | yes |
| `spark://host:port[,host:port]` | a standalone cluster | yes |
| `yarn` | YARN | run on a small cluster ([what](spark-versions.md)); the manager builds Spark's own backend |
| `k8s://https://host:port` | Kubernetes | on [local pods](spark-versions.md); Spark's own backend |

`spark-sched conf --master INNER` prints all properties that attach the scheduler.

[Options of policies](policy-options.md), `spark.sched.policy.NAME.OPTION`, are on a separate page.

## Properties of the application
"""

_JOB_HEAD = """
## Marks of one job

Marks are local properties of a thread. `spark_sched.job(...)` sets them and removes them at the end of its
block; in SQL use `SET key=value`. As a job tag (Spark Connect), `sched:priority=10` is
`spark.sched.job.priority` with the value 10. A mark that is unknown or cannot be read is
ignored with a warning in the driver's log; it does not stop the application.
"""


def configuration_page() -> str:
    """The whole page, ending in a newline."""
    application = _table((key for key in ALL if key.kind == "application"), with_default=True)
    marks = _table((key for key in ALL if key.kind == "job"), with_default=False)
    return f"{_HEAD}\n{application}{_JOB_HEAD}\n{marks}"


def _table(keys: Iterable[ConfigKey[Any]], *, with_default: bool) -> str:
    columns = ["key", "unit", *(["default"] if with_default else []), "must be", "since", "meaning"]
    rows = [columns, ["---"] * len(columns)]
    for key in keys:
        default = [f"`{key.default}`" if key.default else "(empty)"] if with_default else []
        rows.append([f"`{key.name}`", key.value.unit, *default, key.value.wanted, key.since, key.doc])
    return "".join(map(table_row, rows))


if __name__ == "__main__":
    raise SystemExit(show_or_write(configuration_page(), "configuration.md", sys.argv[1:]))
