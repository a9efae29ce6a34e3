"""Whether the history has a row for each job that ended."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.integration.chaos.tenants import JobRecord

Owner = tuple[str, str]
#: Of a job without a recurring name.
NOBODY: Owner = ("", "")
_LACKS = re.compile(r"what it keeps (lacks|may lack)")


def rows(history: Path) -> Counter[Owner]:
    """How many jobs the history has, by user and name; jobs without a name are nobody's."""
    found: Counter[Owner] = Counter()
    with sqlite3.connect(history, timeout=30.0) as db:
        for (lesson,) in db.execute("SELECT lesson FROM sigma_jobs"):
            features = dict(json.loads(lesson)["features"])
            user, _, name = features.get("user × name", "\x1f").partition("\x1f")
            found[(user, name) if name else NOBODY] += 1
    return found


def admitted(log: str) -> list[str]:
    """What the driver itself says of ends that were not learned."""
    return [line for line in log.splitlines() if _LACKS.search(line)]


def missing(
    records: Iterable[JobRecord], application_user: str, found: Counter[Owner]
) -> tuple[list[str], list[str]]:
    """Sentences on ends that were not learned, and on ends that were learned too often.

    A job without a marked user is the application's.
    """
    least: Counter[Owner] = Counter()
    most: Counter[Owner] = Counter()
    for each in records:
        owner = (each.user or application_user, each.name) if each.name else NOBODY
        least[owner] += each.learned[0]
        most[owner] += each.learned[1]
    lost = [
        f"{user} {name}: {found[user, name]} of {count} jobs were learned"
        for (user, name), count in sorted(least.items())
        if found[user, name] < count
    ]
    extra = [
        f"{user} {name}: {count} jobs were learned and only {most[user, name]} ended"
        for (user, name), count in sorted(found.items())
        if count > most[user, name]
    ]
    return lost, extra
