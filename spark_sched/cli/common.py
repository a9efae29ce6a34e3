"""Options and checks that several commands share."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from spark_sched.config import BY_NAME, PREFIX
from spark_sched.errors import BadInputError, did_you_mean

DEFAULT_MASTER = "local[*]"


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


def echo_json(document: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=2))
