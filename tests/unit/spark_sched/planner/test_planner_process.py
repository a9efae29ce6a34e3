"""The planner as the driver starts it: a process of its own."""

from __future__ import annotations

import ast
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

from spark_sched import isolated
from spark_sched.planner.process import signs_of_life
from spark_sched.planner.transport import DriverLostError
from spark_sched.policies.three_sigma.solvers import guarded

HERE = Path(__file__).parent
BATCH = HERE.parents[3] / "protocol" / "examples" / "event-batch.reset.json"
SECRET = "s3cret-of-this-test"
MAIN = ("spark_sched.planner.process", "main")


def greeting(address: str, port: int, secret: str = SECRET, folder: Path = HERE) -> dict[str, object]:
    return {
        "address": address, "port": port, "secret": secret, "app": "app-1", "session": "s-1",
        "folder": str(folder),
    }  # fmt: skip


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@contextmanager
def planner(handshake: dict[str, object] | str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, isolated.__file__, *MAIN]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True, cwd=cwd
    )
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
        pytest.skip("needs a JDK, to compile tests/unit/spark_sched/planner/FakeDriver.java")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    return str(jar)


@contextmanager
def driver(
    jar: str, settings: dict[str, str], *options: str
) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    """A JVM with the gateway that the real driver has. Yields where it listens, and the process."""
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-Xmx64m",
        *options,
        "-cp",
        jar,
        str(HERE / "FakeDriver.java"),
    ]
    arguments = [SECRET, json.dumps(settings), BATCH.read_text()]
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, *arguments], stdin=pipe, stdout=pipe, text=True)
    try:
        assert process.stdout is not None
        address, port = process.stdout.readline().split()
        yield (address, int(port)), process
    finally:
        end(process)


@pytest.mark.integration
def test_the_planner_connects_plans_and_leaves_when_its_input_ends(py4j_jar: str, tmp_path: Path) -> None:
    settings = {
        "spark.sched.reservation.isolation": "0.8",
        "spark.sched.events.path": str(tmp_path / "events.jsonl"),
        "spark.sched.history.path": str(tmp_path / "history.db"),
    }
    started_in = tmp_path / "made-by-the-driver"
    started_in.mkdir()
    with driver(py4j_jar, settings) as (at, jvm):
        with planner(greeting(*at), cwd=started_in) as process:
            assert jvm.stdout is not None
            assert jvm.stdout.readline() == "taken\n"
            known = json.loads(jvm.stdout.readline().removeprefix("policies "))
            assert {"fair", "las", "reservation"} <= set(known)
            assert jvm.stdout.readline() == "stored up to 14, abandoned 0\n"
            plan = json.loads(jvm.stdout.readline())
            assert plan["snapshot"] == 14
            assert [job["job"] for job in plan["jobs"]] == ["mark-7f3a", "spark-3"]
            command_line = Path(f"/proc/{process.pid}/cmdline")
            if command_line.exists():
                assert SECRET not in command_line.read_text()
            process.send_signal(signal.SIGINT)  # Ctrl-C in the driver's terminal is not for the planner
            assert json.loads(jvm.stdout.readline())["plan"] == 2  # sent again before the first one expires
            # Nor is the end of that terminal, or of a service that the driver is.
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            process.stdin.close()  # type: ignore[union-attr]
            assert process.wait(timeout=300) == 0
            log = process.stderr.read()  # type: ignore[union-attr]
        assert "planning for app-1" in log
        assert SECRET not in log
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 15
    assert (tmp_path / "history.db").exists()
    assert not started_in.exists()  # a driver that was killed cannot remove it


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
        driver(py4j_jar, settings) as (at, _),
        planner(greeting(*at, secret)) as process,
    ):
        assert process.wait(timeout=300) == status
        (line,) = process.stderr.read().splitlines()  # type: ignore[union-attr]
    assert words in line
    assert SECRET not in line


@pytest.mark.integration
def test_the_planner_ends_when_the_driver_dies(py4j_jar: str) -> None:
    with (
        driver(py4j_jar, {}) as (at, jvm),
        planner(greeting(*at)) as process,
    ):
        assert jvm.stdout is not None
        assert jvm.stdout.readline() == "taken\n"
        jvm.stdout.readline()
        jvm.stdout.readline()
        jvm.kill()
        assert process.wait(timeout=300) == 4
        assert "is lost" in process.stderr.read()  # type: ignore[union-attr]


def test_a_bad_handshake_ends_the_planner_with_one_clear_line() -> None:
    with planner('{"address": "::1", "port": "x", "secret": "s", "app": "a"}') as process:
        assert process.wait(timeout=300) == 2
        assert process.stderr.read().splitlines() == [  # type: ignore[union-attr]
            "ERROR the handshake's port must be a whole number from 1 to 65535, not 'x'"
        ]


def test_a_planner_whose_driver_is_not_there_says_so() -> None:
    with planner(greeting("127.0.0.1", 1)) as process:
        assert process.wait(timeout=300) == 4
        (line,) = process.stderr.read().splitlines()  # type: ignore[union-attr]
    assert line.startswith("ERROR the driver of app-1 cannot be reached")
    assert SECRET not in line


@pytest.mark.integration
def test_the_planner_finds_a_driver_that_prefers_ipv6(py4j_jar: str) -> None:
    with driver(py4j_jar, {}, "-Djava.net.preferIPv6Addresses=true") as (at, jvm):
        if ":" not in at[0]:
            pytest.skip("this machine has no IPv6 loopback address")
        with planner(greeting(*at)):
            assert jvm.stdout is not None
            assert jvm.stdout.readline() == "taken\n"


def test_the_planner_imports_nothing_from_where_it_is_started(tmp_path: Path) -> None:
    for module in ("numpy", "json", "py4j", "spark_sched"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({module!r})")
    with planner(greeting("127.0.0.1", 1, folder=tmp_path), cwd=tmp_path) as process:
        assert process.wait(timeout=300) == 4
    assert not (tmp_path / "imported").exists()


def test_a_worker_of_the_planner_imports_nothing_from_where_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('numpy')")
    done = subprocess.run(
        [sys.executable, isolated.__file__, guarded.__name__, "answer_questions", "prices"],
        stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, check=True, timeout=300,
    )  # fmt: skip
    assert b"ready" in done.stdout
    assert not (tmp_path / "imported").exists()


def test_the_package_of_the_script_is_run_whatever_else_is_installed(tmp_path: Path) -> None:
    other = tmp_path / "spark_sched"
    other.mkdir()
    shutil.copy(isolated.__file__, other)
    (other / "__init__.py").write_text("")
    (other / "say.py").write_text("def which(): print(__file__, __package__)")
    done = subprocess.run(
        [sys.executable, str(other / "isolated.py"), "spark_sched.say", "which"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(other / "say.py"), "spark_sched"]


def test_a_python_that_is_too_old_says_so_and_can_read_the_script(tmp_path: Path) -> None:
    text = Path(isolated.__file__).read_text()
    # The driver starts it with Pythons that it knows nothing of, and says what they lack.
    ast.parse(text, feature_version=(3, 6))
    (tmp_path / "isolated.py").write_text(text.replace("OLDEST = (3, 11)", "OLDEST = (99, 0)"))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "isolated.py"), *MAIN], capture_output=True, text=True, check=False
    )
    now = ".".join(map(str, sys.version_info[:2]))
    assert done.returncode == 1
    assert done.stderr == f"spark_sched needs Python 99.0 or newer, and this is {now}\n"


def test_a_module_that_a_python_lacks_is_one_line(tmp_path: Path) -> None:
    package = tmp_path / "spark_sched"
    package.mkdir()
    shutil.copy(isolated.__file__, package)
    (package / "__init__.py").touch()
    (package / "needs.py").write_text("def it():\n    import py4k.gateway\n")
    done = subprocess.run(
        [sys.executable, str(package / "isolated.py"), "spark_sched.needs", "it"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"{sys.executable}: No module named 'py4k'\n"


def test_the_planner_imports_nothing_heavy() -> None:
    code = "import sys, spark_sched.planner.process; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"scipy", "pyspark", "sqlite3", "matplotlib", "rich", "click", "importlib.metadata"}
    assert not heavy & set(loaded)


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
