"""What 3SigmaPredict has learned, in a database that several applications share.

Every ended job is a row, and the state is a function of the rows and their order alone. A process that has
the state up to some row may save it (a checkpoint), so that no process needs the earlier rows. Before it
learns its own next job, it reads the rows that others wrote in the meantime. So two applications learn from
each other, and a process that dies loses nothing that it had saved.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    text,
)

from spark_sched.history.database import ROW_ID, Database
from spark_sched.predict import LIVE_VALUES_KEPT, Lesson, ThreeSigmaPredict
from spark_sched.predict.runtimes.calibration import Calibration, RangePosition

_TABLES = MetaData()
_JOBS = Table(
    "sigma_jobs",
    _TABLES,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("runtime_s", Float, nullable=False),
    Column("lesson", Text, nullable=False),
    sqlite_autoincrement=True,
)
_VALUES = Table(
    "sigma_values",
    _TABLES,
    Column("feature", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("state", LargeBinary, nullable=False),
)
#: One row: how far the values go, how far job rows are gone, and the calibration.
_CHECKPOINT = Table(
    "sigma_checkpoint",
    _TABLES,
    Column("layout", Integer, primary_key=True, autoincrement=False),
    Column("upto", ROW_ID, nullable=False),
    Column("gone_upto", ROW_ID, nullable=False),
    Column("jobs", ROW_ID, nullable=False),
    Column("calibration", LargeBinary, nullable=False),
)
_SOURCES = Table("sigma_sources", _TABLES, Column("source", Text, primary_key=True))

_LAYOUT = 1
#: Rows that a starting planner has to replay at most, and rows kept for those who are behind.
_ROWS_BETWEEN = 500
_ROWS_KEPT = 5_000
_READ_AT_ONCE = 5_000


class StoredRuntimes:
    """A `spark_sched.predict.RuntimeStore` in SQLite or PostgreSQL.

    Args:
        where: path of the file, or ``postgresql://…``.
        log: gets trouble in single sentences; None: trouble is raised (BadInputError).
        password: of the database, where the URL has none.
    """

    def __init__(self, where: str, log: logging.Logger | None, password: str = "") -> None:
        self._log = log
        self._database = Database(where, _TABLES, log, password)
        self._upto = 0
        self._changed: set[tuple[str, str]] = set()
        self._since_checkpoint = 0
        self._begun_anew = self._database.begun_anew

    @property
    def title(self) -> str:
        """The database's name for messages, without a password."""
        return self._database.title

    def load(self) -> ThreeSigmaPredict:
        predictor = ThreeSigmaPredict(LIVE_VALUES_KEPT)
        self._database.run(lambda db: self._load(db, predictor), None)
        self._maybe_checkpoint(predictor)
        return predictor

    def save(self, predictor: ThreeSigmaPredict, ended: Sequence[Lesson]) -> None:
        """Save all of these lessons or none, and learn them with those of others, in the order of rows.

        If the database cannot be used, the lessons are still learned.
        """
        kept = self._database.run(lambda db: self._append(db, ended), False, write=True)
        if self._database.begun_anew != self._begun_anew:
            # A new file: all that is known goes into the next checkpoint.
            self._begun_anew = self._database.begun_anew
            self._upto = 0
            self._changed.update(predictor.features)
            self._since_checkpoint = _ROWS_BETWEEN
        if not kept:
            for each in ended:
                predictor.take(each)
            return
        # Where this fails the next one reads the rows.
        self._database.run(lambda db: self._catch_up(db, predictor), False)
        self._maybe_checkpoint(predictor)

    def add_source(self, source: str, lessons: Sequence[Lesson]) -> bool:
        """Keep the lessons of a whole source (an event log) in one transaction. False, and nothing done, if
        that source was learned before."""

        def add(db: Connection) -> bool:
            self._serialise(db)
            if db.execute(select(_SOURCES).where(_SOURCES.c.source == source)).first() is not None:
                return False
            db.execute(insert(_SOURCES).values(source=source))
            self._append(db, lessons)
            return True

        return self._database.run(add, False, write=True)

    def has_source(self, source: str) -> bool:
        """Whether a source was learned before."""
        query = select(_SOURCES).where(_SOURCES.c.source == source)
        return self._database.run(lambda db: db.execute(query).first() is not None, False)

    def checkpoint(self, predictor: ThreeSigmaPredict) -> None:
        """Save the state, unless another process has already saved one as recent."""
        if self._database.run(lambda db: self._write(db, predictor), False, write=True):
            self._changed.clear()
        self._since_checkpoint = 0

    def close(self) -> None:
        self._database.close()

    # -- inside transactions

    @staticmethod
    def _serialise(db: Connection) -> None:
        # Rows must become visible in the order of their numbers. SQLite has one writer at a time anyway.
        if db.dialect.name == "postgresql":
            db.execute(text("LOCK TABLE sigma_jobs IN EXCLUSIVE MODE"))

    def _append(self, db: Connection, lessons: Sequence[Lesson]) -> bool:
        if lessons:
            self._serialise(db)
            db.execute(insert(_JOBS), [_row(each) for each in lessons])
        return True

    def _load(self, db: Connection, predictor: ThreeSigmaPredict) -> None:
        self._upto = 0
        found = db.execute(select(_CHECKPOINT).where(_CHECKPOINT.c.layout == _LAYOUT)).first()
        if found is not None:
            try:
                calibration = Calibration.from_bytes(found.calibration)
                rows = db.execute(select(_VALUES))
                predictor.restore(found.jobs, calibration, (((r.feature, r.value), r.state) for r in rows))
                self._upto = found.upto
            except ValueError:
                self._say(f"the checkpoint in {self.title} cannot be read: all stored jobs are learned again")
        self._changed.clear()
        self._replay(db, predictor)

    def _catch_up(self, db: Connection, predictor: ThreeSigmaPredict) -> bool:
        """Learn all new rows."""
        last = db.execute(select(func.max(_JOBS.c.id))).scalar() or 0
        if last < self._upto:  # another file than before: a process set a damaged one aside
            self._upto = 0
            self._changed.update(predictor.features)
        gone = db.execute(select(func.max(_CHECKPOINT.c.gone_upto))).scalar()
        if gone is not None and gone > self._upto:
            self._load(db, predictor)  # others went on for long: rows are gone that were not read here
        else:
            self._replay(db, predictor)
        return True

    def _replay(self, db: Connection, predictor: ThreeSigmaPredict) -> None:
        while True:
            query = select(_JOBS).where(_JOBS.c.id > self._upto).order_by(_JOBS.c.id).limit(_READ_AT_ONCE)
            rows = db.execute(query).all()
            for row in rows:
                self._upto = row.id
                self._since_checkpoint += 1
                try:
                    each = _lesson(row.runtime_s, row.lesson)
                except (TypeError, ValueError, KeyError, IndexError):
                    self._say(f"a job in {self.title} cannot be read and is left out")
                    continue
                self._changed.update(each.features, predictor.take(each))
            if len(rows) < _READ_AT_ONCE:
                return

    def _maybe_checkpoint(self, predictor: ThreeSigmaPredict) -> None:
        if self._since_checkpoint >= _ROWS_BETWEEN:
            self.checkpoint(predictor)

    def _write(self, db: Connection, predictor: ThreeSigmaPredict) -> bool:
        self._serialise(db)
        found = db.execute(select(_CHECKPOINT).where(_CHECKPOINT.c.layout == _LAYOUT)).first()
        if found is not None and found.upto >= self._upto:
            return False
        rows = []
        for feature, value in self._changed:
            db.execute(delete(_VALUES).where(_VALUES.c.feature == feature, _VALUES.c.value == value))
            state = predictor.value_bytes((feature, value))
            if state is not None:
                rows.append({"feature": feature, "value": value, "state": state})
        if rows:
            db.execute(insert(_VALUES), rows)
        gone = max(0, self._upto - _ROWS_KEPT)
        db.execute(delete(_JOBS).where(_JOBS.c.id <= gone))
        db.execute(delete(_CHECKPOINT))
        db.execute(
            insert(_CHECKPOINT).values(
                layout=_LAYOUT,
                upto=self._upto,
                gone_upto=gone,
                jobs=predictor.jobs,
                calibration=predictor.calibration.to_bytes(),
            )
        )
        return True

    def _say(self, sentence: str) -> None:
        (self._log or logging.getLogger("spark_sched")).warning("%s", sentence)


def _row(lesson: Lesson) -> dict[str, Any]:
    place = lesson.place
    document = {
        "features": lesson.features,
        "guesses_s": lesson.guesses_s,
        "place": None if place is None else [place.side, place.low, place.high, place.excess],
        "samples": lesson.samples,
        "nmae": lesson.nmae if math.isfinite(lesson.nmae) else None,
    }
    return {"runtime_s": lesson.runtime_s, "lesson": json.dumps(document, separators=(",", ":"))}


def _lesson(runtime_s: float, document: str) -> Lesson:
    raw = json.loads(document)
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
