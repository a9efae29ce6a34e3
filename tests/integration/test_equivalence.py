"""Results are identical with and without the scheduler: pyspark's own doctests and example programs tell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
import pytest

from spark_sched.bridge import conf
from spark_sched.config import format_properties
from tests.integration.harness import ROOT

pytestmark = pytest.mark.integration

WHEEL = Path(pyspark.__file__).parent
PROGRAMS = WHEEL / "examples" / "src" / "main" / "python"
STOCK, OURS = "local[4]", "spark-sched:local[4]"
# More than a hundred programs take over twenty minutes; every twelfth runs unless this variable is set.
ALL_PROGRAMS, SAMPLE = "SPARK_SCHED_TEST_ALL_PROGRAMS", 12
MORE_STOCK_RUNS = 3
# With the examples that each has at least.
MODULES = {
    "pyspark.core.rdd": 300,
    "pyspark.core.context": 100,
    "pyspark.sql.classic.dataframe": 300,
    "pyspark.ml.clustering": 100,
}
# They wait for a database or a Hive metastore, or read formats that the wheel has no files of.
NEEDS_MORE = {
    "avro_inputformat.py", "parquet_inputformat.py", "sql/hive.py", "sql/jdbc.py", "sql/arrow.py", "als.py",
    "status_api_demo.py",
    # Its partitions double with every step, which takes minutes of Python workers.
    "transitive_closure.py",
    # The lineage of MLlib's ALS is so deep that Spark's recursion overflows the stack of unoptimized code.
    "mllib/ranking_metrics_example.py", "mllib/recommendation_example.py",
    # They draw without a seed. K-means then has so few ends that stock's runs may agree by chance.
    "pi.py", "mllib/kmeans.py", "mllib/k_means_example.py",
}  # fmt: skip


@pytest.fixture(scope="module")
def conf_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SPARK_CONF_DIR for both: it names the bridge, and the programs name the master."""
    folder = tmp_path_factory.mktemp("conf")
    # No program looks at its pages, and 200 tasks for each shuffle of ten rows take minutes.
    quick = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"}
    (folder / "spark-defaults.conf").write_text(format_properties(conf(STOCK, quick)), encoding="utf-8")
    return folder


def run_all(kind: str, master: str, names: list[str], conf_dir: Path, cwd: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.equivalence", kind, master, *names],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(WHEEL.parent)]),
            "SPARK_CONF_DIR": str(conf_dir),
            # Otherwise executors inherit whatever the first context saw.
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULTS "):
            results: dict[str, Any] = json.loads(line.removeprefix("RESULTS "))
            return results
    raise AssertionError(f"{kind} on {master} ended with {done.returncode}:\n{done.stderr[-6000:]}")


def run_both(kind: str, names: list[str], conf_dir: Path, folder: Path) -> list[dict[str, Any]]:
    """Stock's results and ours, run side by side, each in a folder of its own."""
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(run_all, kind, master, names, conf_dir, wheel_like(folder / f"both-{number}"))
            for number, master in enumerate((STOCK, OURS))
        ]
        return [run.result() for run in runs]


def wheel_like(folder: Path) -> Path:
    """A writable folder that looks like the wheel's to programs that name their data by relative path."""
    folder.mkdir()
    for name in ("data", "examples"):
        (folder / name).symlink_to(WHEEL / name)
    return folder


NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")
# Numbers of other lengths move the borders of tables.
BORDER = re.compile(r"[-+ ]+")


def same_output(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two programs printed alike, but for the last digits of what sums in order of arrival."""
    texts = [json.dumps(result, sort_keys=True) for result in (first, second)]
    words = [BORDER.sub(" ", NUMBER.sub("#", text)) for text in texts]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in texts]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-9, abs=1e-12)


def test_outputs_are_the_same_but_for_last_digits_only() -> None:
    first = {"status": 0, "out": "Scale: 1.5472326865488455\n+----+\n|1.25|\n+----+"}
    second = {"status": 0, "out": "Scale: 1.547232686548846\n+---+\n|1.25|\n+---+"}
    assert same_output(first, second)
    assert not same_output(first, second | {"status": 1})
    assert not same_output(first, {"status": 0, "out": first["out"].replace("1.25", "1.26")})
    assert not same_output(first, {"status": 0, "out": first["out"].replace("Scale", "Skale")})


def docstrings_of(failures: list[str]) -> list[str]:
    """The names in doctest's ``File "…", line 12, in NAME``."""
    return sorted({failure.rsplit(" in ", 1)[1] for failure in failures})


@pytest.mark.slow
def test_doctests_of_pyspark_end_as_they_do_on_the_stock_scheduler(conf_dir: Path, tmp_path: Path) -> None:
    ours = run_all("doctests", OURS, list(MODULES), conf_dir, wheel_like(tmp_path / "ours"))
    assert {module: result["crash"] for module, result in ours.items()} == dict.fromkeys(MODULES)
    assert {module: result["masters"] for module, result in ours.items()} == {
        module: [OURS] for module in MODULES
    }
    assert all(ours[module]["attempted"] >= least for module, least in MODULES.items())
    # An example states what it prints: stock is asked only for docstrings where one printed something else.
    again = {
        f"{module}:{','.join(docstrings_of(result['failures']))}": result["failures"]
        for module, result in ours.items()
        if result["failures"]
    }
    stock = run_all("doctests", STOCK, list(again), conf_dir, wheel_like(tmp_path / "stock")) if again else {}
    assert again == {path: result["failures"] for path, result in stock.items()}


@pytest.mark.slow
def test_example_programs_of_pyspark_print_what_they_print_on_the_stock_scheduler(
    conf_dir: Path, tmp_path: Path
) -> None:
    names = sorted(
        path.relative_to(PROGRAMS).as_posix()
        for path in PROGRAMS.rglob("*.py")
        if path.name != "__init__.py" and "streaming" not in path.relative_to(PROGRAMS).as_posix()
    )
    names = [name for name in names if name not in NEEDS_MORE]
    if not os.environ.get(ALL_PROGRAMS):
        names = names[SAMPLE // 2 :: SAMPLE]
    stock, ours = run_both("examples", names, conf_dir, tmp_path)
    assert sum(result["status"] == 0 for result in stock.values()) > 0.8 * len(names)
    assert {n: r["status"] for n, r in ours.items()} == {n: r["status"] for n, r in stock.items()}
    different = [name for name in names if not same_output(ours[name], stock[name])]
    # Others that draw without a seed are found by it: stock runs differ there as well, sooner or later.
    for number in range(MORE_STOCK_RUNS):
        if not different:
            break
        folder = wheel_like(tmp_path / f"again-{number}")
        again = run_all("examples", STOCK, different, conf_dir, folder)
        different = [name for name in different if same_output(again[name], stock[name])]
    assert different == []
