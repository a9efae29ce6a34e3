"""Earlier runs of each job name, in the history database: what their stages needed."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Table,
    Text,
    delete,
    insert,
    select,
)

from spark_sched.history.database import ROW_ID, TABLES, Database
from spark_sched.history.outbox import Outbox
from spark_sched.predict import EarlierRun, EarlierStage
from spark_sched.state import DurationSummary

_RUNS = Table(
    "runs",
    TABLES,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False),
    Column("ended_ms", BigInteger, nullable=False),
    # The column has the name that it had when stages were called phases: databases outlive versions.
    Column("phases", Text, key="stages", nullable=False),
    # These came later: older databases get them when they are opened.
    Column("gap_ms", BigInteger),
    Column("user", Text),  # None: of a version that did not tell users apart
    Index("runs_by_name", "name", "id"),
    sqlite_autoincrement=True,
)


#: Names whose unreadable runs are logged, at most.
_WARNED_MOST = 1_000
#: More than the logarithm of any task time in ms: that of 30,000 years.
_MOST_LOG_MS = 35.0


class StoredRuns:
    """A :class:`~spark_sched.predict.EarlierRunStore`: the latest runs of each job name.

    Errors cause a warning; they never stop the planner.

    Args:
        log: gets trouble in single sentences.
        outbox: gets the rows. Whoever owns it stores them.
    """

    def __init__(self, database: Database, log: logging.Logger, outbox: Outbox) -> None:
        self._log = log
        self._warned: set[str] = set()
        self._database = database
        self._outbox = outbox

    def load(self, name: str, limit: int, user: str | None = None) -> Sequence[EarlierRun]:
        """The latest ``limit`` runs of a user's job name, or without a user of everybody's, the oldest first;
        rows that cannot be read are skipped."""
        query = (
            select(_RUNS.c.ended_ms, _RUNS.c.stages, _RUNS.c.gap_ms)
            .where(_of(name, user))
            .order_by(_RUNS.c.id.desc())
            .limit(limit)
        )

        def read(db: Connection) -> list[tuple[int, str, int | None]]:
            return [(row.ended_ms, row.stages, row.gap_ms) for row in db.execute(query)]

        nothing: list[tuple[int, str, int | None]] = []
        runs = []
        for ended_ms, stages, gap_ms in reversed(self._database.run(read, nothing)):
            try:
                parts = tuple(_stage(item) for item in json.loads(stages))
                runs.append(EarlierRun(int(ended_ms), parts, None if gap_ms is None else max(0, int(gap_ms))))
            except (TypeError, ValueError):
                if name not in self._warned and len(self._warned) < _WARNED_MOST:
                    self._warned.add(name)
                    self._log.warning(
                        "a run of %r in %s cannot be read and is left out", name, self._database.title
                    )
        return runs

    def save(self, name: str, run: EarlierRun, limit: int, user: str | None = None) -> None:
        """Keep a run, and no more than the latest ``limit`` of its user and name."""
        stages = [
            [p.name, p.tasks, p.durations.count, p.durations.min_ms, p.durations.sum_log_ms]
            for p in run.stages
        ]
        text = json.dumps(stages, separators=(",", ":"))
        of_name = _of(name, user)
        latest = select(_RUNS.c.id).where(of_name).order_by(_RUNS.c.id.desc()).limit(limit)

        def write(db: Connection) -> None:
            row = {"name": name, "ended_ms": run.ended_ms, "stages": text, "gap_ms": run.gap_ms, "user": user}
            db.execute(insert(_RUNS).values(**row))
            db.execute(delete(_RUNS).where(of_name, _RUNS.c.id.not_in(latest)))

        self._outbox.add(write)


def _of(name: str, user: str | None) -> ColumnElement[bool]:
    """The runs that count for a user's job name: the user's own, and those of nobody in particular."""
    named = _RUNS.c.name == name
    return named if user is None else named & ((_RUNS.c.user == user) | _RUNS.c.user.is_(None))


def _stage(item: list[object]) -> EarlierStage:
    name, tasks, count, min_ms, sum_log_ms = item
    good = (
        isinstance(name, str)
        and type(tasks) is int
        and tasks >= 0
        and type(count) is int
        and count >= 0
        and ((type(min_ms) is int and min_ms >= 1) if count else min_ms is None)
        and isinstance(sum_log_ms, (int, float))
        and 0.0 <= sum_log_ms <= _MOST_LOG_MS * count
    )
    if not good:
        raise ValueError(item)
    return EarlierStage(name, tasks, DurationSummary(count, min_ms, float(sum_log_ms)))  # type: ignore[arg-type]
