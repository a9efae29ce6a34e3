"""``spark-sched trace``: statistics, generation and conversion of workloads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.common import echo_json, format_option, needing, seed_option
from spark_sched.errors import BadInputError
from spark_sched_lab.cli.trace_evictions import evictions
from spark_sched_lab.cli.trace_input import reading, say_report
from spark_sched_lab.cli.trace_priorities import priorities

if TYPE_CHECKING:
    from spark_sched_lab.traces import Trace

_PATH = click.Path(path_type=Path)
_EXECUTORS = click.option(
    "--executors", type=int, metavar="N", help="tpch_profiles: use the durations measured with N executors."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_SEED = seed_option("bytes")


@click.group("trace")
def command() -> None:
    """Read, generate and measure workloads.

    Inputs are public traces (Google 2011 and 2019, Alibaba 2018, SWF, SWIM, Hawk, stage profiles), Spark
    event logs (plain or compressed, rolling directories) and this command's own Parquet files.
    docs/reference/traces.md lists the columns.

    \b
    Examples:
      spark-sched trace stats eventlog_v2_app-20260101-0001/
      spark-sched trace convert SDSC-BLUE-2000-4.2-cln.swf.gz blue.parquet
      spark-sched trace generate e2e e2e.parquet --seed 1
      spark-sched trace evictions google2011/
      spark-sched trace priorities google2011/ --setting S11
    """


command.add_command(evictions)
command.add_command(priorities)


@command.command("stats")
@click.argument("path", type=_PATH)
@format_option
@_EXECUTORS
@_JSON
def stats(path: Path, format_: str | None, executors: int | None, as_json: bool) -> None:
    """Print the statistics of a trace that the papers use: runtimes, variation, bursts, tail shapes.

    \b
    Examples:
      spark-sched trace stats google2011/
      spark-sched trace stats --json GOOG_subtrace.tr
    """
    _need_pyarrow()
    from spark_sched_lab.traces.stats import trace_stats

    with reading(path, format_, executors) as reader:
        found = trace_stats(reader.chunks())
    document = {
        "path": str(path),
        "format": reader.format,
        "notes": list(reader.meta.notes),
        "machines": len(reader.meta.machines),
        "stats": found,
        "measured": _measured(reader.meta.parameters),
        "report": reader.report.to_dict(),
    }
    if as_json:
        echo_json(document)
    else:
        from spark_sched_lab.cli.trace_tables import print_stats

        print_stats(document)
    say_report(reader.report)


def _measured(parameters: dict[str, Any]) -> dict[str, Any] | None:
    """Slot-seconds that the scheduler measured and wrote into an event log; None where it wrote none."""
    from spark_sched_lab.traces.readers.spark_measured import KINDS, Measured

    found = Measured.of_parameters(parameters.get("measured"))
    if found is None:
        return None
    return {f"{kind}_slot_s": found.total_ms(kind) / 1000 for kind in KINDS} | {"complete": found.complete}


@command.command("convert")
@click.argument("source", metavar="IN", type=_PATH)
@click.argument("out", type=_PATH)
@format_option
@_EXECUTORS
@_JSON
def convert(source: Path, out: Path, format_: str | None, executors: int | None, as_json: bool) -> None:
    """Write IN as one Parquet file OUT, in bounded memory. OUT is written completely or not at all.

    \b
    Example:
      spark-sched trace convert google2011/ google2011.parquet
    """
    _need_pyarrow()
    from spark_sched_lab.traces.parquet_io import write_chunks

    _check_out(out, source)
    with reading(source, format_, executors) as reader:
        jobs = write_chunks(reader.chunks(), out, lambda: reader.meta)
    if as_json:
        echo_json(
            {"path": str(out), "jobs": jobs, "format": reader.format, "report": reader.report.to_dict()}
        )
    else:
        click.echo(f"{out}: {jobs:,} jobs from {reader.title}")
    say_report(reader.report)


@command.group("generate")
def generate() -> None:
    """Generate a workload and write it as Parquet. docs/reference/traces.md has the distributions."""


@generate.command("e2e")
@click.argument("out", type=_PATH)
@_SEED
@click.option("--nodes", default=256, show_default=True, help="One-slot nodes of the cluster.")
@click.option("--hours", default=5.0, show_default=True, help="Length of the workload.")
@click.option(
    "--load", default=1.4, show_default=True, help="Offered work divided by the cluster's capacity."
)
@click.option("--slo-share", default=0.5, show_default=True, help="Share of that work with deadlines.")
@click.option(
    "--slack",
    "slacks",
    type=float,
    multiple=True,
    help="Deadline slack, repeatable.  [default: 0.2 0.4 0.6 0.8]",
)
@click.option("--c2", default=4.0, show_default=True, help="Squared coefficient of variation of the gaps.")
@click.option("--partitions", default=8, show_default=True, help="Equal partitions of the cluster.")
@click.option(
    "--preferred-share",
    default=0.75,
    show_default=True,
    help="Share of the partitions that an SLO job prefers.",
)
@click.option(
    "--elsewhere-factor",
    default=1.5,
    show_default=True,
    help="Runtime of an SLO job elsewhere, divided by its runtime on preferred partitions.",
)
@click.option("--classes-from", type=_PATH, help="Fit the job classes to this trace (default: Google 2011).")
@_JSON
def generate_e2e(
    out: Path,
    seed: int,
    slacks: tuple[float, ...],
    classes_from: Path | None,
    as_json: bool,
    **parameters: Any,
) -> None:
    """3Sigma's E2E workload: SLO and best-effort jobs with bursty arrivals at a given load (§5)."""
    _need_pyarrow()
    from spark_sched_lab.traces.generators import e2e
    from spark_sched_lab.traces.generators.classes import fit_classes

    if slacks:
        parameters["slacks"] = slacks
    if classes_from is not None:
        parameters["classes"] = fit_classes(_whole(classes_from))
    _write(out, seed, as_json, lambda rng: e2e(rng, **parameters))


@generate.command("thesis")
@click.argument("out", type=_PATH)
@_SEED
@click.option("--workload", default="W-D", show_default=True, help="W-B, W-C (with --source), W-D or W-E.")
@click.option("--low", is_flag=True, help="The variant with 25 % less load.")
@click.option("--hours", default=15.0, show_default=True, help="Length of the workload.")
@click.option("--source", type=_PATH, help="W-B, W-C: the trace whose tasks are sampled (google2011).")
@_JSON
def generate_thesis(
    out: Path, seed: int, workload: str, low: bool, hours: float, source: Path | None, as_json: bool
) -> None:
    """The thesis' workloads W-B to W-E: one-task jobs with priorities, in bursts (tables 9.2, 9.4)."""
    _need_pyarrow()
    from spark_sched_lab.traces.generators import thesis_workload

    real = _whole(source) if source is not None else None
    _write(
        out,
        seed,
        as_json,
        lambda rng: thesis_workload(rng, workload=workload, low=low, hours=hours, source=real),
    )


@generate.command("pareto")
@click.argument("out", type=_PATH)
@_SEED
@click.option("--jobs", default=100, show_default=True)
@click.option("--stages", default=4, show_default=True, help="Stages of a job, one after the other.")
@click.option("--tasks", default=20, show_default=True, help="Tasks of a stage.")
@click.option("--mean-task-s", default=10.0, show_default=True, help="Mean duration of a task.")
@click.option("--alpha", default=1.6, show_default=True, help="Pareto shape, above 1.")
@click.option("--mean-gap-s", default=60.0, show_default=True, help="Mean gap between arrivals (Poisson).")
@click.option("--priority", default=0, show_default=True, help="Priority of all jobs.")
@_JSON
def generate_pareto(out: Path, seed: int, as_json: bool, **parameters: Any) -> None:
    """Chains of stages with Pareto task durations (slot-reservation paper)."""
    _need_pyarrow()
    from spark_sched_lab.traces.generators import pareto_jobs

    _write(out, seed, as_json, lambda rng: pareto_jobs(rng, **parameters))


@generate.command("recurring")
@click.argument("out", type=_PATH)
@_SEED
@click.option(
    "--like", default="google2011", show_default=True, help="2sigma, google2011, google2019 or mix."
)
@click.option("--jobs", default=1250, show_default=True, help="Jobs that make up the load.")
@click.option("--history", default=2500, show_default=True, help="Earlier jobs, as history.")
@click.option("--slots", default=150, show_default=True, help="Slots that the load refers to.")
@click.option("--programs", default=60, show_default=True, help="Recurring programs.")
@click.option("--dag", is_flag=True, help="Jobs are chains of 2 to 5 stages (§6).")
@click.option(
    "--updated",
    type=float,
    help="Share of programs that change permanently after history.  [default: 0.2 for google2011, else 0]",
)
@_JSON
def generate_recurring(out: Path, seed: int, as_json: bool, **parameters: Any) -> None:
    """Recurring programs whose runs and tasks vary as in SLearn's traces (table 4)."""
    _need_pyarrow()
    from spark_sched_lab.traces.generators import recurring

    _write(out, seed, as_json, lambda rng: recurring(rng, **parameters))


def _write(out: Path, seed: int, as_json: bool, make: Callable[[Any], Trace]) -> None:
    import numpy as np

    from spark_sched_lab.traces import write_trace

    _check_out(out)
    trace = make(np.random.default_rng(seed))
    write_trace(trace, out)
    if as_json:
        parameters = {"seed": seed, **trace.meta.parameters}
        echo_json(
            {
                "path": str(out),
                "jobs": trace.jobs.num_rows,
                "format": trace.meta.format,
                "parameters": parameters,
            }
        )
    else:
        click.echo(f"{out}: {trace.jobs.num_rows:,} jobs (seed {seed})")


def _whole(path: Path) -> Trace:
    with reading(path, None, None) as reader:
        trace = reader.read()
    say_report(reader.report)
    return trace


def _check_out(out: Path, source: Path | None = None) -> None:
    if not out.parent.is_dir():
        raise BadInputError(
            f"{out} cannot be written because the folder {out.parent} does not exist: create it first"
        )
    if out.is_dir():
        raise BadInputError(f"{out} is a folder: name a file in it")
    if source is not None and source.exists() and out.exists() and source.samefile(out):
        raise BadInputError(f"{out} is also the input: name another file to write")


def _need_pyarrow() -> None:
    with needing("trace"):
        import pyarrow  # noqa: F401  # imported here so that its absence gives one sentence
