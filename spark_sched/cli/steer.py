"""``spark-sched set``, ``hold``, ``policy`` and so on: change a live application."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any

import click

from spark_sched.errors import BadInputError

_ABOUT_URL = "URL is the address of the application's Spark UI."
_ABOUT_JOB = (
    "JOB is a job's key in the status, the id that spark_sched.job gave, or its name, in this order. If "
    "several jobs have the name, give the key."
)
_ABOUT_ACLS = "The modify ACLs of the UI apply, as for Spark's kill links."
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")


def _send(url: str, action: str, given: Mapping[str, Any], as_json: bool) -> None:
    from spark_sched.view.http import send_change

    done = send_change(url, action, given)
    click.echo(json.dumps({"done": done}) if as_json else done)


def _command(name: str, line: str, more: str, *, of_job: bool = True) -> click.Command:
    """A change of a job, or of all jobs, that needs no value."""
    about = (more, _ABOUT_URL, *([_ABOUT_JOB] if of_job else []), _ABOUT_ACLS)
    job = " nightly-report" if of_job else ""

    @click.command(
        name,
        help=f"{line}\n\n{textwrap.fill(' '.join(about), 106)}"
        f"\n\n\b\nExamples:\n  spark-sched {name} http://localhost:4040{job}",
    )
    @click.argument("url")
    @_JSON
    def command(url: str, as_json: bool, **given: str) -> None:
        _send(url, name, given, as_json)

    return click.argument("job")(command) if of_job else command


@click.command("set")
@click.argument("url")
@click.argument("job")
@click.option("--priority", metavar="N", help="The new priority; the higher one wins.")
@click.option(
    "--deadline",
    metavar="TIME",
    help="When the job must end: 15 min or 1h30m from now, an ISO time, or none.",
)
@click.option("--isolation", metavar="P", help="The isolation level from 0 to 1, or default.")
@_JSON
def set_command(
    url: str, job: str, priority: str | None, deadline: str | None, isolation: str | None, as_json: bool
) -> None:
    """Change a job's priority, deadline or isolation level.

    The limits on marks (spark.sched.limits.*) restrict tenants, not this command. URL is the address of the
    application's Spark UI. JOB is a job's key in the status, the id that spark_sched.job gave, or its name,
    in this order. If several jobs have the name, give the key. The modify ACLs of the UI apply, as for
    Spark's kill links.

    \b
    Examples:
      spark-sched set http://localhost:4040 nightly-report --priority 10
      spark-sched set http://localhost:4040 nightly-report --deadline 1h30m --isolation 0.9
    """
    given = {"priority": priority, "deadline": deadline, "isolation": isolation}
    wanted = {field: text for field, text in given.items() if text is not None}
    if not wanted:
        raise BadInputError("no change was given: give --priority, --deadline or --isolation")
    _send(url, "set", {"job": job, **wanted}, as_json)


@click.command("policy")
@click.argument("url")
@click.argument("name")
@_JSON
def policy_command(url: str, name: str, as_json: bool) -> None:
    """Switch a live application to another policy.

    The planner checks the name, then a new planner process takes over. The last plan stays in force until
    it expires or the first plan of the new policy arrives. URL is the address of the application's Spark UI.
    The modify ACLs of the UI apply, as for Spark's kill links.

    \b
    Examples:
      spark-sched policy http://localhost:4040 3sigma
    """
    _send(url, "policy", {"name": name}, as_json)


@click.command("mode")
@click.argument("url")
@click.argument("name", type=click.Choice(["on", "shadow", "off"]), metavar="on|shadow|off")
@_JSON
def mode_command(url: str, name: str, as_json: bool) -> None:
    """Switch a live application to another mode.

    In mode shadow the scheduler makes plans and counts what it would have done; Spark decides every
    placement. In mode off it holds no slots and makes no plans. URL is the address of the application's
    Spark UI. The modify ACLs of the UI apply, as for Spark's kill links.

    \b
    Examples:
      spark-sched mode http://localhost:4040 shadow
    """
    _send(url, "mode", {"name": name}, as_json)


hold = _command(
    "hold",
    "Start no further task of a job until it is resumed.",
    "Its running tasks continue. It holds no slots.",
)
resume = _command("resume", "Let a job on hold start tasks again.", "This undoes `spark-sched hold`.")
cancel = _command(
    "cancel",
    "Cancel the Spark jobs that run for a job now.",
    "The program gets an exception, as with Spark's kill links. Jobs that it submits later run as usual.",
)
end = _command(
    "end",
    "End a job that does not end by itself, such as one that a SQL session marks.",
    "It holds no slots from now on and ends with its last active stage. Work that is submitted later under "
    "the same mark belongs to a new job of the same name.",
)
pause = _command(
    "pause",
    "Release all held slots and let no job hold any.",
    "Plans still decide the order and the start of jobs. `spark-sched unpause` ends the pause.",
    of_job=False,
)
unpause = _command("unpause", "Let jobs hold slots again.", "This undoes `spark-sched pause`.", of_job=False)
