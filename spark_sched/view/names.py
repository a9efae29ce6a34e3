"""The error message for an unknown job name."""

from __future__ import annotations

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.view.status import Status

_MOST_NAMES = 10


def unknown_job(job: str, status: Status) -> BadInputError:
    """The error, with the names of the existing jobs."""
    names = sorted({each.name for each in status.jobs})
    if not names:
        known = "there are no jobs now"
    else:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        known = f"now there are {', '.join(names[:_MOST_NAMES])}{more}"
    return BadInputError(f"job is {job!r}{did_you_mean(job, names)} but no such job is known: {known}")
