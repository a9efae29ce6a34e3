"""The planner as the driver starts it: a process of its own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from spark_sched.runtime.planner import signs_of_life
from spark_sched.runtime.transport import DriverLostError

HERE = Path(__file__).parent
BATCH = HERE.parents[2] / "protocol" / "examples" / "event-batch.reset.json"
SECRET = "s3cret-of-this-test"


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@contextmanager
def planner(handshake: dict[str, object] | str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "spark_sched.runtime.planner"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True)
    try:
        assert process.stdin is not None
        process.stdin.write((handshake if isinstance(handshake, str) else json.dumps(handshake)) + "\n")
        process.stdin.flush()
        yield process
    finally:
        end(process)


@pytest.fixture
def py4j_jar() -> str:
    java = shutil.which("java")
    listed = (
        subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True) if java else None
    )
    if listed is None or "jdk.compiler" not in listed.stdout:
        pytest.skip("needs a JDK, to compile tests/unit/runtime/FakeDriver.java")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    return str(jar)


@contextmanager
def driver(jar: str, settings: dict[str, str]) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A JVM with the gateway that the real driver has. Yields its port and process."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx64m", "-cp", jar, str(HERE / "FakeDriver.java")]
    arguments = [SECRET, json.dumps(settings), BATCH.read_text()]
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, *arguments], stdin=pipe, stdout=pipe, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process
    finally:
        end(process)


@pytest.mark.integration
def test_the_planner_connects_plans_and_leaves_when_its_input_ends(py4j_jar: str, tmp_path: Path) -> None:
    settings = {
        "spark.sched.reservation.isolation": "0.8",
        "spark.sched.events.path": str(tmp_path / "events.jsonl"),
        "spark.sched.history.path": str(tmp_path / "history.db"),
    }
    with driver(py4j_jar, settings) as (port, jvm):
        with planner({"port": port, "secret": SECRET, "app": "app-1"}) as process:
            assert jvm.stdout is not None
            plan = json.loads(jvm.stdout.readline())
            assert plan["snapshot"] == 14
            assert [job["job"] for job in plan["jobs"]] == ["mark-7f3a", "spark-3"]
            command_line = Path(f"/proc/{process.pid}/cmdline")
            if command_line.exists():
                assert SECRET not in command_line.read_text()
            process.send_signal(signal.SIGINT)  # Ctrl-C in the driver's terminal is not for the planner
            assert json.loads(jvm.stdout.readline())["plan"] == 2  # sent again before the first one expires
            process.stdin.close()  # type: ignore[union-attr]
            assert process.wait(timeout=60) == 0
            log = process.stderr.read()  # type: ignore[union-attr]
        assert "planning for app-1" in log
        assert SECRET not in log
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 15
    assert (tmp_path / "history.db").exists()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("secret", "settings", "status", "words"),
    [
        ("wrong", {}, 4, "the driver of app-1 cannot be reached"),
        (SECRET, {"spark.sched.planner.policy": "resevation"}, 2, "did you mean 'reservation'?"),
        (SECRET, {"spark.sched.planner.interval": "soon"}, 2, "spark.sched.planner.interval is 'soon'"),
    ],
    ids=["a wrong secret", "an unknown policy", "a wrong setting"],
)
def test_the_planner_ends_with_one_clear_line_for(
    py4j_jar: str, secret: str, settings: dict[str, str], status: int, words: str
) -> None:
    with (
        driver(py4j_jar, settings) as (port, _),
        planner({"port": port, "secret": secret, "app": "app-1"}) as process,
    ):
        assert process.wait(timeout=60) == status
        (line,) = process.stderr.read().splitlines()  # type: ignore[union-attr]
    assert words in line
    assert SECRET not in line


@pytest.mark.integration
def test_the_planner_ends_when_the_driver_dies(py4j_jar: str) -> None:
    with (
        driver(py4j_jar, {}) as (port, jvm),
        planner({"port": port, "secret": SECRET, "app": "app-1"}) as process,
    ):
        assert jvm.stdout is not None
        jvm.stdout.readline()
        jvm.kill()
        assert process.wait(timeout=60) == 4
        assert "is lost" in process.stderr.read()  # type: ignore[union-attr]


def test_a_bad_handshake_ends_the_planner_with_one_clear_line() -> None:
    with planner('{"port": "x", "secret": "s", "app": "a"}') as process:
        assert process.wait(timeout=60) == 2
        assert process.stderr.read().splitlines() == [  # type: ignore[union-attr]
            "ERROR the handshake's port must be a whole number from 1 to 65535, not 'x'"
        ]


def test_a_planner_whose_driver_is_not_there_says_so() -> None:
    with planner({"port": 1, "secret": SECRET, "app": "app-1"}) as process:
        assert process.wait(timeout=60) == 4
        (line,) = process.stderr.read().splitlines()  # type: ignore[union-attr]
    assert line.startswith("ERROR the driver of app-1 cannot be reached")
    assert SECRET not in line


def test_the_planner_imports_nothing_heavy() -> None:
    code = "import sys, spark_sched.runtime.planner; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"scipy", "pyspark", "sqlite3", "matplotlib", "rich", "click"} & set(loaded)


def test_a_planner_that_takes_its_time_to_start_gives_signs_of_life() -> None:
    told = threading.Event()

    class Patient:
        def alive(self) -> None:
            told.set()

    with signs_of_life(Patient(), every_s=0.001):  # type: ignore[arg-type]
        assert told.wait(60)


def test_signs_of_life_end_with_the_driver_and_with_the_start() -> None:
    calls = []
    gone = threading.Event()

    class Gone:
        def alive(self) -> None:
            calls.append(1)
            gone.set()
            raise DriverLostError("gone")

    with signs_of_life(Gone(), every_s=0.001):  # type: ignore[arg-type]
        assert gone.wait(60)
    names = [thread for thread in threading.enumerate() if thread.name == "spark-sched-signs-of-life"]
    for thread in names:
        thread.join(60)
        assert not thread.is_alive()
    assert calls == [1]
