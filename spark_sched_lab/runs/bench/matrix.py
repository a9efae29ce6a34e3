"""Workload tables of suite files: one table with lists is a matrix of jobs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched_lab.engine.workload import StageSpec
from spark_sched_lab.runs.simulate.fields import KINDS, Fields
from spark_sched_lab.runs.workloads.programs import PROGRAMS, Parameter, Program

#: The time that Spark's driver needs between two actions of a program.
_BETWEEN_ACTIONS_MS = 100


@dataclass(frozen=True)
class WorkloadJob:
    """One job of a suite.

    Attributes:
        label: the workload's name, with the parameters that distinguish it from others of its table.
        program: its entry among `PROGRAMS`.
        parameters: every parameter of the program, by name; None if it is absent.
        marks: the other keys of the table about the job (user, priority, …).
    """

    label: str
    program: Program
    parameters: Mapping[str, Any]
    marks: Mapping[str, Any]


def read_workload(fields: Fields, marks: tuple[Parameter, ...] = ()) -> list[WorkloadJob]:
    """The jobs of one table, in the order of its lists, the last list fastest.

    Parameters' names are compared without case, as SparkBench does. ``marks`` are further keys that a table
    may have. Raises BadInputError for an unknown workload, an unknown parameter or a wrong value.
    """
    raw = {key if key in ("name", "label") else key.casefold(): v for key, v in fields.rest().items()}
    if len(raw) < len(fields.rest()):
        raise BadInputError(
            f"{fields.file}: {fields.where} sets a parameter twice, in different case: keep one"
        )
    table = Fields(fields.file, fields.where, raw)
    program = _program(table)
    label = table.text("label", raw["name"])
    lists = {key: value for key, value in raw.items() if isinstance(value, list)}
    for key, values in lists.items():
        if not values:
            raise table.wrong(key, values, "a value or a list of at least one")
    jobs = []
    for picked in itertools.product(*lists.values()):
        chosen = dict(zip(lists, picked, strict=True))
        row = Fields(fields.file, fields.where, {**raw, **chosen})
        for key in ("name", "label"):
            row.has(key)
        defaults = program.with_input if "input" in raw else {}
        parameters = {p.name: _value(row, p, defaults.get(p.name, p.default)) for p in program.parameters}
        marked = {p.name: _value(row, p, p.default) for p in marks}
        row.done()
        problem = program.problem(parameters)
        if problem is not None:
            raise BadInputError(f"{fields.file}: {fields.where} ({program.name}): {problem}")
        names = [label, *(f"{key}={value}" for key, value in chosen.items() if len(lists[key]) > 1)]
        jobs.append(WorkloadJob(" ".join(names), program, parameters, marked))
    return jobs


def _program(table: Fields) -> Program:
    name = table.need("name", str, f"one of {', '.join(PROGRAMS)}")
    if name not in PROGRAMS:
        raise BadInputError(
            f"{table.file}: {table.name('name')}: unknown workload {name!r}{did_you_mean(name, PROGRAMS)}: "
            f"use one of {', '.join(PROGRAMS)}"
        )
    return PROGRAMS[name]


def _value(table: Fields, parameter: Parameter, default: Any) -> Any:
    wanted, limits = KINDS[parameter.kind], {}
    if parameter.least is not None:
        wanted, limits["least"] = f"{wanted} from {parameter.least:.10g}", parameter.least
    if parameter.most is not None:
        wanted, limits["most"] = f"{wanted} to {parameter.most:.10g}", parameter.most
    if not table.has(parameter.name):
        if parameter.required:
            table.need(parameter.name, parameter.kind, f"{wanted}: {parameter.doc}")
        return default
    if parameter.options:
        return table.choice(parameter.name, parameter.options, "")
    return table.need(parameter.name, parameter.kind, wanted, **limits)


def simulated_stages(job: WorkloadJob, seed: int) -> tuple[StageSpec, ...]:
    """A job's stages, one after the other, each an action of its own.

    Raises BadInputError for a workload whose durations are not known before it runs.
    """
    if job.program.pause is not None:
        # The simulator's jobs have tasks: one of 1 ms ends the pause.
        return (StageSpec((1,), delay_ms=job.program.pause(job.parameters, seed), name="end of the pause"),)
    times_ms = job.program.stages(job.parameters, seed)
    if times_ms is None:
        raise BadInputError(
            f"the workload {job.label!r} cannot be simulated, since its tasks' durations are not known: "
            "remove it, or run the suite without --simulate"
        )
    return tuple(
        StageSpec(
            stage_ms,
            parents=(number - 1,) if number else (),
            delay_ms=_BETWEEN_ACTIONS_MS if number else 0,
            name=f"stage {number}",
            part=number,
        )
        for number, stage_ms in enumerate(times_ms)
    )
