"""``spark-sched predict``: learn runtimes, and measure how accurately they are predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.common import echo_json, format_option, needing
from spark_sched.errors import BadInputError
from spark_sched.plain_text import plain
from spark_sched.terminal import counting_bar, say
from spark_sched_lab.cli.trace_input import reading, say_report

if TYPE_CHECKING:
    from spark_sched_lab.accuracy.tasks import MeasuredJob
    from spark_sched_lab.traces import TraceChunk

_PATH = click.Path(path_type=Path)
#: Narrower jobs are not sampled (SLearn §5.1.2).
THIN = 3


@click.group("predict")
def command() -> None:
    """Learn runtimes from history, and measure the accuracy of predictions.

    docs/explanation/prediction.md explains the method.

    \b
    Examples:
      spark-sched predict eval SDSC-BLUE-2000-4.2-cln.swf.gz
      spark-sched predict learn --history runtimes.db eventlog_v2_app-20260101-0001/
    """


@command.command("eval")
@click.argument("trace", type=_PATH)
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def eval_(trace: Path, format_: str | None, as_json: bool) -> None:
    """Measure predictor accuracy on the second half of TRACE.

    Goes through the jobs in the order of time: predicts each job at its submission from the jobs that ended
    before, and learns from it at its end. Prints the share of finished jobs whose estimate is off by a factor
    of two or more, and how often runtimes are in the predicted intervals, before and after calibration.

    If the trace has task durations, also prints how much mean task times vary over time and over space, and
    the error of job sizes estimated from pilots, from history and from both (docs/explanation/slearn.md).

    \b
    Examples:
      spark-sched predict eval jobs_derived.csv.gz
      spark-sched predict eval --json CTC-SP2-1996-3.1-cln.swf.gz
    """
    with needing("predict"):
        from spark_sched_lab.accuracy.runtimes import evaluate, jobs_with_runtimes
        from spark_sched_lab.accuracy.tasks import evaluate_tasks

    left_out: Counter[str] = Counter()
    measured: list[MeasuredJob] = []
    with reading(trace, format_, None) as reader:
        jobs = list(jobs_with_runtimes(_measuring(reader.chunks(), measured), left_out))
    with counting_bar("jobs") as show:
        tasks = evaluate_tasks(measured, progress=partial(show, f"sizing {trace.name}"))
    if not jobs and tasks is None:
        if not left_out:
            raise BadInputError(f"{trace} has no job: give a trace with jobs")
        raise BadInputError(
            f"{trace} has no job with an arrival time, which predictions need: give one that has them"
        )
    found: dict[str, Any] = {}
    with counting_bar("jobs") as show:
        try:
            found = evaluate(jobs, progress=partial(show, f"predicting {trace.name}"))
        except BadInputError as error:
            # A trace with tasks but without arrivals or runtimes of jobs still has job sizes.
            if tasks is None:
                raise BadInputError(f"{trace}: {error}") from None
    document = {
        "trace": str(trace),
        "format": reader.format,
        "left_out": dict(left_out),
        **found,
        "tasks": tasks,
        "report": reader.report.to_dict(),
    }
    if as_json:
        echo_json(document)
    else:
        if found:
            _print(document)
        if tasks is not None:
            _print_tasks(tasks, "jobs")
        if tasks is not None and tasks["stages"] is not None:
            _print_tasks(tasks["stages"], "stages, each separately,")
        for reason, count in sorted(left_out.items()):
            say(f"not used: {count:,} {reason}")
    say_report(reader.report)


@command.command("learn")
@click.argument("eventlogs", metavar="EVENTLOG...", type=_PATH, nargs=-1, required=True)
@click.option(
    "--history",
    metavar="PATH|URL",
    help="The history, as in spark.sched.history.path: a SQLite file or postgresql://…",
)
@click.option(
    "--format", "format_", metavar="NAME", help="The inputs' format; by default found from their content."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def learn(eventlogs: tuple[Path, ...], history: str | None, format_: str | None, as_json: bool) -> None:
    """Learn runtimes and task times from event logs (or traces) into a history that planners use.

    Each log is learned completely or not at all. A log that was learned before is skipped.

    \b
    Examples:
      spark-sched predict learn --history runtimes.db eventlog_v2_app-20260101-0001/
      spark-sched predict learn --history postgresql://sched@db/runtimes logs/*.zstd
    """
    if history is None:
        raise BadInputError("--history is missing: name the file of spark.sched.history.path, or its URL")
    with needing("predict"):
        from spark_sched_lab.accuracy.lessons import fingerprint, lessons_of, task_lessons_of
        from spark_sched_lab.accuracy.runtimes import jobs_with_runtimes
    from spark_sched.history.store import History

    opened = History(history, None)
    store, tasks = opened.runtimes, opened.task_times
    predictor, times = store.load(), tasks.load()
    rows: list[dict[str, Any]] = []
    for path in eventlogs:
        left_out: Counter[str] = Counter()
        measured: list[MeasuredJob] = []
        with reading(path, format_, None) as reader:
            chunks = _measuring(reader.chunks(), measured)
            jobs = sorted(jobs_with_runtimes(chunks, left_out), key=lambda job: job.submit_s)
        say_report(reader.report)
        source = fingerprint(jobs)
        row: dict[str, Any] = {"path": str(path), "jobs": len(jobs), "learned": 0, "stages": 0, "known": True}
        if jobs and not store.has_source(source):
            with counting_bar("jobs") as show:
                found = lessons_of(jobs, predictor, partial(show, f"learning {path.name}"))
            if store.add_source(source, found):
                row.update(learned=len(found), known=False)
        # Histories of earlier versions have the runtimes of a log and not its task times.
        if jobs and measured and not tasks.has_source(source):
            arrived = [job for job in measured if job.attributes[0].submit_s is not None]
            arrived.sort(key=lambda job: job.submit_s)
            with counting_bar("jobs") as show:
                stages = task_lessons_of(arrived, times, partial(show, f"learning tasks of {path.name}"))
            if tasks.add_source(source, stages):
                row.update(stages=len(stages), known=False)
        rows.append(row)
    if not any(row["jobs"] for row in rows):
        opened.close()
        raise BadInputError(
            f"{', '.join(map(str, eventlogs))} has no job with an arrival time: there is nothing to learn, "
            "give other logs"
        )
    # Saves the state, so that planners need not read all jobs.
    predictor = store.load()
    tasks.load()
    opened.close()
    document = {
        "history": store.title,
        "jobs": predictor.jobs,
        "feature_values": len(predictor),
        "sources": rows,
    }
    if as_json:
        echo_json(document)
    else:
        _print_learned(document)


def _measuring(chunks: Iterable[TraceChunk], measured: list[MeasuredJob]) -> Iterator[TraceChunk]:
    """The chunks; adds their jobs with task durations to ``measured``."""
    from spark_sched_lab.accuracy.tasks import measured_jobs

    for chunk in chunks:
        measured.extend(measured_jobs([chunk]))
        yield chunk


def _print_learned(document: dict[str, Any]) -> None:
    for row in document["sources"]:
        what = "learned before"
        if not row["known"]:
            what = f"{row['learned']:,} of {row['jobs']:,} jobs learned, {row['stages']:,} stages"
        click.echo(plain(f"{row['path']}: {what if row['jobs'] else 'no job with an arrival'}"))
    click.echo(
        f"{document['history']}: {document['jobs']:,} jobs, {document['feature_values']:,} feature values"
    )


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"{document['trace']}: {document['jobs']:,} jobs, {document['scored']:,} scored (finished jobs of "
        f"the second half), {document['feature_values']:,} feature values, {document['seconds']:g} s"
    )
    table = Table("estimate", "off by 2× or more", "answered", "off among answered", "NMAE")
    for key, title in (
        ("point", "3σPredict, point"),
        ("best_expert", "3σPredict, best expert's own estimate"),
        ("last_20_of_user_and_name", "median of last 20, user and name"),
    ):
        row = document[key]
        table.add_row(
            title,
            f"{row['off_by_two_pct']:.2f} %",
            f"{row['answered_pct']:.2f} %",
            f"{row['off_by_two_of_answered_pct']:.2f} %",
            f"{row['nmae']:.3f}",
        )
    console.print(table)
    table = Table("intervals", "in 80 %", "in 95 %", "80 %: high / low, median")
    for kind in ("history", "calibrated"):
        coverage = document["coverage_pct"][kind]
        width = document["width_of_80_pct_interval"][kind]
        table.add_row(
            kind, f"{coverage['80']:.2f} %", f"{coverage['95']:.2f} %", "-" if width is None else f"{width:g}"
        )
    console.print(table)
    table = Table("answers from", "expert", "jobs", "off by 2× or more")
    for row in document["answers"][:10]:
        table.add_row(row["feature"], row["expert"], f"{row['jobs']:,}", f"{row['off_by_two_pct']:.2f} %")
    console.print(table)


def _print_tasks(tasks: dict[str, Any], what: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"sizes: {tasks['scored']:,} {what} of {THIN} tasks or more, of {tasks['jobs']:,} whose tasks were "
        f"all measured (second half), {tasks['runs']} draws of pilots"
    )
    table = Table("CoV of task times (SLearn, table 4)", "P50", "P90", "jobs")
    for kind in ("over_time", "over_space"):
        row = tasks["cov"][kind]
        cells = ["-" if row[name] is None else f"{row[name]:.2f}" for name in ("p50", "p90")]
        table.add_row(kind.replace("_", " "), *cells, f"{row['jobs']:,}")
    console.print(table)
    quantiles = list(next(iter(tasks["predictors"].values()))["error_pct"])
    table = Table(
        "error in %",
        *(name.upper() for name in quantiles),
        "queue",
        "pilots",
        "90 %",
        caption="error: of job sizes (figure 2); queue: share of jobs in the right queue (table 7);\n"
        "90 %: how often the 90 % interval has the mean task time of the sampled stage",
        caption_justify="left",
    )
    for name, row in tasks["predictors"].items():
        errors = ["-" if row["error_pct"][q] is None else f"{row['error_pct'][q]:.1f}" for q in quantiles]
        held = "-" if row["held_90_pct"] is None else f"{row['held_90_pct']:.1f} %"
        table.add_row(name, *errors, f"{row['right_queue_pct']:.1f} %", f"{row['mean_pilots']:.2f}", held)
    console.print(table)
