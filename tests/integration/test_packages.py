"""From an empty folder: spark-submit takes the bridge from a Maven repository; no Python has the package."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from spark_sched import __version__
from spark_sched.attach import find_spark
from spark_sched.attach.compiler import plan_build, spark_lines
from tests import spark_lines as sparks
from tests.conftest import ROOT, Run
from tests.environment import QUICK_JAVA

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PLUGIN = "org.apache.spark.scheduler.sparksched.SchedPlugin"
# A job of two stages with one slow task, beside more background tasks than fit. Times are of one machine.
PROGRAM = """
import importlib.util, json, sys, time
from pathlib import Path
from pyspark import InheritableThread
from pyspark.sql import SparkSession

sc = SparkSession.builder.getOrCreate().sparkContext
begun = Path(sys.argv[1]) / "begun"

def first(index, rows):
    begun.mkdir(exist_ok=True)
    (begun / str(index)).touch()
    while len(list(begun.iterdir())) < 4:
        time.sleep(0.05)
    time.sleep(3.0 if index == 0 else 1.0)
    yield index, time.time()

def second(rows):
    started = time.time()
    ended = [at for _, at in rows]
    yield started, ended

def other(_):
    at = time.time()
    time.sleep(0.3)
    return at

sc.parallelize(range(4), 4).count()
found = []

def background():
    while not begun.is_dir() or len(list(begun.iterdir())) < 4:
        time.sleep(0.05)
    found.extend(sc.parallelize(range(24), 24).map(other).collect())

thread = InheritableThread(target=background)
thread.start()
sc.setLocalProperty("spark.sched.job.name", "nightly")
sc.setLocalProperty("spark.sched.job.priority", "10")
pairs = sc.parallelize(range(4), 4).mapPartitionsWithIndex(first)
rows = pairs.partitionBy(4).mapPartitions(second).collect()
thread.join()
free = sorted(at for _, ended in rows for at in ended)[0]
until = max(started for started, _ in rows)
entry = sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched
attached = type(entry).__name__ == "JavaClass" and entry.attached(sc._jsc.sc())
counters = json.loads(entry.counters(sc._jsc.sc())) if attached else {}
print(json.dumps({
    "attached": attached,
    "intruders": sum(free < at < until for at in found),
    "background_tasks": len(found),
    "counters": counters,
    "package": importlib.util.find_spec("spark_sched") is not None,
    "version": sc.version,
}))
sc.stop()
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


# A marked job under a planner, which is then killed.
PLANNED = """
import importlib.util, json, os, re, shutil, signal, subprocess, time
from pyspark.sql import SparkSession

sc = SparkSession.builder.getOrCreate().sparkContext
entry = sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched

def counters():
    return json.loads(entry.counters(sc._jsc.sc()))

def until(holds):
    end = time.monotonic() + 600
    while not holds(counters()):
        assert time.monotonic() < end, counters()
        time.sleep(0.05)

until(lambda now: now["planner_pid"] > 0)
sc.setLocalProperty("spark.sched.job.name", "nightly")
sc.parallelize(range(8), 4).map(lambda n: (n % 2, n)).reduceByKey(int.__add__, 4).collect()
sc.setLocalProperty("spark.sched.job.name", None)
until(lambda now: now["plans_accepted"] > 0)
first = counters()["planner_pid"]
# As one that cleans temporary files does.
shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(first)], capture_output=True, text=True)
shutil.rmtree(re.search(r"/\\S*/spark-sched-package-[^/\\s]*", shown.stdout)[0])
os.kill(first, signal.SIGKILL)
until(lambda now: now["planner_pid"] not in (-1, first))
print(json.dumps({
    "counters": counters(),
    "package": importlib.util.find_spec("spark_sched") is not None,
}))
sc.stop()
"""
ATTACHED = """
import json
from pyspark.sql import SparkSession

sc = SparkSession.builder.getOrCreate().sparkContext
assert sc.parallelize(range(10), 2).sum() == 45
entry = sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched
print(json.dumps({
    "attached": entry.attached(sc._jsc.sc()),
    "class_path": sc.getConf().get("spark.driver.extraClassPath"),
    "version": sc.version,
}))
sc.stop()
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed wheel of `tools/publish.py`; skips where pip cannot have a Spark."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, str(ROOT / "tools" / "publish.py"), str(folder), "--wheel"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 2 and "pip cannot download" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(done.stdout.strip()) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def python_with(folder: Path, *modules: str) -> str:
    """A Python with these modules of this one, and nothing else but what Python itself brings."""
    venv.create(folder / "python", with_pip=False)
    (packages,) = (folder / "python" / "lib").glob("python*/site-packages")
    for name in modules:
        # Not every version of a package has all of them.
        if (ours := Path(sysconfig.get_path("purelib")) / name).exists():
            (packages / name).symlink_to(ours)
    return str(folder / "python" / "bin" / "python")


def from_repository(run: Run, repository: Path) -> tuple[str, ...]:
    """The options by which spark-submit attaches."""
    coordinates = publish(run, repository)
    plugin = ("--conf", f"spark.plugins={PLUGIN}")
    return ("--packages", coordinates, "--repositories", repository.as_uri(), *plugin)


def application(
    run: Run, folder: Path, python: str, program: str, master: str, *options: str
) -> tuple[dict[str, Any], str]:
    """What the program printed, a JSON document, and the driver's log. It is started in an empty folder."""
    folder.mkdir()
    file = folder.parent / "app.py"
    file.write_text(program)
    done = run(
        *(find_spark().home / "bin" / "spark-submit", "--master", master, *options),
        *("--conf", f"spark.driver.defaultJavaOptions={QUICK_JAVA}"),
        *("--conf", f"spark.executor.defaultJavaOptions={QUICK_JAVA}"),
        *("--conf", f"spark.jars.ivy={folder.parent / 'ivy'}", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.python.daemon.module=pyspark.daemon"),
        *(file, folder),
        environment={"PYSPARK_PYTHON": python, "SPARK_HOME": str(find_spark().home), "PYTHONPATH": ""},
    )
    assert done.status == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert not found["package"]
    return found, done.stderr


def publish(run: Run, repository: Path) -> str:
    done = run(sys.executable, ROOT / "tools" / "publish.py", repository)
    assert done.status == 0, done.output
    return done.stdout.strip()


def test_an_application_from_a_repository_isolates_a_job_that_local_properties_mark(
    run: Run, repository: Path, tmp_path: Path
) -> None:
    attaching = from_repository(run, repository)
    # Its own Python has nothing but what Python itself brings; Spark adds its pyspark.
    python = python_with(tmp_path)
    # The python3 on PATH may have the package.
    alone = ("--conf", f"spark.sched.planner.python={python}")
    ours, log = application(
        run, tmp_path / "ours", python, PROGRAM, "local-cluster[2,2,1024]", *attaching, *alone
    )
    assert ours["attached"]
    assert ours["background_tasks"] == 24
    assert ours["intruders"] == 0
    assert ours["counters"]["holds_used"] >= 3
    assert ours["counters"]["slots_held_now"] == 0
    # The configured rules apply, and the log says once what a planner lacks.
    assert ours["counters"]["plans_accepted"] == 0
    assert log.count("No planner runs") == 1
    assert f"No planner runs ({python}: No module named 'numpy'), and the configured rules apply." in log
    stock, _ = application(run, tmp_path / "stock", python, PROGRAM, "local-cluster[2,2,1024]")
    assert not stock["attached"]
    assert stock["background_tasks"] == 24
    assert stock["intruders"] > 0


def test_a_python_with_numpy_but_without_the_package_runs_the_planner_of_the_jar(
    run: Run, repository: Path, tmp_path: Path
) -> None:
    """It sends plans, and stores what a job teaches where the Python has what a history needs. The next one
    starts although the package's files have been cleaned away."""
    history = tmp_path / "history.db"
    python = python_with(
        tmp_path, "numpy", "numpy.libs", "sqlalchemy", "typing_extensions.py", "filelock", "greenlet"
    )
    found, log = application(
        run, tmp_path / "planned", python, PLANNED, "local[2]", *from_repository(run, repository),
        *("--conf", f"spark.sched.history.path={history}", "--conf", "spark.pyspark.driver.python=" + python),
        # The last planner may still be starting when the application ends.
        *("--conf", "spark.sched.planner.drainTimeout=5min"),
    )  # fmt: skip
    assert found["counters"]["plans_accepted"] > 0
    assert found["counters"]["planner_pid"] > 0
    # The package of its own, which is not there; the jar's; the jar's again, since that planner was killed.
    assert found["counters"]["planner_starts"] == 3
    assert "No planner runs" not in log
    with sqlite3.connect(history) as db:
        assert db.execute("SELECT count(*) FROM runs WHERE name = 'nightly'").fetchone() == (1,)


# Of 4.3, and of a line that another Scala compiles.
@pytest.mark.parametrize("line", [find_spark().line, "3.5"])
def test_a_released_wheel_attaches_without_a_compiler(
    run: Run, released: Path, tmp_path: Path, line: str
) -> None:
    newest = {each.name: each.newest for each in spark_lines()}[line]
    home = sparks.home(newest)
    program = tmp_path / "attached.py"
    program.write_text(ATTACHED)
    done = run(
        *(sys.executable, "-m", "spark_sched", "submit", "--master", "local[2]"),
        *("--conf", "spark.ui.enabled=false", program),
        environment={
            "PYTHONPATH": os.pathsep.join(map(str, (released, home.parent))),
            "SPARK_HOME": str(home),
            "SPARK_SCHED_CACHE_DIR": str(tmp_path / "cache"),
        },
    )
    assert done.status == 0, done.output
    assert "compiling" not in done.stderr
    assert list((tmp_path / "cache").glob("*")) == []
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"] == newest
    assert found["attached"]
    (jar,) = [Path(each) for each in found["class_path"].split(os.pathsep) if "bridge" in each]
    assert jar.parent == released / "spark_sched" / "attach" / "jars"
    assert jar.name.startswith(f"spark-sched-bridge_{line}_")


def test_a_released_wheel_has_a_bridge_for_each_line(released: Path) -> None:
    jars = sorted(path.name for path in (released / "spark_sched" / "attach" / "jars").iterdir())
    planned = plan_build(sources=released / "spark_sched" / "_jvm")
    assert planned.line_jar_name in jars
    assert [name.split("_")[1:3] for name in jars] == [[e.name, e.scala_line] for e in spark_lines()]


def test_an_artifact_has_all_that_a_repository_asks_for(run: Run, repository: Path) -> None:
    group, artifact, version = publish(run, repository).split(":")
    spark = find_spark()
    assert (group, artifact) == ("io.github.spark-sched", f"spark-sched-bridge_{spark.line}_{spark.scala}")
    assert version == __version__
    folder = repository.joinpath(*group.split("."), artifact, version)
    name = f"{artifact}-{version}"
    files = {f"{name}.jar", f"{name}-sources.jar", f"{name}.pom", f"{name}-cyclonedx.json"}
    sums = {f"{file}.{each}" for file in files for each in ("md5", "sha1", "sha256", "sha512")}
    assert {path.name for path in folder.iterdir()} == files | sums
    for each in sums:
        file, _, algorithm = each.rpartition(".")
        expected = hashlib.new(algorithm, (folder / file).read_bytes()).hexdigest()
        assert (folder / each).read_text() == expected
    with zipfile.ZipFile(folder / f"{name}.jar") as jar_file:
        wheel = jar_file.read("spark-sched-planner.whl")
    with zipfile.ZipFile(io.BytesIO(wheel)) as carried:
        assert "spark_sched/planner/process.py" in carried.namelist()
        assert [file for file in carried.namelist() if file.endswith(".jar")] == []
    with zipfile.ZipFile(folder / f"{name}-sources.jar") as sources:
        assert len([file for file in sources.namelist() if file.endswith(".scala")]) == len(
            plan_build().scala
        )
    bill = json.loads((folder / f"{name}-cyclonedx.json").read_text())
    jar = (folder / f"{name}.jar").read_bytes()
    assert bill["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(jar).hexdigest()
    (inside,) = bill["components"]
    assert inside["hashes"][0]["content"] == hashlib.sha256(wheel).hexdigest()
    assert bill["dependencies"][0]["dependsOn"] == [inside["bom-ref"]]


def test_a_version_is_published_once(run: Run, repository: Path) -> None:
    publish(run, repository)
    (pom,) = repository.rglob("*.pom")
    text = pom.read_text()
    pom.write_text(text.replace("jar", "pom"))
    done = run(sys.executable, ROOT / "tools" / "publish.py", repository)
    assert done.status == 2
    assert f"{pom} is there with other contents" in done.stderr
    pom.write_text(text)
