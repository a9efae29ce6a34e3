"""3Sigma's history in a database: shared, atomic, safe to kill, and never deleted when damaged."""

from __future__ import annotations

import io
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from spark_sched.errors import BadInputError
from spark_sched.history import lessons
from spark_sched.history.database import checked_url
from spark_sched.history.store import History
from spark_sched.planner.log import make_log
from spark_sched.predict import Lesson, ThreeSigmaPredict, lesson
from spark_sched.predict.runtimes.features import JobAttributes


def learned(predictor: ThreeSigmaPredict, runtime_s: float, name: str = "etl", user: str = "ana") -> Lesson:
    submission = predictor.submit(JobAttributes(submit_s=0.0, user=user, name=name))
    return lesson(submission, runtime_s, predictor.predict(submission))


def state(predictor: ThreeSigmaPredict) -> dict[object, bytes | None]:
    found: dict[object, bytes | None] = {key: predictor.value_bytes(key) for key in predictor.features}
    found["calibration"] = predictor.calibration.to_bytes()
    return found


class Runtimes:
    """The runtimes of a history, each job stored at once."""

    def __init__(self, where: object, logged: io.StringIO | None) -> None:
        self.history = History(str(where), make_log(logged) if logged is not None else None)
        self.load = self.history.runtimes.load
        self.add_source = self.history.runtimes.add_source
        self.has_source = self.history.runtimes.has_source
        self.close = self.history.close

    def save(self, predictor: ThreeSigmaPredict, ended: list[Lesson]) -> None:
        self.history.runtimes.save(predictor, ended)
        self.history.seal()


def open_store(where: object, logged: io.StringIO | None = None) -> Runtimes:
    return Runtimes(where, logged)


def test_what_was_learned_is_there_again(where: str) -> None:
    store = open_store(where)
    predictor = store.load()
    for i in range(10):
        store.save(predictor, [learned(predictor, 10.0 + i)])
    store.close()
    again = open_store(where).load()
    assert again.jobs == 10
    assert state(again) == state(predictor)


def test_two_applications_learn_from_each_other(where: str) -> None:
    one, two = open_store(where), open_store(where)
    first, second = one.load(), two.load()
    for i in range(20):
        one.save(first, [learned(first, 10.0)])
        two.save(second, [learned(second, 500.0, "train", "ben")])
        # Whoever saved last has seen everything.
        assert second.jobs == 2 * (i + 1)
    one.save(first, [])
    assert state(first) == state(second) == state(open_store(where).load())


def test_a_checkpoint_replaces_the_rows_before_it(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "ROWS_BETWEEN", 10)
    monkeypatch.setattr(lessons, "ROWS_KEPT", 5)
    busy, idle = open_store(where), open_store(where)
    predictor, late = busy.load(), idle.load()
    idle.save(late, [learned(late, 3.0, "rare")])
    for i in range(43):
        busy.save(predictor, [learned(predictor, 10.0 + i % 7, f"n{i % 5}")])
    # One that was behind for longer than rows are kept takes the checkpoint.
    idle.save(late, [learned(late, 4.0, "rare")])
    busy.save(predictor, [])
    fresh = open_store(where).load()
    assert fresh.jobs == late.jobs == predictor.jobs == 45
    assert state(fresh) == state(late) == state(predictor)


def test_a_batch_is_kept_whole_or_not_at_all_and_a_source_once(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    store = open_store(path)
    predictor = store.load()
    three = [learned(predictor, 5.0) for _ in range(3)]
    assert store.add_source("log-1", three)
    assert not store.add_source("log-1", three)
    assert store.has_source("log-1")
    broken = [three[0], Lesson((), (), None)]  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="cannot be used"):
        store.add_source("log-2", broken)
    assert not store.has_source("log-2")
    assert open_store(path).load().jobs == 3


def test_a_damaged_file_is_set_aside_and_the_planner_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"this is no database at all" * 100)
    logged = io.StringIO()
    store = open_store(path, logged)
    predictor = store.load()
    store.save(predictor, [learned(predictor, 10.0)])
    assert (tmp_path / "history.db.corrupt-1").read_bytes().startswith(b"this is no database")
    assert "is damaged" in logged.getvalue()
    assert "history.db.corrupt-1" in logged.getvalue()
    store.close()
    assert open_store(path).load().jobs == 1


def test_a_damaged_row_or_checkpoint_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lessons, "ROWS_BETWEEN", 4)
    path = tmp_path / "history.db"
    store = open_store(path)
    predictor = store.load()
    for _ in range(6):
        store.save(predictor, [learned(predictor, 10.0)])
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sigma_jobs SET lesson = '{}' WHERE id = 6")
        db.execute("UPDATE sigma_values SET state = x'00'")
    logged = io.StringIO()
    again = open_store(path, logged).load()
    assert again.jobs == 5
    assert "cannot be read" in logged.getvalue()


def test_a_place_that_cannot_be_used_costs_a_warning_or_is_refused(tmp_path: Path) -> None:
    logged = io.StringIO()
    (tmp_path / "file").write_text("no folder")
    place = tmp_path / "file" / "history.db"
    store = open_store(place, logged)
    predictor = store.load()
    store.save(predictor, [learned(predictor, 10.0)])
    assert predictor.jobs == 1
    assert "cannot be used now" in logged.getvalue()
    with pytest.raises(BadInputError, match="check the path"):
        open_store(place)
    with pytest.raises(BadInputError, match="postgresql://"):
        open_store("mysql://host/db")


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "ACCESS EXCLUSIVE"])
def test_a_client_that_keeps_a_lock_on_postgresql_makes_others_wait_and_lose_nothing(
    postgresql: str, lock: str
) -> None:
    where, logged = postgresql, io.StringIO()
    store, stuck = open_store(where, logged), create_engine(checked_url(where))
    predictor = store.load()
    with stuck.connect() as other:
        other.execute(text(f"LOCK TABLE sigma_jobs, stored_ends IN {lock} MODE"))
        store.save(predictor, [learned(predictor, 10.0)])
        assert predictor.jobs == 1
        assert store.history.waiting == 1
        newcomer = open_store(where, logged)
        newcomer.save(newcomer.load(), [learned(predictor, 20.0)])
    stuck.dispose()
    newcomer.close()
    store.history.outbox.finish(60.0)
    store.save(predictor, [learned(predictor, 30.0)])
    assert "cannot be used now (another client holds a lock on it)" in logged.getvalue()
    again = open_store(where).load()
    # A newcomer whose database is never free again until its end gives up.
    assert again.jobs == predictor.jobs == 3 - newcomer.history.given_up
    assert state(again) == state(predictor)


WRITER = """
import sys
from spark_sched.predict import lesson
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.history import database, lessons, outbox
from spark_sched.history.store import History

lessons.ROWS_BETWEEN = 7
# The other writer may be paused while it has the file.
database._BUSY_S = database._LOCK_S = outbox._FIRST_WAIT_S = 300.0
history = History(sys.argv[1], None)
store = history.runtimes
predictor = store.load()
for i in range(100_000):
    submission = predictor.submit(JobAttributes(submit_s=float(i), user=sys.argv[2], name=f"n{i % 3}"))
    store.save(predictor, [lesson(submission, 10.0 + i % 5, predictor.predict(submission))] * 2)
    history.seal()
    print(i, flush=True)
"""


def test_kill_9_of_one_of_two_writers_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    saved = 0
    for round_ in range(3):
        writers = []
        for user in ("ana", "ben"):
            output = (tmp_path / f"{user}-{round_}").open("wb")
            command = [sys.executable, "-c", WRITER, str(path), user]
            writers.append((subprocess.Popen(command, stdout=output), tmp_path / f"{user}-{round_}"))
        deadline = time.monotonic() + 600.0
        while any(log.stat().st_size < 20 for _, log in writers) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process, _ in writers:
            process.send_signal(signal.SIGKILL)
        for process, log in writers:
            assert process.wait() == -signal.SIGKILL
            saved += log.read_bytes().count(b"\n")
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = open_store(path).load().jobs
    # Pairs are kept whole. A kill may fall between the commit and the line that says so, once per writer.
    assert found % 2 == 0
    assert 2 * saved <= found <= 2 * (saved + 6)
    assert saved >= 6
