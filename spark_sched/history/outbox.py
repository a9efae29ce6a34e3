"""What waits to be stored in the history: kept while the database cannot be used, and tried again.

The history may be locked by another client for long, its disk full or its server away. Planning must not
wait for it, and what the jobs taught must not be lost. So what an ended job taught is one group of writes,
stored in one transaction with the number of the job's end. A group whose transaction failed waits, and is
tried again with a growing pause.

The driver tells a new planner of the jobs that no planner has reported as stored. A planner may have been
killed between the transaction and its report. The numbers in the database show which ends are stored already.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from sqlalchemy import Column, Connection, Table, Text, delete, func, insert, select, text

from spark_sched.history.database import ROW_ID, TABLES, Database, is_bad_row

#: Writes rows in a transaction.
Write: TypeAlias = Callable[[Connection], object]

#: The highest number of an ended job that is stored, by the driver's session; ``id`` orders sessions by age.
_ENDS = Table(
    "stored_ends",
    TABLES,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", Text, nullable=False, unique=True),
    Column("upto", ROW_ID, nullable=False),
)

#: Longest wait for a lock in the first attempt, and in later ones: planning waits meanwhile.
_FIRST_WAIT_S = 0.5
_LATER_WAIT_S = 0.1
#: Pause before the second attempt, which doubles up to the longest one.
_PAUSE_S, _PAUSE_MAX_S = 0.5, 15.0
#: While the application ends.
_LAST_PAUSE_S = 0.1
#: Groups that wait at most: beyond it the oldest is given up.
_MOST = 10_000
_AT_ONCE = 100
_SESSIONS_KEPT = 10_000


@dataclass(slots=True)
class _Group:
    """``number`` of the job's end; None: the writes belong to no end. ``late``: tell whoever wrote that they
    wait."""

    writes: list[Write] = field(default_factory=list)
    late: list[Callable[[], None]] = field(default_factory=list)
    number: int | None = None


class Outbox:
    """Groups of writes in the order of their ends. Not thread-safe.

    Args:
        log: gets a sentence when the database cannot be used, and one when it can be again. None: trouble is
            raised (BadInputError).
        session: of the driver; empty: ends have no numbers.
        clock_s, sleep: a monotonic clock in seconds, and a pause on it.
        most: groups that wait at most.
    """

    def __init__(
        self,
        database: Database,
        log: logging.Logger | None,
        session: str = "",
        *,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        most: int = _MOST,
    ) -> None:
        self._database = database
        self._log = log
        self._session = session
        self._clock_s = clock_s
        self._sleep = sleep
        self._most = most
        self._open = _Group()
        self._waiting: deque[_Group] = deque()
        self._after: list[Callable[[], None]] = []
        self._pause_s = 0.0  # 0: the last attempt succeeded
        self._again_s = 0.0
        #: Groups that were given up: there were too many, the database refuses their rows, or time was up.
        self.given_up = 0

    @property
    def waiting(self) -> int:
        """Groups that are not stored."""
        return len(self._waiting)

    def add(self, write: Write, late: Callable[[], None] = lambda: None) -> None:
        """Add to the open group.

        Args:
            write: called in the transaction; again in each attempt.
            late: called once if the first attempt fails.
        """
        self._open.writes.append(write)
        self._open.late.append(late)

    def after(self, act: Callable[[], None]) -> None:
        """Call this whenever groups have been stored."""
        self._after.append(act)

    def seal(self, number: int | None = None) -> None:
        """Close the open group and try to store it."""
        if self._open.writes:
            self._open.number = number
            self._waiting.append(self._open)
            self._open = _Group()
            self._try()

    def try_again(self) -> None:
        """Try to store what waits, if the pause is over."""
        if self._waiting and self._clock_s() >= self._again_s:
            self._try()

    def finish(self, within_s: float) -> None:
        """Store what waits, and give up what is not stored in this time."""
        self.seal()
        deadline_s = self._clock_s() + within_s
        while self._waiting and self._clock_s() < deadline_s:
            self._again_s = 0.0
            self._try()
            if self._waiting:
                self._sleep(min(_LAST_PAUSE_S, max(0.0, deadline_s - self._clock_s())))
        if self._waiting:
            lost = len(self._waiting)
            self.given_up += lost
            self._waiting.clear()
            self._say(
                f"the history {self._database.title} could not be written until the application's end "
                f"(spark.sched.planner.drainTimeout): what {_jobs(lost)} taught is lost to it"
            )

    def stored_upto(self) -> int:
        """The highest number of an end of this session that is stored; 0: none."""
        query = select(_ENDS.c.upto).where(_ENDS.c.session == self._session)
        return int(self._database.run(lambda db: db.execute(query).scalar(), None) or 0)

    # -- attempts

    def _try(self) -> None:
        if self._pause_s and self._clock_s() < self._again_s:
            self._tell_late()
            self._make_room()
            return
        stored = 0
        while self._waiting:
            groups = list(islice(self._waiting, _AT_ONCE))
            error = self._attempt(groups)
            if error is not None and is_bad_row(error):
                # One of them is refused: the others are stored each by itself.
                groups = groups[:1]
                error = self._attempt(groups)
                if error is not None and is_bad_row(error):
                    self._refused(error)
                    continue
            if error is not None:
                self._failed(error)
                break
            stored += len(groups)
            for _ in groups:
                self._waiting.popleft()
        if not self._waiting and self._pause_s:
            self._pause_s = 0.0
            self._database.recovered()
            if self._log is not None:
                self._log.info(
                    "the history %s can be used again: what %s taught is stored",
                    self._database.title,
                    _jobs(stored),
                )
        if stored:
            for act in self._after:
                act()

    def _attempt(self, groups: Sequence[_Group]) -> Exception | None:
        wait_s = _LATER_WAIT_S if self._pause_s else _FIRST_WAIT_S
        return self._database.attempt(lambda db: self._write(db, groups), wait_s)

    def _write(self, db: Connection, groups: Sequence[_Group]) -> None:
        serialise(db)
        mine = _ENDS.c.session == self._session
        found = db.execute(select(_ENDS.c.upto).where(mine)).scalar()
        upto = found or 0
        for group in groups:
            if group.number is None or group.number > upto:
                upto = max(upto, group.number or 0)
                for write in group.writes:
                    write(db)
        if upto > (found or 0):
            if found is None:
                db.execute(insert(_ENDS).values(session=self._session, upto=upto))
                last = db.execute(select(func.max(_ENDS.c.id))).scalar() or 0
                db.execute(delete(_ENDS).where(_ENDS.c.id <= last - _SESSIONS_KEPT))
            else:
                db.execute(_ENDS.update().where(mine).values(upto=upto))

    def _failed(self, error: Exception) -> None:
        self._pause_s = min(_PAUSE_MAX_S, 2.0 * self._pause_s) if self._pause_s else _PAUSE_S
        self._again_s = self._clock_s() + self._pause_s
        self._tell_late()
        self._make_room()
        self._database.report(error, ": what jobs teach waits until it can")

    def _refused(self, error: Exception) -> None:
        group = self._waiting.popleft()
        self._tell(group)
        self.given_up += 1
        self._database.report(error, ": what one job taught is lost to it")

    def _tell_late(self) -> None:
        for group in self._waiting:
            self._tell(group)

    @staticmethod
    def _tell(group: _Group) -> None:
        for late in group.late:
            late()
        group.late.clear()

    def _make_room(self) -> None:
        excess = len(self._waiting) - self._most
        for _ in range(excess):
            self._waiting.popleft()
            self.given_up += 1
        if excess > 0 and self.given_up & (self.given_up - 1) == 0:
            self._say(
                f"more than {self._most:,} jobs wait for the history {self._database.title}: what "
                f"{_jobs(self.given_up)} taught is lost to it"
            )

    def _say(self, sentence: str) -> None:
        (self._log or logging.getLogger("spark_sched")).warning("%s", sentence)


def serialise(db: Connection) -> None:
    """Let no other client write until the transaction's end: rows must become visible in the order of their
    numbers. SQLite has one writer at a time anyway."""
    if db.dialect.name == "postgresql":
        # The second one is what earlier versions lock.
        db.execute(text("LOCK TABLE stored_ends, sigma_jobs IN EXCLUSIVE MODE"))


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
