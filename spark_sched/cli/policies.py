"""``spark-sched policies``: the policies that an application, an arm or a replay can name."""

from __future__ import annotations

import click

from spark_sched.cli.common import echo_json


@click.command("policies")
@click.option("--all", "comparisons", is_flag=True, help="Also those that exist to be compared with others.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: policies by name.")
def command(comparisons: bool, as_json: bool) -> None:
    """List the policies: what each does and which marks it reads.

    Policies of other installed packages are among them. The setting spark.sched.planner.policy selects the
    policy of an application, `spark-sched policy` changes it. The page policies.md of the documentation helps
    to choose one.

    \b
    Examples:
      spark-sched policies
      spark-sched policies --all --json
    """
    from spark_sched.errors import BadInputError
    from spark_sched.policies.registry import available, built_in_entry, for_use, kind_of

    use = for_use()
    found = {}
    for name in available() if comparisons else use:
        entry = built_in_entry(name)
        summary = "of another package" if entry is None else entry.summary
        try:
            marks = sorted(kind_of(name).capabilities.marks)
        except BadInputError as error:  # One broken package hides no other policy.
            marks, summary = [], str(error)
        found[name] = {"summary": summary, "for": "use" if name in use else "comparison", "marks": marks}
    if as_json:
        echo_json(found)
        return
    width = max(map(len, found))
    for purpose in ("use", "comparison"):
        names = [name for name, each in found.items() if each["for"] == purpose]
        if names:
            click.echo(f"For {purpose}:")
        for name in names:
            known = ", ".join(found[name]["marks"])
            click.echo(f"  {name:{width}}  {found[name]['summary']}" + (f" [{known}]" if known else ""))
    if not comparisons:
        click.echo("More exist for comparison: see --all. In brackets: the marks that a policy reads.")
