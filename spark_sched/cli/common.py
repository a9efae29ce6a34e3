"""Options and checks that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from spark_sched.config import BY_NAME, POLICY_PREFIX, PREFIX, validate
from spark_sched.config.keys import HISTORY_PATH, QUEUES, QUEUES_FILE
from spark_sched.config.queue_file import read_queues
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.history import check_installed

DEFAULT_MASTER = "local[*]"

#: Of seeds and numbers of rows.
NATURAL = click.IntRange(min=0)

#: Says something on standard error.
note = partial(click.echo, err=True)

_PLANNER_PREFIX = PREFIX + "planner."

#: The argument of pip install for a module that a plain installation lacks.
_INSTALLED_BY = {
    "boto3": "'spark-sched[ec2]'",
    "botocore": "'spark-sched[ec2]'",
    "jinja2": "'spark-sched[report]'",
    "matplotlib": "'spark-sched[report]'",
    "pyarrow": "'spark-sched[traces]'",
    "pyhocon": "'spark-sched[hocon]'",
    "pyspark": "'spark-sched[spark]'",
    "scipy": "'spark-sched[report]'",
    "sqlalchemy": "'spark-sched[history]'",
}


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Wraps a command's imports. Raises BadInputError that names the package to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _INSTALLED_BY:
            raise
        raise BadInputError(
            f"{what} needs {error.name}, which is not installed: run pip install {_INSTALLED_BY[error.name]}"
        ) from None


def parse_assignments(option: str, assignments: Iterable[str]) -> dict[str, str]:
    """``("a=b", …)`` as a dict. Raises BadInputError naming the option and the text without ``=``."""
    entries = {}
    for assignment in assignments:
        key, found, value = assignment.partition("=")
        if not found or not key.strip():
            hint = did_you_mean(key, BY_NAME) if key.startswith(PREFIX) else ""
            raise BadInputError(f"{option} is {assignment!r}{hint} but must be written as KEY=VALUE")
        entries[key.strip()] = value.strip()
    return entries


def check_properties(properties: Mapping[str, str]) -> None:
    """Check every ``spark.sched.*`` entry as the planner does, names included. Raises BadInputError."""
    settings = validate(properties)
    if any(name.startswith((_PLANNER_PREFIX, POLICY_PREFIX)) for name in properties):  # defaults are valid
        from spark_sched.policies import check_settings

        check_settings(settings)
    if settings[HISTORY_PATH]:
        check_installed()
    if "://" in settings[HISTORY_PATH]:
        from spark_sched.history.database import checked_url

        checked_url(settings[HISTORY_PATH])


def refuse_without(needed: str, *names: str) -> None:
    """Refuse options of the present command that were given but have no effect without the one ``needed``."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise BadInputError(f"--{name} has an effect only with {needed}: add that, or leave --{name} out")


def echo_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2))


format_option = click.option(
    "--format", "format_", metavar="NAME", help="The input's format; by default found from its content."
)


def seed_option(same: str) -> Callable[..., Any]:
    """``--seed``, which decides ``same``."""
    return click.option(
        "--seed", type=NATURAL, default=0, show_default=True, help=f"The same seed gives the same {same}."
    )


queues_option = click.option(
    "--queues",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="TOML file of the tenants' queues and their limits.",
)


def with_queues(settings: Mapping[str, str], queues: Path | None) -> dict[str, str]:
    """The settings with the queues of a TOML file. Raises BadInputError for a fault in the file, and if the
    settings have queues themselves."""
    if queues is None:
        return dict(settings)
    if settings.get(QUEUES.name):
        raise BadInputError(
            f"--queues is {str(queues)!r} but {QUEUES.name} is set, too: give only one of them"
        )
    return {**settings, QUEUES.name: read_queues(queues).to_json()}


def with_watched_queues(settings: Mapping[str, str], queues: Path | None) -> dict[str, str]:
    """The same for an application that runs, whose driver watches the file."""
    given = with_queues(settings, queues)
    return given if queues is None else {QUEUES_FILE.name: str(queues.absolute()), **given}


stack_option = click.option(
    "--stack",
    default="spark-sched",
    show_default=True,
    metavar="NAME",
    help="Name of the EC2 cluster's stack.",
)
region_option = click.option(
    "--region", metavar="REGION", help="AWS region; otherwise that of your AWS profile."
)
