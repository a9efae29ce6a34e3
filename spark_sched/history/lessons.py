"""A log of what jobs taught, in a database that several applications share.

What an ended job taught is one or more rows, and the state is a function of the rows and their order alone.
A process that has the state up to some row may save it (a checkpoint), so that no process needs the earlier
rows. After it has stored its own rows it reads those that others wrote in the meantime. So two applications
learn from each other, and a process that dies loses nothing that it had saved.
"""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
)

from spark_sched.history.database import ROW_ID, TABLES, Database
from spark_sched.history.outbox import Outbox, serialise
from spark_sched.predict import Lesson, ThreeSigmaPredict
from spark_sched.predict.runtimes.calibration import Calibration, RangePosition

L = TypeVar("L")
S = TypeVar("S")

_LAYOUT = 1
#: Rows that a starting planner has to replay at most, and rows kept for those who are behind.
ROWS_BETWEEN = 500
ROWS_KEPT = 5_000
_READ_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class LessonTables:
    """The tables of one log.

    Attributes:
        jobs: the rows.
        values: the state of each (feature, value) up to the checkpoint.
        checkpoint: one row: how far the values go, how far rows are gone, the calibration, and what else the
            state has.
        sources: event logs that were learned.
    """

    jobs: Table
    values: Table
    checkpoint: Table
    sources: Table

    @classmethod
    def named(cls, prefix: str) -> LessonTables:
        """The tables ``<prefix>_jobs`` and so on."""
        jobs = Table(
            f"{prefix}_jobs",
            TABLES,
            Column("id", ROW_ID, primary_key=True, autoincrement=True),
            Column("runtime_s", Float, nullable=False),
            Column("lesson", Text, nullable=False),
            sqlite_autoincrement=True,
        )
        values = Table(
            f"{prefix}_values",
            TABLES,
            Column("feature", Text, primary_key=True),
            Column("value", Text, primary_key=True),
            Column("state", LargeBinary, nullable=False),
        )
        checkpoint = Table(
            f"{prefix}_checkpoint",
            TABLES,
            Column("layout", Integer, primary_key=True, autoincrement=False),
            Column("upto", ROW_ID, nullable=False),
            Column("gone_upto", ROW_ID, nullable=False),
            Column("jobs", ROW_ID, nullable=False),
            Column("calibration", LargeBinary, nullable=False),
            Column("more", Text),  # came later: older databases get it when they are opened
        )
        sources = Table(f"{prefix}_sources", TABLES, Column("source", Text, primary_key=True))
        return cls(jobs, values, checkpoint, sources)


class LessonLog(ABC, Generic[S, L]):
    """What a state of type ``S`` learned, as lessons of type ``L``.

    Args:
        log: gets trouble in single sentences; None: trouble is raised (BadInputError).
        outbox: gets the rows. Whoever owns it stores them.
    """

    def __init__(
        self, database: Database, log: logging.Logger | None, outbox: Outbox, tables: LessonTables
    ) -> None:
        self._log = log
        self._database = database
        self._outbox = outbox
        self._tables = tables
        self._state: S | None = None
        self._upto = 0
        self._changed: set[tuple[str, str]] = set()
        self._since_checkpoint = 0
        self._begun_anew = database.begun_anew
        self._ahead = False  # the state has lessons whose rows are not stored
        outbox.after(self._stored)

    # -- what the state is

    @abstractmethod
    def _new(self) -> S:
        """The state before any lesson."""

    @abstractmethod
    def _predictor(self, state: S) -> ThreeSigmaPredict:
        """Its feature values."""

    @abstractmethod
    def _take(self, state: S, lesson: L) -> Iterable[tuple[str, str]]:
        """Learn it. Returns the feature values that changed or were dropped."""

    @abstractmethod
    def _row(self, lesson: L) -> dict[str, Any]:
        """Its row."""

    @abstractmethod
    def _lesson(self, runtime_s: float, document: Mapping[str, Any]) -> L:
        """The lesson of a row. Raises an exception of Python for a damaged one."""

    def _more(self, state: S) -> str | None:
        """What the state has beside feature values and calibration."""
        return None

    def _restore_more(self, state: S, text: str | None) -> None:
        """Restore that. Raises ValueError for a damaged text."""

    @property
    def title(self) -> str:
        """The database's name for messages, without a password."""
        return self._database.title

    # -- its use

    def load(self) -> S:
        """All that was kept."""
        state = self._new()
        self._database.run(lambda db: self._load(db, state), None)
        self._state = state
        self._maybe_checkpoint(state)
        return state

    def save(self, state: S, ended: Sequence[L]) -> None:
        """Keep all of these lessons or none. They are learned with those of others, in the order of rows,
        when they are stored; those that have to wait are learned at once."""
        lessons = tuple(ended)

        def late() -> None:
            self._ahead = True
            for each in lessons:
                self._take(state, each)

        self._state = state
        self._outbox.add(lambda db: self._append(db, lessons), late)

    def add_source(self, source: str, lessons: Sequence[L]) -> bool:
        """Keep the lessons of a whole source (an event log) in one transaction. False, and nothing done, if
        that source was learned before."""
        table = self._tables.sources

        def add(db: Connection) -> bool:
            serialise(db)
            if db.execute(select(table).where(table.c.source == source)).first() is not None:
                return False
            db.execute(insert(table).values(source=source))
            self._append(db, lessons)
            return True

        return self._database.run(add, False, write=True)

    def has_source(self, source: str) -> bool:
        """Whether a source was learned before."""
        query = select(self._tables.sources).where(self._tables.sources.c.source == source)
        return self._database.run(lambda db: db.execute(query).first() is not None, False)

    def checkpoint(self, state: S) -> None:
        """Save the state, unless another process has already saved one as recent."""
        written: list[bool] = []
        if self._database.attempt(lambda db: written.append(self._write(db, state)), 0.5) is None and any(
            written
        ):
            self._changed.clear()
        self._since_checkpoint = 0

    def _stored(self) -> None:
        """Rows were stored: learn them with those of others."""
        state = self._state
        if state is None:
            return
        anew = self._database.begun_anew != self._begun_anew
        if anew:
            # A new file: all that is known goes into the next checkpoint.
            self._begun_anew = self._database.begun_anew
            self._upto = 0
            self._changed.update(self._predictor(state).features)
            self._since_checkpoint = ROWS_BETWEEN
        # Where this fails the next one reads the rows.
        self._database.run(lambda db: self._catch_up(db, state, anew), None)
        self._maybe_checkpoint(state)

    # -- inside transactions

    def _append(self, db: Connection, lessons: Sequence[L]) -> None:
        if lessons:
            db.execute(insert(self._tables.jobs), [self._row(each) for each in lessons])

    def _load(self, db: Connection, state: S) -> None:
        self._upto = 0
        table = self._tables.checkpoint
        found = db.execute(select(table).where(table.c.layout == _LAYOUT)).first()
        if found is not None:
            try:
                calibration = Calibration.from_bytes(found.calibration)
                rows = db.execute(select(self._tables.values))
                self._restore_more(state, found.more)
                self._predictor(state).restore(
                    found.jobs, calibration, (((r.feature, r.value), r.state) for r in rows)
                )
                self._upto = found.upto
            except (ValueError, TypeError, KeyError):
                self._say(
                    f"the checkpoint in {self._database.title} cannot be read: all stored jobs are learned "
                    "again"
                )
        self._changed.clear()
        self._replay(db, state)

    def _catch_up(self, db: Connection, state: S, anew: bool) -> None:
        """Learn all new rows."""
        last = db.execute(select(func.max(self._tables.jobs.c.id))).scalar() or 0
        if last < self._upto:  # another file than before: a process set a damaged one aside
            self._upto = 0
            self._changed.update(self._predictor(state).features)
        gone = db.execute(select(func.max(self._tables.checkpoint.c.gone_upto))).scalar()
        if self._ahead and anew:
            self._upto = last  # what the new file has was learned when it had to wait
        elif self._ahead:
            # The state has these lessons, in another order than the rows: it is made again from these.
            self._forget(state)
            self._load(db, state)
        elif gone is not None and gone > self._upto:
            self._forget(state)
            self._load(db, state)  # others went on for long: rows are gone that were not read here
        else:
            self._replay(db, state)
        self._ahead = False

    def _forget(self, state: S) -> None:
        self._predictor(state).restore(0, Calibration(), ())
        self._restore_more(state, None)

    def _replay(self, db: Connection, state: S) -> None:
        table = self._tables.jobs
        while True:
            query = select(table).where(table.c.id > self._upto).order_by(table.c.id).limit(_READ_AT_ONCE)
            rows = db.execute(query).all()
            for row in rows:
                self._upto = row.id
                self._since_checkpoint += 1
                try:
                    each = self._lesson(row.runtime_s, json.loads(row.lesson))
                except (TypeError, ValueError, KeyError, IndexError):
                    self._say(f"a job in {self._database.title} cannot be read and is left out")
                    continue
                self._changed.update(self._take(state, each))
            if len(rows) < _READ_AT_ONCE:
                return

    def _maybe_checkpoint(self, state: S) -> None:
        if self._since_checkpoint >= ROWS_BETWEEN:
            self.checkpoint(state)

    def _write(self, db: Connection, state: S) -> bool:
        serialise(db)
        table, values = self._tables.checkpoint, self._tables.values
        found = db.execute(select(table).where(table.c.layout == _LAYOUT)).first()
        if found is not None and found.upto >= self._upto:
            return False
        predictor = self._predictor(state)
        rows = []
        for feature, value in self._changed:
            db.execute(delete(values).where(values.c.feature == feature, values.c.value == value))
            known = predictor.value_bytes((feature, value))
            if known is not None:
                rows.append({"feature": feature, "value": value, "state": known})
        if rows:
            db.execute(insert(values), rows)
        gone = max(0, self._upto - ROWS_KEPT)
        db.execute(delete(self._tables.jobs).where(self._tables.jobs.c.id <= gone))
        db.execute(delete(table))
        db.execute(
            insert(table).values(
                layout=_LAYOUT,
                upto=self._upto,
                gone_upto=gone,
                jobs=predictor.jobs,
                calibration=predictor.calibration.to_bytes(),
                more=self._more(state),
            )
        )
        return True

    def _say(self, sentence: str) -> None:
        (self._log or logging.getLogger("spark_sched")).warning("%s", sentence)


def lesson_row(lesson: Lesson, **more: Any) -> dict[str, Any]:
    """A lesson as a row of `LessonLog`, with further fields in its document."""
    place = lesson.place
    document = {
        "features": lesson.features,
        "guesses_s": lesson.guesses_s,
        "place": None if place is None else [place.side, place.low, place.high, place.excess],
        "samples": lesson.samples,
        "nmae": lesson.nmae if math.isfinite(lesson.nmae) else None,
        **more,
    }
    return {"runtime_s": lesson.runtime_s, "lesson": json.dumps(document, separators=(",", ":"))}


def lesson_of(runtime_s: float, raw: Mapping[str, Any]) -> Lesson:
    """The lesson of a row's seconds and its document. Raises an exception of Python for a damaged one."""
    features = tuple((str(feature), str(value)) for feature, value in raw["features"])
    guesses = tuple(tuple(float(g) for g in each) for each in raw["guesses_s"])
    if len(features) != len(guesses) or any(len(each) not in (0, 4) for each in guesses):
        raise ValueError("no lesson")
    place = None
    if raw["place"] is not None:
        side, low, high, excess = raw["place"]
        if side not in (-1, 0, 1) or not 0.0 <= low <= high <= 1.0 or not excess >= 0.0:
            raise ValueError("no lesson")
        place = RangePosition(int(side), float(low), float(high), float(excess))
    nmae = math.inf if raw["nmae"] is None else float(raw["nmae"])
    return Lesson(features, guesses, float(runtime_s), place, int(raw["samples"]), nmae)
