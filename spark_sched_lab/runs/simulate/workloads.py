"""The parts of an experiment's workload: a trace, a generator, or jobs of stages written out."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched_lab.engine.workload import JobSpec, MarkChange, StageSpec, longest_path_ms, pareto_sampler
from spark_sched_lab.runs.simulate.fields import KINDS, Fields
from spark_sched_lab.runs.simulate.from_trace import jobs_of_trace, with_deadlines_moved
from spark_sched_lab.traces import open_trace
from spark_sched_lab.traces.generators import GENERATORS
from spark_sched_lab.traces.readers.spark_eventlog import SparkEventLogReader
from spark_sched_lab.whatif.changes import read_changes, repeatable

#: Makes the part's jobs, the first at about 0.
Maker = Callable[[np.random.Generator, "Counter[str]"], Iterable[JobSpec]]


@dataclass(frozen=True)
class Part:
    """Jobs from one source; marks of the experiment override those of the source."""

    name: str
    make: Maker
    marks: dict[str, Any]
    offset_ms: int
    limit: int | None

    def jobs(self, seed: tuple[int, int], left_out: Counter[str]) -> list[JobSpec]:
        """Its jobs for a seed; keys begin with the part's name, so that parts never share one."""
        made: list[JobSpec] = []
        laid_over = {mark: value for mark, value in self.marks.items() if mark in ("priority", "isolation")}
        for job in self.make(np.random.default_rng(seed), left_out):
            if self.limit is not None and len(made) >= self.limit:
                break
            moved = with_deadlines_moved(job, self.offset_ms)
            moved = replace(
                moved,
                key=f"{self.name}-{job.key}",
                submit_ms=job.submit_ms + self.offset_ms,
                # The experiment's marks, whatever operators gave the job.
                changes=tuple(replace(change, **laid_over) for change in moved.changes),
            )
            made.append(replace(moved, **self.marks))
        return made


def read_part(fields: Fields, folder: Path) -> Part:
    """One ``[[workload]]`` table; paths are relative to ``folder``."""
    sources = [key for key in ("trace", "generator", "stages") if fields.has(key)]
    if len(sources) != 1:
        raise BadInputError(
            f"{fields.file}: {fields.where} has {' and '.join(sources) or 'no source'} but must have one of "
            "trace, generator and stages"
        )
    make = {"trace": _trace, "generator": _generator, "stages": _stages}[sources[0]](fields, folder)
    marks: dict[str, Any] = {}
    for key, kind, attribute in (
        ("priority", int, "priority"),
        ("class", str, "job_class"),
        ("user", str, "user"),
        ("isolation", float, "isolation"),
        ("copies", bool, "copies"),
        ("marked", bool, "marked"),
        ("dag_known", bool, "dag_known"),
    ):
        if fields.has(key):
            marks[attribute] = fields.need(key, kind, KINDS[kind])
    if "dag_known" in marks:
        marks["dag_known"] = "to the end" if marks["dag_known"] else "nothing"
    if not 0.0 <= marks.get("isolation", 0.0) <= 1.0:
        raise fields.wrong("isolation", marks["isolation"], "a number from 0 to 1")
    part = Part(
        name=fields.text("name", fields.where.replace("workload", "w").replace("[", "").replace("]", "")),
        make=make,
        marks=marks,
        offset_ms=fields.time_ms("offset", 0),
        limit=fields.whole("limit", 0, least=1) if fields.has("limit") else None,
    )
    fields.done()
    return part


def _trace(fields: Fields, folder: Path) -> Maker:
    path = folder / fields.need("trace", str, "the path of a trace or event log, in quotes")
    format = fields.text("format", "") or None
    if not path.exists():
        raise fields.wrong("trace", str(path), "the path of an existing trace or event log")

    def make(rng: np.random.Generator, left_out: Counter[str]) -> list[JobSpec]:
        reader = open_trace(path, format)
        changes = None
        if isinstance(reader, SparkEventLogReader):
            changes = partial(_operators_changes, reader, left_out)
        jobs = jobs_of_trace(reader.chunks(), left_out, changes)
        if reader.report.bad_rows:
            left_out["bad rows of the trace"] += reader.report.bad_rows
        # Rows that the reader skipped never became jobs: without this an empty result had no reason.
        left_out.update(reader.report.notes)
        return jobs

    return make


def _operators_changes(
    reader: SparkEventLogReader, left_out: Counter[str], submitted_ms: Mapping[str, int]
) -> Mapping[str, tuple[MarkChange, ...]]:
    """What operators changed of jobs' marks while the log was written, as `whatif` repeats it."""
    if not reader.measured.events:
        return {}
    changes = tuple(read_changes(reader.files()))
    marks, _, others = repeatable(changes, submitted_ms, reader.meta.origin_epoch_ms or 0)
    if others:
        left_out["changes by operators, which are not repeated"] += len(others)
    return marks


def _generator(fields: Fields, folder: Path) -> Maker:
    name = fields.choice("generator", GENERATORS, "")
    function = GENERATORS[name]
    parameters = fields.table("parameters")
    takes = [key for key in inspect.signature(function).parameters if key not in ("rng", "classes", "source")]
    given = parameters.rest()
    for key, value in given.items():
        if key not in takes:
            raise BadInputError(
                f"{fields.file}: {parameters.name(key)} is {value!r} but {name} has no such parameter: "
                f"use {', '.join(takes)}"
            )

    def make(rng: np.random.Generator, left_out: Counter[str]) -> list[JobSpec]:
        try:
            trace = function(rng, **given)
        except (TypeError, BadInputError) as error:
            raise BadInputError(f"{fields.file}: {parameters.where}: {error}") from None
        return jobs_of_trace(trace.chunks(), left_out)

    return make


def _stages(fields: Fields, folder: Path) -> Maker:
    """Jobs of the same stages, written out: Pareto task times, or constant ones without ``alpha``."""
    count = fields.whole("jobs", 1, least=1)
    name = fields.text("name", "")
    gap_ms = fields.time_ms("gap", 0)
    poisson = fields.choice("arrivals", ("poisson", "regular"), "poisson") == "poisson"
    slack = fields.number("slack", 0.0) if fields.has("slack") else None
    stages = []
    for number, table in enumerate(fields.tables("stages")):
        mean_ms = table.time_ms("mean", 1_000)
        alpha = table.number("alpha", 1.6, least=1.01) if table.has("alpha") else None
        parents = table.get("parents", list, [number - 1] if number else [], "a list of stage numbers")
        if not all(type(parent) is int and 0 <= parent < number for parent in parents):
            raise table.wrong("parents", parents, f"a list of whole numbers from 0 to {number - 1}")
        tasks = table.whole("tasks", 1, least=1)
        stages.append(
            (tasks, mean_ms, alpha, tuple(parents), table.time_ms("delay", 0), table.flag("gang", False))
        )
        table.done()
    if not stages:
        raise fields.wrong(
            "stages", [], 'one or more tables such as { tasks = 20, mean = "2s", alpha = 1.6 }'
        )

    def make(rng: np.random.Generator, left_out: Counter[str]) -> Iterable[JobSpec]:
        at_ms = 0.0
        for number in range(count):
            if number and gap_ms:
                at_ms += rng.exponential(gap_ms) if poisson else gap_ms
            specs: list[StageSpec] = []
            for tasks, mean_ms, alpha, parents, delay_ms, gang in stages:
                draw = None if alpha is None else pareto_sampler(alpha, mean_ms * (alpha - 1.0) / alpha)
                durations = [mean_ms] * tasks if draw is None else draw(rng, tasks)
                specs.append(
                    StageSpec(
                        durations, parents, delay_ms, f"stage {len(specs)}", gang, copy_duration_ms=draw
                    )
                )
            submit_ms = round(at_ms)
            alone_ms = longest_path_ms(specs)
            deadline_ms = None if slack is None else submit_ms + round(alone_ms * (1.0 + slack))
            yield JobSpec(str(number), submit_ms, tuple(specs), name, deadline_ms=deadline_ms)

    return make
