"""``spark-sched queue``: the tenants' queues of a live application."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from spark_sched.cli.common import echo_json, parse_assignments
from spark_sched.config.queue_file import KEYS, LISTS, TABLES, read_queues, with_change
from spark_sched.config.queues import NO_QUEUES, QueueTree
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.plain_text import plain

_JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
_NONE = "none"
_HOUR_MS = 3_600_000


@click.group("queue")
def command() -> None:
    """Show and change the tenants' queues of a live application.

    docs/how-to/queues.md explains the queues. URL is the address of the application's Spark UI.
    """


@command.command("show")
@click.argument("url")
@_JSON
def show(url: str, as_json: bool) -> None:
    """Show the queues that are in force, their limits and rules, and who changed them last.

    Nothing is changed. URL is the address of the application's Spark UI. The UI's view ACLs apply.

    \b
    Examples:
      spark-sched queue show http://localhost:4040
    """
    from spark_sched.view.http import fetch_queues

    found = fetch_queues(url)
    if as_json:
        echo_json(found)
        return
    if found["tree"] is None:
        click.echo("the application has no queues: `spark-sched queue load` puts some in force")
    else:
        _show_tree(url, found["tree"])
    since = time.strftime("%H:%M:%S", time.localtime(found["since_ms"] / 1000.0))
    click.echo(
        plain(f"changed by {found['from']} at {since}" if found["version"] else "as the settings have them")
    )
    for warning in found["warnings"]:
        click.echo(plain(f"warning: {warning}"))


def _show_tree(url: str, tree: Mapping[str, Any]) -> None:
    from spark_sched.view.http import fetch_status

    now = {each.queue: each for each in fetch_status(url).queues}
    for entry in tree["queues"]:
        path = entry["queue"]
        use = now.get(path)
        limits = _words({key: value for key, value in entry.items() if key != "queue"}) or "no limits"
        uses = "" if use is None else (
            f"; now {use.running_slots} slots run, {use.held_slots} are held, {use.running_jobs} jobs run, "
            f"{use.waiting_jobs} wait"
        )  # fmt: skip
        if use is not None and use.day_slot_ms is not None:
            uses += f", {use.day_slot_ms / _HOUR_MS:.2f} slot-hours used in 24 hours"
        click.echo(plain(f"{path}: {limits}{uses}"))
    for rule in tree["rules"]:
        conditions = {key: value for key, value in rule.items() if key != "queue"}
        click.echo(plain(f"rule: {_words(conditions) or 'all jobs'} -> {rule['queue']}"))
    click.echo(f"default: {tree['default']}")
    if tree.get("preemption"):
        click.echo(plain(f"preemption: {_words(tree['preemption'])}"))


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()
    )


@command.command("set")
@click.argument("url")
@click.argument("queue")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@_JSON
def set_command(url: str, queue: str, values: tuple[str, ...], as_json: bool) -> None:
    """Change limits of one queue.

    KEY is a key of the file of queues, VALUE its new value, or none to take the key away. Users and groups
    are names with commas between them; max_priorities is a list in JSON. Jobs that run go on; more jobs are
    admitted at once if they may. The change lasts until the application ends or its file of queues changes.
    URL is the address of the application's Spark UI. The modify ACLs of the UI apply, as for Spark's kill
    links.

    \b
    Examples:
      spark-sched queue set http://localhost:4040 etl.hourly ceiling=4 held_ceiling=none
      spark-sched queue set http://localhost:4040 adhoc 'ceiling=30 %' max_running_jobs=5
    """
    from spark_sched.view.http import fetch_queues

    changes = {key: _value(key, text) for key, text in parse_assignments("KEY=VALUE", values).items()}
    found = fetch_queues(url)
    if found["tree"] is None:
        raise BadInputError(
            f"URL is {url!r} but the application has no queues: put some in force with `spark-sched queue "
            "load`"
        )
    _send(url, with_change(found["tree"], queue, changes), found["version"], as_json)


@command.command("load")
@click.argument("url")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_JSON
def load(url: str, file: Path, as_json: bool) -> None:
    """Put the queues of a TOML file in force.

    Jobs stay in their queues if these are in the file, and the rules place the others, also those of an
    application that had no queues. The driver does this by itself if the file that the application was
    started with is on its machine. URL is the address of the
    application's Spark UI. The modify ACLs of the UI apply, as for Spark's kill links.

    \b
    Examples:
      spark-sched queue load http://localhost:4040 queues.toml
    """
    from spark_sched.view.http import fetch_queues

    tree = read_queues(file)
    _send(url, tree, fetch_queues(url)["version"], as_json)


@command.command("clear")
@click.argument("url")
@_JSON
def clear(url: str, as_json: bool) -> None:
    """Remove all queues.

    Jobs that wait to be admitted begin, and no queue limits anything. URL is the address of the
    application's Spark UI. The modify ACLs of the UI apply, as for Spark's kill links.

    \b
    Examples:
      spark-sched queue clear http://localhost:4040
    """
    from spark_sched.view.http import fetch_queues

    _send(url, NO_QUEUES, fetch_queues(url)["version"], as_json)


def _send(url: str, tree: QueueTree, version: int, as_json: bool) -> None:
    from spark_sched.view.http import send_change

    done = send_change(url, "queues", {"tree": tree.to_json(), "version": version})
    click.echo(json.dumps({"done": done}) if as_json else done)


def _value(key: str, text: str) -> Any:
    """The value as the file has it; None: the key is taken away."""
    if key not in KEYS:
        raise BadInputError(
            f"KEY=VALUE has the unknown key {key!r}{did_you_mean(key, KEYS)}: the keys are {', '.join(KEYS)}"
        )
    if text == _NONE:
        return None
    if key in LISTS:
        return [name.strip() for name in text.split(",") if name.strip()]
    if key in TABLES:
        try:
            return json.loads(text)
        except ValueError:
            return text  # The check of the queues says what it must be.
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
