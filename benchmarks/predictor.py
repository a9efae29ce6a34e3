"""How long a runtime prediction takes, and learning one.

    python benchmarks/predictor.py TRACE [--jobs N] [--json]

Learns the trace in the order of time as `spark-sched predict eval` does. Timed are, for every job from the
second half on, gathering its features and predicting (a lookup), and taking in its runtime (an update), one
by one. The point estimate is worked out when asked for and timed apart. Wall time, which other work on the
machine prolongs; a lookup changes nothing when repeated, so that beside its first time stands the least of
three, which nothing interrupted. As in the planner, objects loaded at the start are excluded from garbage
collection (`gc.freeze`). Goals: lookups p99 < 0.25 ms, worst < 5 ms (3Sigma §6.5: 14 ms at worst).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spark_sched.predict import ThreeSigmaPredict
from spark_sched.predict.runtimes.predictor import Submission
from spark_sched_lab.accuracy.runtimes import in_order, jobs_with_runtimes
from spark_sched_lab.reports.machine import basis, basis_line
from spark_sched_lab.traces import open_trace


def quantiles_ms(times_ns: list[int]) -> dict[str, float]:
    """p50, p99, p99.9 and the worst in milliseconds."""
    at = np.array(times_ns) / 1e6
    named = zip(("p50", "p99", "p99.9", "worst"), np.quantile(at, [0.5, 0.99, 0.999, 1.0]), strict=True)
    return {name: round(float(value), 4) for name, value in named}


def measure(path: str, limit: int | None) -> dict[str, Any]:
    """Lookup and update times over a trace; ``limit``: its first jobs only."""
    jobs = sorted(jobs_with_runtimes(open_trace(path).chunks(), Counter()), key=lambda job: job.submit_s)[
        :limit
    ]
    half = len(jobs) // 2
    predictor = ThreeSigmaPredict()
    waiting: dict[int, Any] = {}
    times: dict[str, list[int]] = {"lookup": [], "lookup, least of three": [], "point": [], "update": []}
    now = time.perf_counter_ns
    frozen = False
    began = time.process_time()
    for number, came in in_order(jobs):
        job = jobs[number]
        scored = number >= half
        if not frozen and scored:
            gc.collect()
            gc.freeze()
            frozen = True
        if came:
            at = now()
            submission = predictor.submit(job.attributes)
            prediction = predictor.predict(submission)
            took = now() - at
            if job.finished:
                waiting[number] = submission, prediction
            if scored:
                times["lookup"].append(took)
                times["lookup, least of three"].append(min(took, *_again(predictor, submission, now)))
            if scored and prediction is not None:
                at = now()
                _ = prediction.point_s
                times["point"].append(now() - at)
        elif number in waiting and job.runtime_s is not None:
            submission, prediction = waiting.pop(number)
            at = now()
            predictor.learn(submission, job.runtime_s, prediction)
            if scored:
                times["update"].append(now() - at)
    return {
        "trace": path,
        "jobs": len(jobs),
        "feature_values": len(predictor),
        "cpu_s": round(time.process_time() - began, 1),
        "wall_ms": {kind: {"runs": len(found), **quantiles_ms(found)} for kind, found in times.items()},
    }


def _again(predictor: ThreeSigmaPredict, submission: Submission, now: Callable[[], int]) -> Iterator[int]:
    for _ in range(2):
        at = now()
        predictor.predict(predictor.submit(submission.job, submission))
        yield now() - at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace")
    parser.add_argument("--jobs", type=int, default=None, help="the first N jobs only")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.trace, given.jobs)
    if given.json:
        print(json.dumps({**found, "command": " ".join(["python", *sys.argv]), **basis()}, indent=2))
        return
    print(
        f"{found['trace']}: {found['jobs']:,} jobs, {found['feature_values']:,} feature values, "
        f"{found['cpu_s']:g} s of CPU for all"
    )
    for kind, row in found["wall_ms"].items():
        shown = ", ".join(f"{name} {value:g} ms" for name, value in row.items() if name != "runs")
        print(f"{kind} ({row['runs']:,} runs): {shown}")
    print(basis_line(basis()))


if __name__ == "__main__":
    main()
