"""Streaming queries whose micro-batches are jobs, each row of which must be counted exactly once.

A query is stopped at some moment and goes on from its checkpoint, so that a batch may run twice: a sink that
keeps results by the batch's number has each row once.
"""

from __future__ import annotations

import operator
import random
import time
from collections.abc import Iterator
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame

import spark_sched
from tests.integration.chaos.tenants import USERS, Shared, WrongResultError, doing, expect, record

#: Of each batch.
ROWS = 12
#: So often a query starts, each time but the first from its checkpoint.
PARTS = 2


class Stream:
    """A thread that runs one query after another, each in two parts."""

    def __init__(self, shared: Shared, number: int) -> None:
        self._shared, self._spark = shared, shared.spark
        self._random = random.Random(shared.seed * 1_000_003 + 1_000 + number)
        self._user = USERS[number % len(USERS)]
        self._number = number
        self._sink: dict[int, tuple[int, int]] = {}
        self.thread = InheritableThread(target=self._run, daemon=True, name=f"stream-{number}")

    def _run(self) -> None:
        while time.monotonic() < self._shared.stop_s:
            self._one(f"stream-{self._number}-{next(self._shared.numbers)}")

    def _one(self, name: str) -> None:
        self._sink = {}
        mark = {"user": self._user, "priority": self._random.randrange(1, 4)}
        with doing(self._shared, self.thread.name, name):
            record(self._shared, "stream", self._user, name, "", lambda: self._query(name, mark), (0, 0))
            # Each batch is a job. One that a stop cut short runs again.
            done = len(self._sink)
            record(self._shared, "batches", self._user, name, "", lambda: None, (done, done + PARTS))

    def _query(self, name: str, mark: dict[str, Any]) -> None:
        batches = 0
        for _ in range(PARTS):
            batches += self._random.randint(2, 3 if self._shared.pace < 0.5 else 6)
            with spark_sched.job(self._spark, name, **mark):
                query = (
                    self._spark.readStream.format("rate-micro-batch")
                    .options(rowsPerBatch=ROWS, numPartitions=3, startTimestamp=0)
                    .load()
                    .writeStream.foreachBatch(self._keep)
                    .option("checkpointLocation", str(self._shared.folder / name))
                    .trigger(processingTime=f"{max(1, int(3 * self._shared.pace))} seconds")
                    .start()
                )
                try:
                    while query.isActive and len(self._sink) < batches:
                        time.sleep(0.2)
                    time.sleep(self._random.uniform(0.0, 1.0))
                finally:
                    problem = query.exception()
                    query.stop()
            if problem is not None:
                raise problem
        expect(sorted(self._sink), list(range(len(self._sink))))
        for batch, found in self._sink.items():
            rows = range(batch * ROWS, (batch + 1) * ROWS)
            expect(found, (len(rows), sum(rows)))

    def _keep(self, rows: DataFrame, batch: int) -> None:
        """Count the rows of a batch and add them up, and keep both by its number."""
        longest_s = 1.5 * self._shared.pace

        def slow(values: Iterator[Any]) -> Iterator[Any]:
            time.sleep(longest_s)
            return values

        pairs = rows.rdd.mapPartitions(slow).flatMap(lambda row: (("rows", 1), ("sum", row.value)))
        found = dict(pairs.reduceByKey(operator.add, 2).collect())
        kept = (found["rows"], found["sum"])
        if self._sink.get(batch, kept) != kept:
            raise WrongResultError(f"batch {batch} was {self._sink[batch]} and is {kept} when it runs again")
        self._sink[batch] = kept
