"""Workloads by name: parameters, what runs them, and how long their tasks take where that is known.

Names and parameters are SparkBench's; those that are not are marked "not SparkBench's" in their docs. A new
workload is one entry here and one function of a module of this package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_sched_lab.runs.workloads.sleeping import (
    DISTRIBUTIONS,
    SLEEPS_PER_TASK,
    sleep_problem,
    sleep_stages,
    think_ms,
    timedsleep_stages,
)
from spark_sched_lab.runs.workloads.storage import slow_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Parameters = Mapping[str, Any]
#: Tasks' durations in ms per stage; one stage follows the other.
Stages = list[list[int]]


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type is that of ``kind``; ``default`` None means that it may be absent."""

    name: str
    kind: type
    default: Any
    doc: str
    least: float | None = None
    most: float | None = None
    required: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """One workload.

    Attributes:
        name: as in suite files.
        doc: one sentence.
        parameters: all that it reads.
        function: ``module:function``, called with (session, parameters, seed); it returns numbers that depend
            on these alone.
        stages: (parameters, seed) to its tasks' durations; None where they are not known before it runs.
        aliases: further names of SparkBench for it.
        problem: a clause that says what is wrong with the parameters together, or None.
        pause: (parameters, seed) to the time in ms that it takes in the driver, without a task.
        with_input: defaults that replace its parameters' own where ``input`` is given.
        libraries: modules that the function imports only when it runs; `prepare` imports them before.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    function: str
    stages: Callable[[Parameters, int], Stages | None] = lambda parameters, seed: None
    problem: Callable[[Parameters], str | None] = lambda parameters: None
    aliases: tuple[str, ...] = ()
    with_input: Parameters = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    pause: Callable[[Parameters, int], int] | None = None

    def prepare(self) -> None:
        """Import what it runs. To be called before threads that run programs start, and before any clock.

        MLlib's modules import each other in a circle: of two threads that import them for the first time at
        once, one may find a half-initialised module.
        """
        for module in (self.function.partition(":")[0], *self.libraries):
            importlib.import_module(module)

    def run(self, spark: SparkSession, parameters: Parameters, seed: int) -> tuple[float, ...]:
        """Run it in this thread's job. Its module is imported only here."""
        module, _, function = self.function.partition(":")
        found: Callable[..., tuple[float, ...]] = getattr(importlib.import_module(module), function)
        return found(spark, parameters, seed)


#: No task lasts longer.
_DAY_S = 86_400
_DAY_MS = 1_000 * _DAY_S


def _read_s(name: str, which: str, default: float) -> Parameter:
    doc = f"{which} time to read a partition (not SparkBench's)"
    return Parameter(name, float, default, doc, least=0.0, most=_DAY_S)


_SLOW = (
    Parameter("partitions", int, 8, "partitions of the input: the job's parallelism", least=1),
    _read_s("min_read_s", "shortest", 0.8),
    _read_s("max_read_s", "longest", 1.2),
    Parameter("rows", int, 100, "rows per partition", least=1),
)


def _read_times(parameters: Parameters, seed: int) -> Stages | None:
    if parameters.get("input") is not None:
        return None
    storage = slow_storage(parameters, seed)
    times_ms = [max(1, round(1000 * float(s))) for s in storage.read_times_s()]
    return [times_ms] * int(parameters["maxiterations"])


def _read_problem(parameters: Parameters) -> str | None:
    if parameters.get("input") is None and parameters["maxiterations"] < 2:
        return "maxiterations is 1 but must be 2 or more without an input"
    if parameters["max_read_s"] < parameters["min_read_s"]:
        return "max_read_s is below min_read_s"
    return None


def _slow(
    name: str,
    doc: str,
    module: str,
    *more: Parameter,
    libraries: tuple[str, ...] = (),
    with_input: Parameters | None = None,
) -> Program:
    iterations = Parameter("maxiterations", int, 6, "passes over the input", least=1)
    seed = Parameter("seed", int, None, "makes the data, instead of the run's own seed", least=0)
    return Program(
        name,
        f"{doc} Without `input` it reads slow storage again in each iteration.",
        (iterations, seed, *_SLOW, *more),
        f"spark_sched_lab.runs.workloads.{module}:run_{name}",
        _read_times,
        _read_problem,
        with_input=with_input or {},
        libraries=libraries,
    )


_SLEEP = Program(
    "sleep",
    "Tasks that sleep inside the JVM, for a fixed or a random time each.",
    (
        Parameter("sleepms", int, None, "how long each task sleeps, in ms", least=1, most=_DAY_MS),
        Parameter("distribution", str, None, "draws each task's time instead", options=DISTRIBUTIONS),
        Parameter("min", float, 0.0, "uniform: least ms; pareto: scale in ms", least=0.0, most=_DAY_MS),
        Parameter(
            "max", float, None, "uniform: most ms; others: longer times are cut here", least=1.0, most=_DAY_MS
        ),
        Parameter("mean", float, None, "gaussian, poisson, exponential: mean in ms", least=0.0, most=_DAY_MS),
        Parameter("std", float, None, "gaussian: standard deviation in ms", least=0.0, most=_DAY_MS),
        Parameter("alpha", float, 1.6, "pareto: shape (not SparkBench's)", least=1.01),
        Parameter("stages", int, 1, "stages, one after the other (not SparkBench's)", least=1),
        Parameter("tasks", int, 1, "tasks of each stage (not SparkBench's)", least=1),
    ),
    "spark_sched_lab.runs.workloads.sleeping:run_sleep",
    sleep_stages,
    sleep_problem,
)

_THINK = Program(
    "think",
    "The driver sleeps for a fixed or a random time, without a task: a user who thinks. SparkBench's sleep.",
    tuple(parameter for parameter in _SLEEP.parameters if parameter.name not in ("stages", "tasks")),
    "spark_sched_lab.runs.workloads.sleeping:run_think",
    problem=sleep_problem,
    pause=think_ms,
)

_TIMEDSLEEP = Program(
    "timedsleep",
    f"A map stage whose tasks sleep {SLEEPS_PER_TASK} times each, and a short reduce stage.",
    (
        Parameter("partitions", int, 48, "tasks of each stage", least=1),
        Parameter(
            "sleepms", int, 12_000, "one sleep of a task, in ms", least=1, most=_DAY_MS // SLEEPS_PER_TASK
        ),
    ),
    "spark_sched_lab.runs.workloads.sleeping:run_timedsleep",
    timedsleep_stages,
)

_INPUT = Parameter("input", str, None, "data set, Parquet or CSV", required=True)
_OWN_INPUT = Parameter("input", str, None, "data set instead of slow storage")
_OUTPUT = Parameter("output", str, None, "data set to write, Parquet or CSV", required=True)
_SAVE = Parameter(
    "save-mode",
    str,
    "errorifexists",
    "what to do where the output exists",
    options=("errorifexists", "error", "ignore", "overwrite"),
)
_ROWS = Parameter("rows", int, None, "rows", least=1, required=True)
_COLS = Parameter("cols", int, None, "columns", least=1, required=True)
_TABLES = Parameter("input", str, None, "folder of the tables", required=True)
_NEW_TABLES = (
    Parameter("scale", float, 0.1, "scale factor: GB of raw data", least=0.001),
    Parameter("output", str, None, "folder on this machine", required=True),
    _SAVE,
)
_CODE = "spark_sched_lab.runs.workloads.sparkbench:run_"

_PROGRAMS = (
    _slow(
        "kmeans",
        "MLlib's KMeans.",
        "sparkbench",
        Parameter("k", int, 4, "clusters", least=1),
        _OWN_INPUT,
        libraries=("pyspark.ml", "pyspark.mllib.clustering"),
        with_input={"k": 2, "maxiterations": 2, "seed": 127},
    ),
    _slow(
        "svm",
        "MLlib's linear SVM by gradient descent.",
        "foreground",
        libraries=("pyspark.mllib.regression",),
    ),
    _slow("pagerank", "PageRank over RDDs.", "sparkbench", _OWN_INPUT),
    _SLEEP,
    _THINK,
    _TIMEDSLEEP,
    Program(
        "logistic-regression",
        "MLlib's logistic regression of the column `label`.",
        (
            _INPUT,
            Parameter("testfile", str, None, "data set of the test", required=True),
            Parameter("numpartitions", int, 32, "partitions", least=1),
            Parameter("cacheenabled", bool, False, "cache both data sets"),
            Parameter("maxiterations", int, 100, "iterations (not SparkBench's)", least=1),
        ),
        _CODE + "logistic_regression",
        aliases=("lr-bml",),
        libraries=("pyspark.ml",),
    ),
    Program(
        "sql",
        "A query over the table `input`.",
        (
            _INPUT,
            Parameter("query", str, None, "SQL over the table `input`", required=True),
            Parameter("output", str, None, "where its rows go"),
            Parameter("partitions", int, None, "partitions of the output", least=1),
            _SAVE,
            Parameter("cache", bool, False, "cache the input"),
        ),
        _CODE + "sql",
    ),
    Program(
        "sparkpi",
        "π from random points.",
        (Parameter("slices", int, 2, "tasks", least=1),),
        _CODE + "sparkpi",
    ),
    Program(
        "cachetest",
        "Counts its input without and with a cache.",
        (_INPUT, Parameter("sleepms", int, 1000, "pause between counts, in ms", least=0, most=_DAY_MS)),
        _CODE + "cachetest",
    ),
    Program(
        "terasort",
        "Sorts random keys with 90 bytes each (not SparkBench's).",
        (_ROWS, Parameter("partitions", int, 8, "partitions", least=1)),
        _CODE + "sort",
    ),
    Program(
        "data-generation-kmeans",
        "Writes points around random centres.",
        (
            _ROWS,
            _COLS,
            _OUTPUT,
            _SAVE,
            Parameter("k", int, 2, "centres", least=1),
            Parameter("scaling", float, 0.6, "standard deviation around a centre", least=1e-6),
            Parameter("partitions", int, 2, "partitions", least=1),
        ),
        _CODE + "generate_kmeans",
    ),
    Program(
        "data-generation-lr",
        "Writes rows with a label that depends linearly on them.",
        (
            _ROWS,
            _COLS,
            _OUTPUT,
            _SAVE,
            Parameter("eps", float, 2.0, "weight of the noise", least=0.0),
            Parameter("intercepts", float, 0.1, "intercept"),
            Parameter("partitions", int, 10, "partitions", least=1),
        ),
        _CODE + "generate_lr",
    ),
    Program(
        "graph-data-generator",
        "Writes a graph with log-normal out-degrees, a line per edge.",
        (
            Parameter("vertices", int, None, "vertices", least=1, required=True),
            Parameter("output", str, None, "text file to write", required=True),
            _SAVE,
            Parameter("mu", float, 4.0, "mean of the logarithm of out-degrees"),
            Parameter("sigma", float, 1.3, "its standard deviation", least=0.0),
            Parameter("seed", int, None, "makes the graph, instead of the run's own seed", least=-1),
            Parameter("partitions", int, 0, "partitions; 0: as many as slots", least=0),
        ),
        _CODE + "generate_graph",
    ),
    Program(
        "data-generation-tpch",
        "Writes the tables of TPC-H by tpcgen-cli (not SparkBench's).",
        _NEW_TABLES,
        "spark_sched_lab.runs.workloads.tpch:run_generate_tpch",
    ),
    Program(
        "tpch",
        "A query of TPC-H (not SparkBench's).",
        (
            _TABLES,
            Parameter("query", int, None, "number of the query, 1 to 22", least=1, required=True),
        ),
        "spark_sched_lab.runs.workloads.tpch:run_tpch",
        problem=lambda given: (
            None if given["query"] <= 22 else f"query is {given['query']} but must be 1 to 22"
        ),
    ),
    Program(
        "data-generation-tpcds",
        "Writes the tables of TPC-DS by tpcgen-cli (not SparkBench's).",
        _NEW_TABLES,
        "spark_sched_lab.runs.workloads.tpcds:run_generate_tpcds",
    ),
    Program(
        "tpcds",
        "A query of TPC-DS from a file (not SparkBench's).",
        (
            _TABLES,
            Parameter("queries", str, None, "folder of the queries' files", required=True),
            Parameter("query", str, None, "name of the file, without .sql", required=True),
        ),
        "spark_sched_lab.runs.workloads.tpcds:run_tpcds",
    ),
)
PROGRAMS: dict[str, Program] = {
    name: program for program in _PROGRAMS for name in (program.name, *program.aliases)
}
