"""``spark-sched whatif``: replay a Spark event log under other policies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.common import (
    NATURAL,
    echo_json,
    needing,
    parse_assignments,
    queues_option,
    seed_option,
    with_queues,
)
from spark_sched.errors import BadInputError
from spark_sched.plain_text import plain
from spark_sched.terminal import aligned_table, description_column, progress_bar, say, wide_console

if TYPE_CHECKING:
    from spark_sched_lab.whatif import Question


@click.command("whatif")
@click.argument("logs", metavar="EVENTLOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Try this policy; repeatable.")
@click.option(
    "--set", "settings", multiple=True, metavar="K=V", help="Try this spark.sched.* setting; repeatable."
)
@queues_option
@click.option(
    "--priority",
    "priorities",
    multiple=True,
    metavar="JOB=N",
    help="Try this priority for jobs of that name (* matches any text); repeatable.",
)
@click.option(
    "--predictor",
    type=click.Choice(["none", "history", "3sigma", "oracle"]),
    default="3sigma",
    show_default=True,
    help="The predictor that the tried policies use.",
)
@click.option(
    "--pools",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Allocation file of FAIR mode.",
)
@click.option(
    "--arrivals",
    type=click.Choice(["auto", "recorded", "one-by-one"]),
    default="auto",
    show_default=True,
    help="recorded: jobs arrive at their recorded times; one-by-one: each arrives when the previous one "
    "ends; auto: one-by-one if no two jobs of the log overlap.",
)
@seed_option("replay")
@click.option("--jobs", "shown", type=NATURAL, default=20, show_default=True, help="Rows of the table.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON document.")
def command(
    logs: tuple[Path, ...],
    policies: tuple[str, ...],
    settings: tuple[str, ...],
    queues: Path | None,
    priorities: tuple[str, ...],
    predictor: str,
    pools: Path | None,
    arrivals: str,
    seed: int,
    shown: int,
    as_json: bool,
) -> None:
    """Replay Spark event logs under other policies, settings and priorities.

    An EVENTLOG is a file (plain or compressed), a rolling directory or a folder of logs, of stock Spark or of
    this scheduler. The first line is the error of the replay under the recorded policy.
    docs/explanation/whatif.md explains the method.

    \b
    Examples:
      spark-sched whatif app-20260101
      spark-sched whatif app-20260101 --priority 'report*=10' --policy reservation --policy priority
      spark-sched whatif events/ --set spark.sched.reservation.isolation=0.9 --json
      spark-sched whatif events/ --queues queues.toml
    """
    with needing("whatif"):
        from spark_sched_lab.whatif import Question, read_pools

    question = Question(
        policies=policies,
        settings=with_queues(parse_assignments("--set", settings), queues),
        priorities=tuple(_priorities(priorities)),
        predictor=predictor,
        pools=None if pools is None else read_pools(pools),
        one_by_one={"auto": None, "recorded": False, "one-by-one": True}[arrivals],
        seed=seed,
    )
    question.check()
    document = _answers(logs, question)
    if as_json:
        echo_json(document)
    else:
        for log in document["logs"]:
            _print(log, shown)


def _priorities(texts: tuple[str, ...]) -> list[tuple[str, int]]:
    found = []
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            if not equals or not name:
                raise ValueError(text)
            found.append((name, int(value)))
        except ValueError:
            raise BadInputError(
                f"--priority is {text!r} but must be written as JOB=N with a whole number N"
            ) from None
    return found


def _answers(paths: tuple[Path, ...], question: Question) -> dict[str, Any]:
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    from spark_sched_lab.whatif import answer, logs_under, read_log
    from spark_sched_lab.whatif.accuracy import together

    not_read: list[str] = []
    logs = [log for path in paths for log in logs_under(path, not_read)]
    answers, refused = [], []
    for sentence in not_read:
        say(f"left out: {sentence}")
    with progress_bar(SpinnerColumn(), description_column(), TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=None)
        for number, log in enumerate(logs, 1):
            where = f"{log.name} ({number} of {len(logs)})" if len(logs) > 1 else log.name
            read = 0

            def reading(done: int, where: str = where) -> None:
                nonlocal read
                read += done
                bar.update(task, description=f"{where}: reading, {read / 1e6:.0f} MB")

            def running(arm: str, ended: int, where: str = where) -> None:
                bar.update(task, description=f"{where}: {arm}, {ended} jobs")

            try:
                answers.append(answer(read_log(log, reading), question, running))
            except BadInputError as error:
                if len(logs) == 1:
                    raise
                # If one of several logs cannot be used, the others are still replayed.
                refused.append({"log": str(log), "reason": str(error)})
                bar.console.print(f"skipped: {error}", markup=False, highlight=False, soft_wrap=True)
    if not answers:
        raise BadInputError(f"none of {len(logs)} logs can be replayed; the first: {refused[0]['reason']}")
    return {
        "logs": answers,
        "left_out": refused,
        "not_read": not_read,
        "together": together([log["replay"] for log in answers]),
    }


def _print(log: Mapping[str, Any], shown: int) -> None:
    from spark_sched_lab.cli.simulate import queue_table

    console = wide_console(140)
    title = f"{log['log']}: Spark {log['spark'] or '?'}, {log['executors']} executors, {log['slots']} slots"
    console.print(plain(title), markup=False, highlight=False, soft_wrap=True)
    for line in log["answer"]:
        console.print(plain(line), markup=False, highlight=False, soft_wrap=True)
    for note in log["notes"]:
        console.print(plain(f"note: {note}"), markup=False, highlight=False, soft_wrap=True)
    if shown:
        caption = "completion times in s" if log["jobs"] <= shown else f"the first {shown} jobs, s"
        numbers = ("priority", "recorded", *(arm["arm"] for arm in log["arms"]))
        table = aligned_table(["job"], numbers, caption=caption)
        others = [{row["job"]: row for row in arm["jobs"]} for arm in log["arms"]]
        for row in log["arms"][-1]["jobs"][:shown]:
            times = [row["real_jct_s"], *(rows.get(row["job"], {}).get("jct_s") for rows in others)]
            name = str(row["name"] or row["job"]).splitlines()[0][:48]
            table.add_row(name, str(row["priority"]), *("–" if s is None else f"{s:.1f}" for s in times))
        console.print(table)
    for arm in log["arms"]:
        if arm["queues"]:
            console.print(queue_table(arm["queues"], f"{arm['arm']}: queues"))
    console.print()
