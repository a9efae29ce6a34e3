#!/usr/bin/env python3
"""Records the stages and task times of real MLlib jobs for the simulator's figures.

    python benchmarks/record_mllib.py --out benchmarks/papers/slot_reservation/data/mllib.json

KMeans and SVM (``LinearSVC``) are MLlib's own, PageRank joins and aggregates DataFrames. Each runs alone on
stock Spark with 8 partitions (the paper's figure 1) and 20 (its figure 5), first once to warm up and then
``--runs`` times. The program writes, per run and stage: the number of the Spark job, parents, and each task's
processor time in microseconds. Processor time, because tasks share the machine's cores with each other and
with whatever else runs: a task's time on the clock would be that of the machine's queue.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from _common import local_properties, stderr, workspace

WIDTHS = (8, 20)
FEATURES = 10
ITERATIONS = {"kmeans": 8, "svm": 5, "pagerank": 6}
ROWS = 4_000  # per partition


def kmeans(spark: Any, width: int, rows: int) -> None:
    """Lloyd's iterations over cached points."""
    from pyspark.ml.clustering import KMeans

    points = _points(spark, width, rows)
    KMeans(k=8, maxIter=ITERATIONS["kmeans"], tol=0.0, initMode="random", seed=1).fit(points)
    points.unpersist(True)


def svm(spark: Any, width: int, rows: int) -> None:
    """A linear support vector machine by OWLQN over cached points."""
    from pyspark.ml.classification import LinearSVC

    points = _points(spark, width, rows)
    LinearSVC(maxIter=ITERATIONS["svm"], tol=0.0).fit(points)
    points.unpersist(True)


def pagerank(spark: Any, width: int, rows: int) -> None:
    """Ranks and links joined and aggregated: one Spark job of a stage per shuffle."""
    pages = width * rows // 4
    links = spark.range(0, 4 * pages, 1, width).selectExpr(
        f"id % {pages} as page", f"pmod(xxhash64(id), {pages}) as target"
    )
    ranks = spark.range(0, pages, 1, width).selectExpr("id as page", "1.0D as rank")
    for _ in range(ITERATIONS["pagerank"]):
        shares = links.join(ranks, "page").selectExpr("target as page", "rank / 4 as share")
        ranks = shares.groupBy("page").sum("share").selectExpr("page", "0.15 + 0.85 * `sum(share)` as rank")
    ranks.selectExpr("sum(rank)").collect()


def _points(spark: Any, width: int, rows: int) -> Any:
    from pyspark.ml.feature import VectorAssembler

    columns = [f"x{n}" for n in range(FEATURES)]
    made = spark.range(0, width * rows, 1, width).selectExpr(
        "cast(id % 2 as double) as label",
        *(f"randn({n}) + id % 2 as {name}" for n, name in enumerate(columns)),
    )
    points = VectorAssembler(inputCols=columns, outputCol="features").transform(made)
    return points.select("label", "features").cache()


JOBS: dict[str, Callable[[Any, int, int], None]] = {"kmeans": kmeans, "svm": svm, "pagerank": pagerank}


def stages_of(events: Iterator[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Per job group the stages in the order of submission, as the module says."""
    groups: dict[int, str] = {}
    first: dict[int, int] = {}
    found: dict[str, list[dict[str, Any]]] = {}
    tasks: dict[int, dict[int, int]] = {}
    infos: dict[int, dict[str, Any]] = {}
    for event in events:
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            group = (event.get("Properties") or {}).get("spark.jobGroup.id") or ""
            for stage in event["Stage IDs"]:
                groups.setdefault(stage, group)
                first.setdefault(stage, event["Job ID"])
        elif kind == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            metrics = event["Task Metrics"]
            taken_us = (metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) // 1000
            tasks.setdefault(event["Stage ID"], {})[event["Task Info"]["Index"]] = max(1, taken_us)
        elif kind == "SparkListenerStageCompleted":
            infos[event["Stage Info"]["Stage ID"]] = event["Stage Info"]
    for group in dict.fromkeys(groups.values()):
        run = sorted(
            (s for s in infos if groups.get(s) == group), key=lambda s: (infos[s]["Submission Time"], s)
        )
        number = {stage: index for index, stage in enumerate(run)}
        rows: list[dict[str, Any]] = []
        for stage in run:
            info = infos[stage]
            parents = [number[p] for p in info["Parent IDs"] if number.get(p, len(rows)) < len(rows)]
            # A Spark job of the program starts when the one before it has ended.
            if not any(rows[p]["job"] == first[stage] for p in parents):
                parents = [index for index, row in enumerate(rows) if row["job"] < first[stage]][-1:]
            rows.append(
                {
                    "job": first[stage],
                    "parents": parents,
                    "tasks_us": [us for _, us in sorted(tasks[stage].items())],
                }
            )
        numbers = {job: nth for nth, job in enumerate(sorted({row["job"] for row in rows}))}
        found[group] = [{**row, "job": numbers[row["job"]]} for row in rows]
    return found


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--runs", default=1, show_default=True, help="Recorded runs of each job and width.")
@click.option(
    "--job",
    "chosen",
    multiple=True,
    type=click.Choice(list(JOBS)),
    help="Only these; the file keeps the rest.",
)
@click.option("--cores", default=2, show_default=True)
def main(out: Path, runs: int, chosen: tuple[str, ...], cores: int) -> None:
    """Record and write the file."""
    from pyspark.sql import SparkSession

    kept = {name: job for name, job in JOBS.items() if name in (chosen or JOBS)}
    with workspace() as directory:
        builder = SparkSession.builder.master(f"local[{cores}]").appName("record-mllib")
        properties = {
            **local_properties(directory),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.driver.memory": "1g",
        }
        for name, value in properties.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        application = spark.sparkContext.applicationId
        for name, run_job in kept.items():
            for width in WIDTHS:
                spark.conf.set("spark.sql.shuffle.partitions", str(width))
                for run in range(-1 if width == WIDTHS[0] else 0, runs):
                    spark.sparkContext.setJobGroup(f"{name} {width} {run}", name)
                    run_job(spark, width, ROWS)
                    stderr.print(f"{name}, {width} partitions, run {run}", highlight=False)
        version = spark.version
        spark.stop()
        with (directory / "event-logs" / application).open() as log:
            recorded = stages_of(map(json.loads, log))
    jobs = {
        name: {str(width): [recorded[f"{name} {width} {run}"] for run in range(runs)] for width in WIDTHS}
        for name in kept
    }
    others = json.loads(out.read_text())["jobs"] if chosen and out.exists() else {}
    document = {
        "made_by": "benchmarks/record_mllib.py",
        "spark": version,
        "rows": ROWS,
        "jobs": {**others, **jobs},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    for name, widths in jobs.items():
        for tasks, recordings in widths.items():
            times = [us / 1000 for stage in recordings[0] for us in stage["tasks_us"]]
            stderr.print(
                f"{name}, {tasks}: {len(recordings[0])} stages, {len(times)} tasks of "
                f"{math.fsum(times) / len(times):.1f} ms on average",
                highlight=False,
            )


if __name__ == "__main__":
    main()
