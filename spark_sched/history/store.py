"""The history of one planner: everything that it stores, in one database and through one outbox."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Column, Connection, Table, Text, delete, insert, select

from spark_sched.history.database import TABLES, Database
from spark_sched.history.outbox import Outbox
from spark_sched.history.runtimes import StoredRuntimes
from spark_sched.history.stages import StoredRuns
from spark_sched.history.task_times import StoredTaskTimes

#: What a policy keeps beyond its planner, as JSON.
_MEMORIES = Table(
    "policy_memory",
    TABLES,
    Column("policy", Text, primary_key=True),
    Column("memory", Text, nullable=False),
)


class History:
    """A `spark_sched.planner.keeper.Keeper`: earlier runs, runtimes, task times, and what policies remember.

    What the predictors save after the end of a job is stored by `seal`, in one transaction.

    Args:
        where: path of a SQLite file, or ``postgresql://…``.
        log: gets trouble in single sentences; None: trouble is raised (BadInputError).
        password: of the database, where the URL has none.
        session: of the driver; empty: ends of jobs have no numbers.
        drain_s: time for `close` to store what waits.
        clock_s, sleep: a monotonic clock in seconds, and a pause on it.
    """

    def __init__(
        self,
        where: str,
        log: logging.Logger | None,
        password: str = "",
        session: str = "",
        *,
        drain_s: float = 0.0,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._drain_s = drain_s
        self.database = Database(where, log, password)
        self.outbox = Outbox(self.database, log, session, clock_s=clock_s, sleep=sleep)
        self.runs = StoredRuns(self.database, log or logging.getLogger("spark_sched"), self.outbox)
        self.runtimes = StoredRuntimes(self.database, log, self.outbox)
        self.task_times = StoredTaskTimes(self.database, log, self.outbox)
        self._memory: tuple[str, str] | None = None  # a policy's name and memory, if it is not in the outbox

    @property
    def title(self) -> str:
        """The database's name for messages, without a password."""
        return self.database.title

    @property
    def waiting(self) -> int:
        """Ended jobs of which not everything is stored."""
        return self.outbox.waiting

    @property
    def given_up(self) -> int:
        """Ended jobs of which not everything could be stored."""
        return self.outbox.given_up

    def stored_upto(self) -> int:
        """The highest number of a job's end that is stored; 0: none."""
        return self.outbox.stored_upto()

    def seal(self, number: int | None = None) -> None:
        """Store what was saved since the last call as what the job's end of this number taught."""
        self._add_memory()
        self.outbox.seal(number)

    def try_again(self) -> None:
        """Try to store what waits, if it is time."""
        self.outbox.try_again()

    def close(self) -> None:
        """Store what waits, give up what cannot be stored in time, and close the database."""
        self._add_memory()
        self.outbox.finish(self._drain_s)
        self.database.close()

    def remember(self, policy: str, memory: Mapping[str, Any]) -> None:
        """Keep what a policy remembers: stored with the next job's end, or at the end."""
        self._memory = policy, json.dumps(memory, separators=(",", ":"))

    def remembered(self, policy: str) -> Mapping[str, Any] | None:
        """What the policy remembered; None: nothing that can be read."""
        query = select(_MEMORIES.c.memory).where(_MEMORIES.c.policy == policy)
        text = self.database.run(lambda db: db.execute(query).scalar(), None)
        try:
            found = None if text is None else json.loads(text)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else None

    def _add_memory(self) -> None:
        if self._memory is None:
            return
        policy, memory = self._memory
        self._memory = None

        def write(db: Connection) -> None:
            db.execute(delete(_MEMORIES).where(_MEMORIES.c.policy == policy))
            db.execute(insert(_MEMORIES).values(policy=policy, memory=memory))

        self.outbox.add(write)
