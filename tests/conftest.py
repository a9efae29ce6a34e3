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
from hypothesis import settings
from xdist.remote import Producer

from tests import class_archive
from tests.distribution import UnitScheduling, longest_first
from tests.environment import clean_environment, quick_jvms

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
SESSION_MASTER = "local[4]"
_PROGRAM_TIMEOUT_S = 900  # only a hang takes that long, on a crowded machine, too
# Of tests, on two cores or more. A test with Spark sleeps for half of its time: two for each core keep them
# busy. A process with its Spark's processes takes up to 2 GiB.
_PROCESSES = 4
_PROCESSES_WITH_LITTLE_MEMORY = 3
_MEMORY_GIB = 12
_HELPERS = pytest.StashKey[list[subprocess.Popen[bytes]]]()

# How many examples Hypothesis tries: few while developing, more in CI (any value of CI counts).
settings.register_profile("local", max_examples=20, deadline=None)
settings.register_profile("full", max_examples=100, deadline=None)
settings.load_profile("full" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    """The same wherever and however the tests are started."""
    # Loopback only, whatever this machine's name resolves to.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, options in (class_archive.options() or quick_jvms()).items():
        os.environ.setdefault(name, options)
    # A shell has what it starts in the background ignore Ctrl-C, and programs that tests start inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Beside the first tests of several processes, make once for all of them what each would lack.

    In a new checkout each process, and each planner that it starts, would compile the planner's inner loops
    for half a minute, and each driver would parse Spark's classes for some seconds.
    """
    if session.config.option.numprocesses:
        warm = "from spark_sched.policies.three_sigma.warm import warm_up; warm_up()"
        helpers = (["-c", warm], ["-m", class_archive.__name__])
        session.config.stash[_HELPERS] = [
            subprocess.Popen([sys.executable, *helper], cwd=ROOT) for helper in helpers
        ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that ends early leaves neither behind."""
    for helper in session.config.stash.get(_HELPERS, []):
        helper.terminate()
        helper.wait()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Several processes for the suite; only this one for files or names that were asked for."""
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword
    return 0 if chosen else processes(os.cpu_count() or 1, memory_gib())


def processes(cores: int, memory_gib: float) -> int:
    """How many run the whole suite on a machine of this size."""
    return min(2 * cores, _PROCESSES if memory_gib >= _MEMORY_GIB else _PROCESSES_WITH_LITTLE_MEMORY)


def memory_gib() -> float:
    """Of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> UnitScheduling:
    """Deals the tests to the processes."""
    return UnitScheduling(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spares each process of a run of slow tests the import of files that have none."""
    only_slow = config.option.markexpr == "slow" and collection_path.suffix == ".py"
    return True if only_slow and "mark.slow" not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order in which the processes are to take them."""
    longest_first(items)


@pytest.fixture(scope="session")
def attached_conf_dir() -> Iterator[Path]:
    """A SPARK_CONF_DIR whose spark-defaults.conf is what ``spark-sched conf`` prints."""
    from spark_sched.attach import conf
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
        typed: str = "",
        timeout_s: float = _PROGRAM_TIMEOUT_S,
    ) -> Outcome:
        folder = tmp_path / "cwd"
        folder.mkdir(exist_ok=True)
        done = subprocess.run(
            [str(word) for word in command],
            env={**clean_environment(), **(environment or {})},
            cwd=folder,
            input=typed,
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
    from spark_sched.attach import conf
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
