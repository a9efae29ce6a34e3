"""``spark-sched doctor``: problems of the installation and their remedies."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import click
from rich.console import Console

from spark_sched.attach import BridgeError, build, find_java, find_spark
from spark_sched.attach.compiler import plan_build
from spark_sched.attach.properties import attached_properties
from spark_sched.attach.spark import check_same_version, java_version
from spark_sched.cli.common import DEFAULT_MASTER, check_properties, echo_json, parse_assignments
from spark_sched.config import SCHEME, check_inner_master, format_properties, read_properties
from spark_sched.errors import BadInputError

_MIN_PYTHON = (3, 11)
_JOB_MASTER = "local[2]"
_JOB_TIMEOUT_S = 180
_LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Finding:
    """The result of one check; ``remedy`` is empty if there is no problem."""

    check: str
    state: Literal["ok", "warning", "wrong"]
    found: str
    remedy: str = ""


def examine(properties: dict[str, str], most_s: int = _JOB_TIMEOUT_S) -> Iterator[Finding]:
    """Findings in order. Each check needs those before it, so a failed one ends the list.

    Args:
        most_s: how long the job may take.
    """
    yield _python()
    for name, check in (
        ("java", lambda: f"{java_version(find_java())} at {find_java()}"),
        ("spark", _spark),
        ("bridge", lambda: str(build())),
        ("loopback", _loopback),
        ("configuration", lambda: _configuration(properties)),
    ):
        finding = _finding(name, check)
        yield finding
        if finding.state == "wrong":
            return
    if unsafe := _nameless(properties):
        yield unsafe
    yield from _job(properties, most_s)


def _nameless(properties: dict[str, str]) -> Finding | None:
    """ACLs without a filter that says who asks. YARN sets one by itself."""

    def is_on(name: str, default: str) -> bool:
        return properties.get(name, default).strip().lower() == "true"

    filters = properties.get("spark.ui.filters", "").strip()
    steers = is_on("spark.sched.steering.enabled", "true") and is_on("spark.ui.killEnabled", "true")
    everybody = "*" in (user.strip() for user in properties.get("spark.modify.acls", "").split(","))
    on_yarn = properties.get("spark.master", "").removeprefix(SCHEME).startswith("yarn")
    if filters or on_yarn or everybody or not steers or not is_on("spark.acls.enable", "false"):
        return None
    return Finding(
        "authentication",
        "warning",
        "spark.acls.enable is true but spark.ui.filters names no filter that authenticates users, so nobody "
        "can change jobs over the network, and Spark shows its pages to everybody",
        "set spark.ui.filters, or set spark.sched.steering.enabled=false",
    )


def _finding(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "ok", check())
    except BridgeError as error:
        return Finding(name, "wrong", str(error), "fix the Scala sources, or reinstall spark-sched")
    except BadInputError as error:
        # Messages end in ": <remedy>", except those that state a range ("must be …").
        found, _, remedy = str(error).rpartition(": ")
        return Finding(name, "wrong", found or str(error), remedy if found else "correct it")


def _python() -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < _MIN_PYTHON:
        return Finding("python", "wrong", found, f"use Python {'.'.join(map(str, _MIN_PYTHON))} or newer")
    return Finding("python", "ok", found)


def _spark() -> str:
    spark = plan_build().spark
    check_same_version(spark)
    return f"{spark.version} at {spark.home} ({spark.source})"


def _loopback() -> str:
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            with socket.create_connection(listener.getsockname(), timeout=5):
                return "127.0.0.1 accepts connections"
    except OSError as error:
        raise BadInputError(
            f"127.0.0.1 accepts no connection ({error.strerror or error}): bring up the loopback interface "
            "or fix the firewall, because planner and driver communicate over it"
        ) from None


def _configuration(properties: dict[str, str]) -> str:
    if master := properties.get("spark.master"):
        check_inner_master(master)
    check_properties(properties)
    ours = sum(name.startswith("spark.sched.") for name in properties)
    return f"{ours} spark.sched settings given, all valid" if ours else "every setting has its default"


def _job(properties: dict[str, str], most_s: int) -> Iterator[Finding]:
    """Run a tiny application on this machine with the given spark.sched settings."""
    ours = {name: value for name, value in properties.items() if name.startswith("spark.sched.")}
    spark = find_spark()
    with tempfile.TemporaryDirectory(prefix="spark-sched-doctor-") as scratch:
        properties_file, report_file = Path(scratch) / "doctor.conf", Path(scratch) / "report.json"
        quiet = {"spark.ui.enabled": "false", "spark.pyspark.python": sys.executable}
        attached = attached_properties(_JOB_MASTER, {**quiet, **ours}, spark)
        properties_file.write_text(format_properties(attached), encoding="utf-8")
        submit = [str(spark.home / "bin" / "spark-submit"), "--properties-file", str(properties_file)]
        submit += [str(Path(__file__).with_name("_doctor_job.py")), str(report_file)]
        try:
            done = subprocess.run(
                submit, capture_output=True, text=True, errors="replace", timeout=most_s, check=False
            )
            log = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            yield Finding(
                "job", "wrong", f"a job on {_JOB_MASTER} did not end within {most_s} s",
                "give it longer with --timeout on a busy machine, or look into the log of a spark-submit",
            )  # fmt: skip
            return
        if not report_file.exists():
            tail = "\n".join(log.strip().splitlines()[-_LOG_TAIL_LINES:])
            yield Finding("job", "wrong", f"a job on {_JOB_MASTER} failed", f"its log ends:\n{tail}")
            return
        report = json.loads(report_file.read_text())
    yield from _judge(report)


def _judge(report: dict[str, int]) -> Iterator[Finding]:
    if report["attached"] and report["right"]:
        held = f"{report['holds_total']} slots held across its stages"
        yield Finding("job", "ok", f"ran on {_JOB_MASTER}, {held}")
    else:
        what = "ran, but on Spark's own scheduler" if report["right"] else "gave a wrong result"
        remedy = "report this with the output of --json"
        yield Finding("job", "wrong", f"a job on {_JOB_MASTER} {what}", remedy)
    if report["plans_accepted"]:
        yield Finding("planner", "ok", f"{report['plans_accepted']} plans applied")
    else:
        yield Finding(
            "planner",
            "warning",
            f"no plan was applied ({report['planner_starts']} planner starts), so the configured rules "
            "applied",
            "look for PlannerProcess in the driver's log, and check spark.sched.planner.python",
        )


@click.command("doctor")
@click.option("--master", default=DEFAULT_MASTER, metavar="INNER", help="Also check this master.")
@click.option("--properties-file", type=click.Path(path_type=Path), help="Check the settings in this file.")
@click.option("--conf", "assignments", multiple=True, metavar="K=V", help="Check this setting; repeatable.")
@click.option(
    "--timeout",
    "most_s",
    type=click.IntRange(min=1),
    default=_JOB_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the small job may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    context: click.Context,
    master: str,
    properties_file: Path | None,
    assignments: tuple[str, ...],
    most_s: int,
    as_json: bool,
) -> None:
    """Check Python, Java, Spark, the bridge and the settings, then run a small job.

    The output names a remedy for every problem. The exit status is 2 if a check fails.

    \b
    Examples:
      spark-sched doctor
      spark-sched doctor --properties-file conf/standalone.conf --json
    """
    properties = read_properties(properties_file) if properties_file else {}
    properties.update(parse_assignments("--conf", assignments))
    properties.setdefault("spark.master", master)
    findings = []
    marks = {"ok": "[green]ok[/]     ", "warning": "[yellow]warning[/]", "wrong": "[red]wrong[/]  "}
    console = Console(highlight=False, soft_wrap=True)
    for finding in examine(properties, most_s):
        findings.append(finding)
        if not as_json:
            console.print(f"{marks[finding.state]} {finding.check:<13} ", end="")
            console.print(finding.found, markup=False)
            if finding.remedy:
                console.print(f"        {'':<13} → {finding.remedy}", markup=False)
    well = all(finding.state != "wrong" for finding in findings)
    if as_json:
        echo_json({"well": well, "findings": [asdict(finding) for finding in findings]})
    context.exit(0 if well else 2)
