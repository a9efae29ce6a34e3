"""A status document as HTML for notebooks: no scripts, no styles of its own, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from spark_sched.plain_text import plain
from spark_sched.view import text
from spark_sched.view.rendering import as_html
from spark_sched.view.status import JobStatus, Status


@as_html.register
def of_status(status: Status) -> str:
    lines = text.head_lines(status)
    jobs, more = text.shown_jobs(status)
    rows = (text.job_row(job, status.now_ms) for job in jobs)
    rest = "" if more is None else f"<p>{escape(more)}</p>"
    return f"<p>{'<br>'.join(map(escape, lines))}</p>{_table(text.COLUMNS, rows)}{rest}"


@as_html.register
def of_job(job: JobStatus) -> str:
    head, _, rest = text.of_job(job).partition("\n")
    facts = rest.splitlines()[: -len(job.story) or None]
    story = ((text.clock(entry.at_ms), plain(entry.text)) for entry in job.story)
    lines = "<br>".join(escape(line.strip()) for line in facts)
    return f"<p><b>{escape(head)}</b><br>{lines}</p>{_table(('time', 'what happened'), story)}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
