#!/usr/bin/env python3
"""The driver's scheduler at 1,000 executors of 16 slots, beside Spark's own in the same JVM.

    python benchmarks/driver_scale.py [--cell CELL …] [--executors N] [--rounds N] [--tasks N] [--quick]

The classes of the scheduler are the real ones, with a backend that has no executors (`benchmarks/scale`).
The benchmark makes the offers and ends the tasks. Figures are processor time of the calling thread. A cell
says how many task sets wait, how many jobs of a higher priority hold slots, and what plan is in force. Three
arms of each cell take turns in every round: Spark's scheduler, ours, and Spark's once more, the null arm. Per
round:

- a random task ends, ``--tasks`` times: its end is reported (``end``), its slot is offered (``offer``), and
  its result is read (``result``). ``asked`` counts the scheduler's requests for offers of all executors;
- all executors are offered while no task has ended (``round``), and after 16 ends (``burst``);
- our scheduler gets a plan (``plan``, and of another one the part under the lock, ``locked``) and makes the
  status document (``document``; ``copy`` is the part under the lock).

Printed are medians over rounds; ratios and differences are of the two arms of one round.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import click
from _common import publish, stderr
from rich.progress import Progress
from rich.table import Table

from spark_sched.attach.cache import build
from spark_sched.attach.spark import find_java, find_spark
from spark_sched.errors import BadInputError

_SOURCES = Path(__file__).parent / "scale"
_MAIN = "org.apache.spark.scheduler.sparksched.DriverScale"
_HEAP = "-Xmx4g"
#: Packages of the JVM that Spark opens to itself on Java 17.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "sun.nio.ch", "sun.security.action"),
)
_PLANS = ("none", "reservation", "3sigma", "slearn", "victims")
_OURS, _STOCK, _NULL = "ours", "stock", "null"


@dataclass(frozen=True)
class Cell:
    """What one measurement is of; see ``Arm.scala``."""

    executors: int
    task_sets: int
    holding: int
    plan: str = "none"
    mode: str = "FIFO"
    marked: bool = False
    deadline: str = "calibrated"

    @classmethod
    def parse(cls, text: str, executors: int) -> Cell:
        """``TASK_SETS,HOLDING[,PLAN[,MODE[,unmarked|marked[,DEADLINE]]]]``."""
        parts = text.split(",")
        try:
            if not 2 <= len(parts) <= 6:
                raise ValueError
            found = cls(executors, int(parts[0]), int(parts[1]))
        except ValueError:
            raise BadInputError(
                f"--cell {text!r} does not begin with two numbers: give TASK_SETS,HOLDING, as in 500,20"
            ) from None
        names = dict(zip(("plan", "mode", "marked", "deadline"), parts[2:], strict=False))
        allowed = {
            "plan": _PLANS,
            "mode": ("FIFO", "FAIR"),
            "marked": ("unmarked", "marked"),
            "deadline": ("calibrated", "pareto"),
        }
        for name, value in names.items():
            if value not in allowed[name]:
                raise BadInputError(
                    f"--cell {text!r} has the {name} {value!r}: use {' or '.join(allowed[name])}"
                )
        if found.task_sets < 1 or found.holding < 0:
            raise BadInputError(f"--cell {text!r} has no task set that waits: give at least 1,0")
        return replace(found, **{**names, "marked": names.get("marked") == "marked"})

    @property
    def argument(self) -> str:
        marked = "marked" if self.marked else "unmarked"
        parts = (self.executors, self.task_sets, self.holding, self.plan, self.mode, marked, self.deadline)
        return ",".join(map(str, parts))

    @property
    def title(self) -> str:
        parts = [f"{self.task_sets} task sets", f"{self.holding} holding"]
        parts += [self.plan] if self.plan != "none" else []
        parts += [self.mode] if self.mode != "FIFO" else []
        parts += [f"marked, {self.deadline}"] if self.marked else []
        return ", ".join(parts)


#: Of each cell its task sets, its holding jobs, and what differs from the default.
_FULL = (
    *("50,0", "500,0", "50,20", "500,20", "50,200", "500,200", "500,20,none,FAIR"),
    *("500,0,3sigma", "500,20,slearn", "500,0,none,FIFO,marked,pareto"),
    *("980,20,reservation", "980,20,3sigma", "980,20,victims"),
)
_QUICK = ("20,0", "20,5,slearn")


def check(cell: Cell, rows: Sequence[dict[str, Any]], end: dict[str, Any]) -> list[str]:
    """What was wrong with a cell. If nothing was, the arms did the same work, under the rules in question."""
    found = list(end["complaints"])
    done = end["ended"]
    if len(set(done.values())) != 1:
        found.append(f"the arms ended different numbers of tasks: {done}")
    times: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        times[row["operation"]][row["arm"]] += row["times"]
    for operation in ("end", "offer", "result", "round", "burst"):
        if len(set(times[operation].values())) != 1 or set(times[operation]) != {_OURS, _STOCK, _NULL}:
            found.append(f"the arms did {operation!r} different numbers of times: {dict(times[operation])}")
    if end["stock_running"] < 16 * cell.executors:
        found.append(f"no task waited any more: stock ran {end['stock_running']} at the end")
    if cell.plan != "none" and not times["plan"][_OURS]:
        found.append("no plan was given")
    return found


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By operation: median times in µs of the arms, ``over`` stock, ``ratio`` to it; of the null arm, too."""
    us: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["operation"] != "asked":
            us[row["operation"]][row["arm"]][row["round"]] = row["us"]
    found = {}
    for operation, arms in us.items():
        found[operation] = {f"{arm}_us": median(rounds.values()) for arm, rounds in arms.items()}
        for arm, prefix in ((_OURS, ""), (_NULL, "null_")):
            paired = [(us, arms[_STOCK][n]) for n, us in arms[arm].items() if n in arms.get(_STOCK, {})]
            if paired:
                found[operation][f"{prefix}over_us"] = median(ours - stock for ours, stock in paired)
                found[operation][f"{prefix}ratio"] = median(ours / max(stock, 1e-3) for ours, stock in paired)
    return found


@contextlib.contextmanager
def compiled() -> Iterator[str]:
    """The class path of the bridge and the benchmark's classes, which are compiled for this run."""
    spark = find_spark(None)
    bridge = build()
    jars = f"{spark.jars}{os.sep}*"
    with tempfile.TemporaryDirectory(prefix="spark-sched-scale-") as classes:
        stderr.print("compiling the benchmark …")
        command = [str(find_java()), "-Xss8m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars]
        command += ["scala.tools.nsc.Main", "-usejavacp", "-nobootcp", "-encoding", "UTF-8", "-d", classes]
        command += ["-cp", os.pathsep.join(map(str, (bridge, *sorted(spark.jars.glob("*.jar")))))]
        command += map(str, sorted(_SOURCES.glob("*.scala")))
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        yield os.pathsep.join((classes, str(bridge), jars))


def measure(
    cells: Sequence[Cell], rounds: int, tasks: int, log: Path
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Rows of each cell, and its last line. The first cell is measured twice: at first the JVM is cold."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    rows: list[list[dict[str, Any]]] = [[] for _ in cells]
    ends = []
    with compiled() as classes, log.open("wb") as said, Progress(console=stderr, transient=True) as progress:
        bar = progress.add_task("starting", total=(1 + len(cells)) * rounds)
        command = [str(find_java()), _HEAP, "-XX:+UseParallelGC", "-XX:ParallelGCThreads=2", *opened]
        command += ["-cp", classes, _MAIN, str(rounds), str(tasks)]
        command += [cell.argument for cell in (cells[0], *cells)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as jvm:
            assert jvm.stdout is not None
            for line in jvm.stdout:
                row = json.loads(line)
                number = row["cell"] - 1
                if number < 0:
                    progress.update(bar, description="warming up", completed=row.get("round", rounds))
                elif "operation" in row:
                    rows[number].append(row)
                    progress.update(
                        bar,
                        description=cells[number].title,
                        completed=(1 + number) * rounds + row["round"],
                    )
                else:
                    ends.append(row)
        if jvm.returncode or len(ends) != len(cells):
            tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
            raise click.ClickException(f"the JVM ended with status {jvm.returncode}:\n{tail}")
    return rows, ends


def table(found: Sequence[dict[str, Any]]) -> Table:
    made = Table("cell", "held", box=None)
    for head in (
        "task end, µs over stock",
        "offer × stock",
        "round × stock",
        "burst × stock",
        "plan ms",
        "of it locked",
        "document ms",
        "of it locked",
    ):
        made.add_column(head, justify="right")  # fmt: skip
    for each in found:
        of = each["operations"]

        def beside(operation: str, key: str, digits: int, of: dict[str, dict[str, float]] = of) -> str:
            null = of[operation][f"null_{key}"]
            return f"{of[operation][key]:.{digits}f} ({null:.{digits}f})"

        made.add_row(
            each["title"], str(each["held"]), beside("end", "over_us", 1), beside("offer", "ratio", 2),
            beside("round", "ratio", 2), beside("burst", "ratio", 2),
            f"{of['plan']['ours_us'] / 1e3:.2f}" if "plan" in of else "",
            f"{of['locked']['ours_us'] / 1e3:.2f}" if "plan" in of else "",
            f"{of['document']['ours_us'] / 1e3:.2f}", f"{of['copy']['ours_us'] / 1e3:.2f}",
        )  # fmt: skip
    return made


@click.command(help=__doc__)
@click.option("--executors", default=1000, help="Executors of 16 slots.", show_default=True)
@click.option("--rounds", default=9, help="Rounds of each cell.", show_default=True)
@click.option("--tasks", default=300, help="Tasks that end in a round.", show_default=True)
@click.option("--cell", "texts", multiple=True, help="TASK_SETS,HOLDING[,PLAN[,MODE[,marked[,DEADLINE]]]]")
@click.option("--quick", is_flag=True, help="Two cells of 20 executors, three rounds.")
@click.option("--json", "json_output", is_flag=True, help="One JSON document on standard output.")
def main(
    executors: int, rounds: int, tasks: int, texts: tuple[str, ...], quick: bool, json_output: bool
) -> None:
    if quick:
        executors, rounds, tasks = 20, 3, 100
    try:
        cells = [Cell.parse(text, executors) for text in texts or (_QUICK if quick else _FULL)]
    except BadInputError as error:
        raise click.UsageError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="spark-sched-scale-") as scratch:
        rows, ends = measure(cells, rounds, tasks, Path(scratch) / "log")
    wrong = [
        f"{cell.title}: {sentence}"
        for cell, each, end in zip(cells, rows, ends, strict=True)
        for sentence in check(cell, each, end)
    ]
    if wrong:
        raise click.ClickException("the measurement is not valid: " + "; ".join(wrong))
    found = [
        {
            "title": cell.title,
            "cell": cell.argument,
            "slots": 16 * cell.executors,
            "running": end["running"],
            "held": end["held"],
            "asked": sum(row["times"] for row in each if row["operation"] == "asked" and row["arm"] == _OURS),
            "operations": figures(each),
        }
        for cell, each, end in zip(cells, rows, ends, strict=True)
    ]
    if not json_output:
        stderr.print("in brackets: Spark's own scheduler, measured against itself")
        from rich.console import Console

        Console(width=160).print(table(found))
    publish({"runs": rounds, "tasks": tasks, "cells": found}, [], json_output)


if __name__ == "__main__":
    main()
