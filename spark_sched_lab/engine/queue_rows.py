"""What each tenants' queue had in a run, with the jobs of the queues below it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_sched_lab.engine.results import Result


def by_queue(result: Result) -> list[dict[str, Any]]:
    """One row per queue; empty where there are none.

    ``slot_s`` is the slot time of attempts that ended. ``jct_*_s`` and ``wait_mean_s`` are over the jobs that
    ended; ``unfinished`` counts the others, the refused ones among them.
    """
    rows = []
    jobs = result.jobs
    for row in result.queues:
        path = row["queue"]
        # Jobs that ended before there were queues are in none.
        queues = [queue or "" for queue in jobs["queue"]]
        inside = [i for i, queue in enumerate(queues) if queue == path or queue.startswith(f"{path}.")]
        ended = [i for i in inside if jobs["end_ms"][i] is not None]
        jct_s = np.array([jobs["jct_ms"][i] for i in ended], dtype=float) / 1000.0
        wait_s = np.array([jobs["wait_ms"][i] for i in ended], dtype=float) / 1000.0
        rows.append(
            {
                **row,
                "slot_s": sum(jobs["work_ms"][i] + jobs["wasted_ms"][i] for i in inside) / 1000.0,
                "jobs": len(inside),
                "unfinished": len(inside) - len(ended),
                "jct_mean_s": float(jct_s.mean()) if ended else None,
                "jct_p95_s": float(np.percentile(jct_s, 95)) if ended else None,
                "wait_mean_s": float(wait_s.mean()) if ended else None,
            }
        )
    return rows
