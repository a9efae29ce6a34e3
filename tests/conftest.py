"""What every test may use: attached sessions, programs run as users run them, and the shared data."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
SESSION_MASTER = "local[4]"
_PROGRAM_TIMEOUT_S = 300


def pytest_configure(config: pytest.Config) -> None:
    """The same wherever and however the tests are started."""
    # Loopback only, whatever this machine's name resolves to.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A shell has what it starts in the background ignore Ctrl-C, and programs that tests start inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def attached_conf_dir() -> Iterator[Path]:
    """A SPARK_CONF_DIR whose spark-defaults.conf is what ``spark-sched conf`` prints."""
    from spark_sched.bridge import conf
    from spark_sched.config import format_properties

    directory = Path(tempfile.mkdtemp(prefix="spark-sched-tests-"))
    (directory / "spark-defaults.conf").write_text(format_properties(conf(SESSION_MASTER)), encoding="utf-8")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def _spark_session(attached_conf_dir: Path) -> Iterator[object]:
    """pytest-spark's own session, which its fixtures hand out, attached by that file and nothing else."""
    from pyspark.sql import SparkSession
    from pytest_spark.config import SparkConfigBuilder

    before = os.environ.get("SPARK_CONF_DIR")
    os.environ["SPARK_CONF_DIR"] = str(attached_conf_dir)
    try:
        session = SparkSession.builder.config(conf=SparkConfigBuilder().get()).getOrCreate()
    finally:
        if before is None:
            del os.environ["SPARK_CONF_DIR"]
        else:
            os.environ["SPARK_CONF_DIR"] = before
    yield session
    session.stop()


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Everything it said."""
        return self.stdout + self.stderr


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in an empty folder, with this environment's programs first on PATH; see ``_run``."""

    def _run(
        *command: str | Path,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = _PROGRAM_TIMEOUT_S,
    ) -> Outcome:
        # A session of this process exports where its own driver listens; a program must start its own.
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_CONF"))
        }
        inherited["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
        folder = tmp_path / "cwd"
        folder.mkdir(exist_ok=True)
        done = subprocess.run(
            [str(word) for word in command],
            env={**inherited, **(environment or {})},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return _run


@pytest.fixture
def run_script(run: Run, tmp_path: Path) -> Run:
    """Run a Python script's text by spark-submit, attached to an inner master.

    ``run_script(text, "local[2]", {"spark.foo": "bar"}, ["argument"])`` gives its ``Outcome``. Without a
    master it runs on the stock ``local[2]``.
    """
    from spark_sched.bridge import conf
    from spark_sched.config import format_properties

    def _run_script(
        text: str,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        timeout_s: float = _PROGRAM_TIMEOUT_S,
    ) -> Outcome:
        script, properties_file = tmp_path / "script.py", tmp_path / "script.conf"
        script.write_text(text, encoding="utf-8")
        settings = {"spark.ui.enabled": "false", **(settings or {})}
        properties = {"spark.master": "local[2]", **settings} if master is None else conf(master, settings)
        properties_file.write_text(format_properties(properties), encoding="utf-8")
        command = ["spark-submit", "--properties-file", properties_file, script, *arguments]
        return run(*command, environment=environment, timeout_s=timeout_s)

    return _run_script


@pytest.fixture(scope="session")
def shared() -> Path:
    """The data folder beside the checkout. Mark tests that use it ``shared``."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED.name}/ is not beside this checkout: this test needs its data")
    return SHARED


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT
