"""What waits for a history that cannot be used: kept, counted, stored later, once."""

from __future__ import annotations

import contextlib
import io
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from spark_sched.history import outbox
from spark_sched.history.database import checked_url
from spark_sched.history.store import History
from spark_sched.planner.log import make_log
from spark_sched.predict import EarlierRun, EarlierStage, Lesson, ThreeSigmaPredict, lesson
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.state import DurationSummary

RUN = EarlierRun(1, (EarlierStage("p", 4, DurationSummary(0, None, 0.0)),))


class Clock:
    """Moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Planner:
    """The history of a planner, and what it has learned."""

    def __init__(self, where: object, session: str = "s-1", drain_s: float = 1.0) -> None:
        self.logged = io.StringIO()
        self.clock = Clock()
        self.history = History(
            str(where), make_log(self.logged), session=session, drain_s=drain_s, clock_s=self.clock,
            sleep=self.clock.sleep,
        )  # fmt: skip
        self.predictor: ThreeSigmaPredict = self.history.runtimes.load()

    def ended(self, number: int, name: str = "etl") -> None:
        """A job ends: a run and a runtime."""
        self.history.runs.save(name, RUN, 1_000)
        self.history.runtimes.save(self.predictor, [self.lesson(float(number), name)])
        self.history.seal(number)

    def lesson(self, runtime_s: float, name: str) -> Lesson:
        submission = self.predictor.submit(JobAttributes(submit_s=0.0, user="ana", name=name))
        return lesson(submission, runtime_s, self.predictor.predict(submission))

    @property
    def state(self) -> dict[object, bytes | None]:
        found: dict[object, bytes | None] = {
            key: self.predictor.value_bytes(key) for key in self.predictor.features
        }
        found["calibration"] = self.predictor.calibration.to_bytes()
        return found


@contextlib.contextmanager
def locked(where: str) -> Iterator[None]:
    """Another client keeps everybody from writing."""
    if "://" not in where:
        with contextlib.closing(sqlite3.connect(where, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
        return
    engine = create_engine(checked_url(where))
    with engine.connect() as connection:
        connection.execute(text("LOCK TABLE stored_ends, runs, sigma_jobs IN EXCLUSIVE MODE"))
        yield
    engine.dispose()


def stored(where: str) -> tuple[int, int]:
    """Rows of runs and of runtimes."""
    engine = create_engine(checked_url(where))
    with engine.connect() as db:
        found = [db.execute(text(f"SELECT count(*) FROM {t}")).scalar() for t in ("runs", "sigma_jobs")]
    engine.dispose()
    return int(found[0] or 0), int(found[1] or 0)


def test_jobs_that_end_while_the_history_is_locked_are_stored_when_it_is_free(where: str) -> None:
    planner = Planner(where)
    planner.ended(1)
    with locked(where):
        for number in range(2, 16):
            planner.ended(number)
        assert planner.history.waiting == 14
        assert planner.predictor.jobs == 15  # planning knows them
        waited_s = planner.clock.now_s
        assert waited_s == 0.0  # and waited for none of the pauses
    planner.clock.sleep(60.0)
    planner.history.try_again()
    assert planner.history.waiting == planner.history.given_up == 0
    assert stored(where) == (15, 15)
    assert planner.history.stored_upto() == 15
    assert planner.predictor.jobs == 15
    assert planner.state == Planner(where).state  # as if they had been stored one by one
    assert planner.logged.getvalue().count("cannot be used now") == 1
    assert "can be used again: what 14 jobs taught is stored" in planner.logged.getvalue()
    with locked(where):
        planner.ended(16)
    assert planner.logged.getvalue().count("cannot be used now") == 2  # a new trouble is said again


def test_attempts_become_rare_while_the_history_stays_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = Planner(tmp_path / "history.db")
    attempts: list[float] = []
    attempt = planner.history.database.attempt

    def counted(*arguments: object) -> Exception | None:
        attempts.append(planner.clock.now_s)
        return attempt(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(planner.history.database, "attempt", counted)
    with locked(str(tmp_path / "history.db")):
        planner.ended(1)
        for number in range(2, 120):
            planner.clock.sleep(0.25)
            planner.ended(number)
    assert attempts == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5]
    planner.history.close()
    assert stored(str(tmp_path / "history.db")) == (119, 119)


def test_what_is_locked_until_the_end_is_given_up_with_its_number(tmp_path: Path) -> None:
    planner = Planner(tmp_path / "history.db", drain_s=2.0)
    with locked(str(tmp_path / "history.db")):
        for number in (1, 2, 3):
            planner.ended(number)
        planner.history.close()
    assert planner.history.given_up == 3
    assert "what 3 jobs taught is lost to it" in planner.logged.getvalue()
    assert "spark.sched.planner.drainTimeout" in planner.logged.getvalue()
    assert planner.clock.now_s == pytest.approx(2.0)


def test_the_oldest_are_given_up_beyond_the_bound(tmp_path: Path) -> None:
    planner = Planner(tmp_path / "history.db")
    planner.history.outbox._most = 4
    with locked(str(tmp_path / "history.db")):
        for number in range(1, 7):
            planner.ended(number, f"job-{number}")
        assert (planner.history.waiting, planner.history.given_up) == (4, 2)
    planner.history.close()
    assert stored(str(tmp_path / "history.db")) == (4, 4)
    assert "more than 4 jobs wait" in planner.logged.getvalue()


def test_an_end_that_is_told_again_is_stored_once_in_each_session(where: str) -> None:
    first = Planner(where)
    for number in (4, 9):
        first.ended(number)
    # It was killed before it could report them: the next one hears of them again.
    second = Planner(where)
    assert second.history.stored_upto() == 9
    for number in (4, 9, 12):
        second.ended(number)
    assert stored(where) == (3, 3)
    assert second.predictor.jobs == 3
    # The same numbers of another driver are other jobs.
    Planner(where, session="s-2").ended(4)
    assert stored(where) == (4, 4)


def test_all_that_a_job_teaches_is_stored_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(tmp_path / "history.db")
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        # As a kill between the two statements of the transaction does.
        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(planner.history.runtimes, "_append", killed)
        planner.ended(1)
    assert stored(str(tmp_path / "history.db")) == (0, 0)
    assert planner.history.stored_upto() == 0


def test_a_row_that_the_database_refuses_does_not_hold_up_the_others(where: str) -> None:
    planner = Planner(where)
    with locked(where):
        planner.ended(1)
        bad = Lesson((), (), None)  # type: ignore[arg-type]
        planner.history.runtimes.save(planner.predictor, [])
        planner.history.outbox.add(lambda db: planner.history.runtimes._append(db, [bad]))
        planner.history.seal(2)
        planner.ended(3)
    planner.clock.sleep(60.0)
    planner.history.try_again()
    assert (planner.history.waiting, planner.history.given_up) == (0, 1)
    assert stored(where) == (2, 2)
    assert "what one job taught is lost to it" in planner.logged.getvalue()


def test_a_file_that_is_deleted_in_use_is_made_again_with_all_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    planner = Planner(path)
    for number in range(1, 6):
        planner.ended(number)
    for file in tmp_path.glob("history.db*"):
        file.unlink()
    planner.ended(6)
    planner.history.close()
    assert "was deleted or replaced while it was in use" in planner.logged.getvalue()
    assert Planner(path).predictor.jobs == 6


def test_a_folder_that_is_not_there_for_a_while_costs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    planner = Planner(folder / "history.db")
    planner.ended(1)
    folder.rename(tmp_path / "gone")
    folder.touch()  # so that nobody can make another one
    planner.ended(2)
    assert planner.history.waiting == 1
    folder.unlink()
    (tmp_path / "gone").rename(folder)
    planner.clock.sleep(60.0)
    planner.history.try_again()
    assert stored(str(folder / "history.db")) == (2, 2)
    assert Planner(folder / "history.db").predictor.jobs == 2


def test_a_full_disk_makes_rows_wait(tmp_path: Path) -> None:
    planner = Planner(tmp_path / "history.db")
    planner.ended(1)
    engine = planner.history.database._engine
    assert engine is not None
    with engine.connect() as db:
        pages = db.exec_driver_sql("PRAGMA page_count").scalar()
        db.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    for number in range(2, 40):
        planner.ended(number)
    assert planner.history.waiting > 0
    assert "database or disk is full" in planner.logged.getvalue()
    with engine.connect() as db:
        db.exec_driver_sql("PRAGMA max_page_count = 1000000")
    planner.clock.sleep(60.0)
    planner.history.try_again()
    assert stored(str(tmp_path / "history.db")) == (39, 39)


def test_what_a_policy_remembers_is_stored_with_the_next_end_and_at_the_close(tmp_path: Path) -> None:
    planner = Planner(tmp_path / "history.db")
    assert planner.history.remembered("slearn") is None
    planner.history.remember("slearn", {"ratio": 1})
    planner.ended(1)
    assert Planner(tmp_path / "history.db").history.remembered("slearn") == {"ratio": 1}
    planner.history.remember("slearn", {"ratio": 2})
    planner.history.close()
    assert Planner(tmp_path / "history.db").history.remembered("slearn") == {"ratio": 2}


def test_sessions_are_forgotten_when_many_newer_ones_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_SESSIONS_KEPT", 2)
    for n in range(4):
        Planner(tmp_path / "history.db", session=f"s-{n}").ended(1)
    kept = [Planner(tmp_path / "history.db", session=f"s-{n}").history.stored_upto() for n in range(4)]
    assert kept == [0, 0, 1, 1]


def test_without_a_log_trouble_is_raised() -> None:
    from spark_sched.errors import BadInputError

    with pytest.raises(BadInputError, match="check the path"):
        History("/dev/null/history.db", None)
    assert logging.getLogger("spark_sched").handlers == []


def test_a_planner_that_begins_while_the_history_is_locked_knows_it_all_the_same(tmp_path: Path) -> None:
    first = Planner(tmp_path / "history.db")
    for number in range(1, 4):
        first.ended(number)
    with locked(str(tmp_path / "history.db")):
        second = Planner(tmp_path / "history.db")
        assert second.predictor.jobs == 3
        assert second.history.stored_upto() == 3
    assert second.logged.getvalue() == ""
