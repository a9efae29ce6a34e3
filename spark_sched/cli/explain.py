"""``spark-sched explain``: the story of one job of a live application."""

from __future__ import annotations

import click

from spark_sched.cli.common import echo_json


@click.command("explain")
@click.argument("url")
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="Print the job's status document, as one JSON object.")
def command(url: str, job: str, as_json: bool) -> None:
    """Tell the story of a job: what it waited for, which slots it held, which plans contained it.

    URL is the address of the application's Spark UI. JOB is a job's key in the status, the id that
    spark_sched.job gave, or its name, in this order. If several jobs have the name, all are printed, the
    newest last. The story of a job that has ended
    remains available for 15 minutes. The UI's view ACLs apply.

    \b
    Examples:
      spark-sched explain http://localhost:4040 nightly-report
    """
    from spark_sched.view.http import fetch_document, fetch_jobs

    if as_json:
        echo_json(fetch_document(url, job))
        return
    click.echo("\n\n".join(str(each) for each in fetch_jobs(url, job)))
