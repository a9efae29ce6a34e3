"""Earlier runs on disk: shared, killed, damaged and unusable files."""

from __future__ import annotations

import contextlib
import io
import math
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sched.history.store import History
from spark_sched.planner.log import make_log
from spark_sched.predict import EarlierRun, EarlierStage
from spark_sched.state import DurationSummary


def run(ended_ms: int, *widths: int) -> EarlierRun:
    times = DurationSummary(2, 10, math.log(10) + math.log(25))
    return EarlierRun(ended_ms, tuple(EarlierStage(f"p{n}", tasks, times) for n, tasks in enumerate(widths)))


@pytest.fixture
def logged() -> io.StringIO:
    return io.StringIO()


class Runs:
    """The earlier runs of a history, each stored at once."""

    def __init__(self, path: Path | str, logged: io.StringIO) -> None:
        self.history = History(str(path), make_log(logged))
        self.load = self.history.runs.load
        self.close = self.history.close

    def save(self, name: str, run: EarlierRun, limit: int, user: str | None = None) -> None:
        self.history.runs.save(name, run, limit, user)
        self.history.seal()


def open_runs(path: Path | str, logged: io.StringIO) -> Runs:
    return Runs(path, logged)


def test_runs_are_there_after_reopening_oldest_first_and_only_the_latest(
    where: str, logged: io.StringIO
) -> None:
    first = open_runs(where, logged)
    for n in range(5):
        first.save("nightly", run(n, 4, n + 1), limit=3)
    first.save("other", run(9, 1), limit=3)
    first.close()
    again = open_runs(where, logged)
    assert again.load("nightly", 3) == [run(n, 4, n + 1) for n in (2, 3, 4)]
    assert again.load("nightly", 1) == [run(4, 4, 5)]
    assert again.load("unheard of", 3) == []
    assert logged.getvalue() == ""


def test_the_usual_pause_is_kept_and_a_database_from_before_it_goes_on(
    tmp_path: Path, logged: io.StringIO
) -> None:
    path = tmp_path / "history.db"
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, "
            "ended_ms BIGINT NOT NULL, phases TEXT NOT NULL)"
        )
        old.execute(
            """INSERT INTO runs (name, ended_ms, phases) VALUES ('nightly', 1, '[["p", 2, 0, null, 0.0]]')"""
        )
    opened = open_runs(path, logged)
    paused = EarlierRun(2, run(2, 4).stages, 180)
    opened.save("nightly", paused, limit=5)
    assert opened.load("nightly", 5) == [
        EarlierRun(1, (EarlierStage("p", 2, DurationSummary(0, None, 0.0)),)),
        paused,
    ]
    # A version that does not know of pauses still writes its runs.
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.execute("INSERT INTO runs (name, ended_ms, phases) VALUES ('nightly', 3, '[]')")
    assert [r.gap_ms for r in opened.load("nightly", 5)] == [None, 180, None]
    assert logged.getvalue() == ""


def test_a_name_is_each_users_own_and_runs_of_before_users_were_told_apart_are_everybodys(
    tmp_path: Path, logged: io.StringIO
) -> None:
    runs = open_runs(tmp_path / "history.db", logged)
    runs.save("nightly", run(0, 4), limit=2)
    runs.save("nightly", run(1, 4), 2, "alice")
    for number in (2, 3):
        runs.save("nightly", run(number, 9), 2, "eve")
    assert runs.load("nightly", 5, "alice") == [run(1, 4)]
    assert runs.load("nightly", 5, "eve") == [run(2, 9), run(3, 9)]
    runs.save("weekly", run(4, 4), 2)
    assert runs.load("weekly", 5, "alice") == [run(4, 4)]


def test_two_planners_share_a_file(tmp_path: Path, logged: io.StringIO) -> None:
    a, b = (open_runs(tmp_path / "history.db", logged) for _ in range(2))
    for n in range(4):
        (a, b)[n % 2].save("nightly", run(n, 4), limit=10)
    assert a.load("nightly", 10) == b.load("nightly", 10) == [run(n, 4) for n in range(4)]
    assert logged.getvalue() == ""


WRITER = """
import sys
sys.path.insert(0, {here!r})
from test_history import run
from spark_sched.history.store import History
from spark_sched.planner.log import make_log
history = History({path!r}, make_log(sys.stderr))
n = 0
while True:
    history.runs.save("nightly", run(n, 4, 2), limit=5)
    history.seal()
    n += 1
    if n == 20:
        print("writing", flush=True)
"""


def test_a_planner_killed_while_it_writes_leaves_a_whole_file(tmp_path: Path, logged: io.StringIO) -> None:
    path = tmp_path / "history.db"
    code = WRITER.format(here=str(Path(__file__).parent), path=str(path))
    writers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()  # type: ignore[union-attr]
    runs = open_runs(path, logged).load("nightly", 5)
    assert len(runs) == 5
    assert all(entry.stages == run(0, 4, 2).stages for entry in runs)
    assert logged.getvalue() == ""
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_a_damaged_file_is_set_aside_never_deleted_and_a_new_one_begun(
    tmp_path: Path, logged: io.StringIO
) -> None:
    path = tmp_path / "history.db"
    for n in (1, 2):
        damage = f"this is no database {n}".encode() * 100
        path.write_bytes(damage)
        runs = open_runs(path, logged)
        assert (tmp_path / f"history.db.corrupt-{n}").read_bytes() == damage
        runs.save("nightly", run(n, 4), limit=5)
        assert runs.load("nightly", 5) == [run(n, 4)]
        runs.close()
        assert f"history.db.corrupt-{n}" in logged.getvalue()


def test_a_file_damaged_while_in_use_is_set_aside_too(tmp_path: Path, logged: io.StringIO) -> None:
    path = tmp_path / "history.db"
    runs = open_runs(path, logged)
    for n in range(50):
        runs.save(f"job {n}", run(n, *range(1, 60)), limit=5)
    runs.close()
    whole = path.read_bytes()
    runs = open_runs(path, logged)
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert runs.history.database._engine is not None
    with runs.history.database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA shrink_memory")  # forget the pages read so far
    for n in range(50):
        runs.load(f"job {n}", 5)
    runs.save("nightly", run(1, 4), limit=5)
    assert runs.load("nightly", 5) == [run(1, 4)]
    assert (tmp_path / "history.db.corrupt-1").exists()


def test_a_row_that_cannot_be_read_is_left_out(tmp_path: Path, logged: io.StringIO) -> None:
    path = tmp_path / "history.db"
    runs = open_runs(path, logged)
    runs.save("nightly", run(1, 4), limit=9)
    db = sqlite3.connect(path)
    for stages in ("[[1]]", "{", '[["p", "4", 0, null, 0.0]]', '[["p", 4, 2, null, 0.0]]'):
        db.execute("INSERT INTO runs (name, ended_ms, phases) VALUES ('nightly', 2, ?)", (stages,))
    db.commit()
    db.close()
    assert runs.load("nightly", 9) == [run(1, 4)]
    assert len(logged.getvalue().splitlines()) == 1


def test_a_path_that_cannot_be_used_costs_one_warning(tmp_path: Path, logged: io.StringIO) -> None:
    (tmp_path / "file").touch()
    runs = open_runs(tmp_path / "file" / "history.db", logged)
    runs.save("nightly", run(1, 4), limit=5)
    assert runs.load("nightly", 5) == []
    lines = logged.getvalue().splitlines()
    assert [line.partition(")")[0] for line in lines] == [
        "WARNING the history " + str(tmp_path / "file" / "history.db") + " (spark.sched.history.path"
    ] * 2
    assert "waits until it can" in lines[1]
    runs.close()
    assert "what 1 job taught is lost to it" in logged.getvalue()


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path, logged: io.StringIO) -> None:
    path = tmp_path / "history.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    runs = open_runs(path, logged)
    runs.save("nightly", run(1, 4), limit=5)
    assert path.read_bytes() == before
    assert "later version" in logged.getvalue()
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_a_new_file_is_its_owners_alone(tmp_path: Path, logged: io.StringIO) -> None:
    before = os.umask(0)
    try:
        runs = open_runs(tmp_path / "history.db", logged)
        runs.save("nightly", run(1, 4), limit=5)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("history.db*")}
    finally:
        os.umask(before)
    modes.pop("history.db.lock", None)  # empty
    assert set(modes) >= {"history.db", "history.db-wal"}
    assert set(modes.values()) == {0o600}


def test_a_file_that_was_made_for_a_group_stays_open_to_it(tmp_path: Path, logged: io.StringIO) -> None:
    (tmp_path / "history.db").touch()
    (tmp_path / "history.db").chmod(0o660)
    open_runs(tmp_path / "history.db", logged).save("nightly", run(1, 4), limit=5)
    assert (tmp_path / "history.db").stat().st_mode & 0o777 == 0o660
