"""``spark-sched submit``: spark-submit, attached."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

import click

from spark_sched.attach.properties import (
    CLASS_PATH,
    DOORS,
    MASTER,
    Door,
    attached_properties,
    default_properties,
)
from spark_sched.attach.spark import SparkInstall, find_spark
from spark_sched.cli.child import run_child
from spark_sched.cli.common import DEFAULT_MASTER, check_properties, parse_assignments, with_watched_queues
from spark_sched.config import check_inner_master, format_properties, read_properties
from spark_sched.errors import BadInputError

# spark-submit's options that take no value; every other one that begins with -- takes one.
_SWITCHES = {"--help", "-h", "--supervise", "--verbose", "-v", "--load-spark-defaults", "--usage-error"}
_CONF = {"--conf", "-c"}
_HELP = {"--help", "-h", "--usage-error"}
_PROGRAMS = (".py", ".jar", ".r")
_DEPLOY_MODE = "spark.submit.deployMode"
_NO_APPLICATION = {"--version", "--kill", "--status"}


@dataclass
class SubmitArguments:
    """A spark-submit command line, with what concerns the attachment taken out of ``rest``."""

    rest: list[str] = field(default_factory=list)
    application: str | None = None
    master: str | None = None
    properties_file: Path | None = None
    load_defaults: bool = False
    class_path: str | None = None
    door: Door = "plugin"
    queues: Path | None = None
    settings: dict[str, str] = field(default_factory=dict)


def split_arguments(arguments: Sequence[str]) -> SubmitArguments:
    """Take master, settings, properties file and class path out of spark-submit's arguments.

    Everything else, and everything from the application on, stays as it is and in order. Raises
    BadInputError for an option without its value and for what cannot be attached.
    """
    split = SubmitArguments()
    position = 0
    while position < len(arguments):
        option, equals, value = arguments[position].partition("=")
        if not option.startswith("-"):
            split.application = arguments[position]
            split.rest += arguments[position:]
            break
        position += 1
        if option in _NO_APPLICATION:
            raise BadInputError(f"{option} runs no application: use spark-submit {option}")
        if option in _SWITCHES:
            split.load_defaults |= option == "--load-spark-defaults"
            split.rest.append(option)
            continue
        if not equals:
            if position == len(arguments):
                raise BadInputError(f"{option} has no value: give one, then the application")
            value = arguments[position]
            position += 1
        if option in _CONF:
            split.settings.update(parse_assignments("--conf", [value]))
        elif option == "--master":
            split.master = value
        elif option == "--properties-file":
            split.properties_file = Path(value)
        elif option == "--driver-class-path":
            split.class_path = value
        elif option == "--queues":
            split.queues = Path(value)
        elif option == "--door":
            split.door = _door(value)
        elif option == "--remote":
            raise BadInputError(
                f"--remote is {value!r}, a running server: attach the scheduler when you start that server"
            )
        elif option == "--deploy-mode":
            _check_deploy_mode(option, value)
            split.rest += [option, value]
        else:
            split.rest += [option, value]
    return split


def _door(value: str) -> Door:
    for door in DOORS:
        if value == door:
            return door
    raise BadInputError(f"--door is {value!r} but must be one of {', '.join(DOORS)}")


def _check_deploy_mode(source: str, mode: str) -> None:
    if mode != "client":
        raise BadInputError(
            f"{source} is {mode!r}, but the bridge is on this machine: use client, or run spark-submit with "
            "the properties of `spark-sched conf` and a jar that the driver can read"
        )


def check_application(application: str) -> None:
    """Raise BadInputError for a program on this machine that is not there.

    spark-submit would say so only after the bridge was compiled. Other words (``spark-internal``) and other
    file systems are left to spark-submit.
    """
    path = urlparse(application)
    if path.scheme not in ("", "file") or not path.path.lower().endswith(_PROGRAMS):
        return
    # A bare path may have characters that a URI would escape.
    if not Path(unquote(path.path) if path.scheme else application).is_file():
        raise BadInputError(f"the application is {application!r}, which is not a file: check the path")


def merged_properties(split: SubmitArguments, spark: SparkInstall) -> dict[str, str]:
    """All properties of the run, with spark-submit's own precedence: options, then file, then defaults."""
    merged: dict[str, str] = {}
    if split.properties_file is None or split.load_defaults:
        merged.update(default_properties(spark))
    if split.properties_file is not None:
        merged.update(read_properties(split.properties_file))
    merged.update(split.settings)
    if split.class_path is not None:
        merged[CLASS_PATH] = split.class_path
    master = split.master or merged.get(MASTER, DEFAULT_MASTER)
    merged.pop(MASTER, None)
    if split.queues is not None:
        merged = with_watched_queues(merged, split.queues)
    check_properties(merged)
    _check_deploy_mode(_DEPLOY_MODE, merged.get(_DEPLOY_MODE, "client"))
    return attached_properties(master, merged, spark, split.door)


def run_spark_submit(properties: Mapping[str, str], rest: Sequence[str], spark: SparkInstall) -> int:
    """Run spark-submit with these properties; its exit status (128 + n if signal n ended it)."""
    environment = {**os.environ, "SPARK_HOME": str(spark.home)}
    _, kind = check_inner_master(properties[MASTER])
    if kind in ("local", "local-cluster") and "spark.pyspark.python" not in properties:
        # Executors on this machine should find what is installed beside this command.
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    # mkstemp's mode keeps what a user's properties may hold (passwords) from other users.
    descriptor, name = tempfile.mkstemp(prefix="spark-sched-", suffix=".conf")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(format_properties(properties))
        command = [str(spark.home / "bin" / "spark-submit"), "--properties-file", name, *rest]
        return run_child(command, environment)
    finally:
        Path(name).unlink(missing_ok=True)


@click.command(
    "submit",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[SPARK-SUBMIT OPTIONS]",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="APP [ARGUMENTS]")
@click.pass_context
def command(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run spark-submit with the scheduler attached. All options of spark-submit are passed on.

    --master is the master to run on (default local[*]). --conf, --properties-file and spark-defaults.conf
    have the same effect as for spark-submit; spark.sched.* settings in them are checked first. --door plugin
    (the default) attaches by a plugin and leaves the master as it is; --door master puts spark-sched: before
    the master. --queues FILE sets the tenants' queues of a TOML file. The exit status is that of
    spark-submit.

    \b
    Examples:
      spark-sched submit app.py
      spark-sched submit --master 'local-cluster[2,2,1024]' --conf spark.sched.reservation.gap=30s app.py 100
      spark-sched submit --properties-file team.conf --class org.example.Main app.jar
    """
    split = split_arguments(arguments)
    if split.application is not None:
        check_application(split.application)
    elif not _HELP.intersection(split.rest):
        raise BadInputError("no application was given: name a Python file or a jar")
    spark = find_spark()
    context.exit(run_spark_submit(merged_properties(split, spark), split.rest, spark))
