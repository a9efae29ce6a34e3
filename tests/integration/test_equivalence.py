"""Results are identical with and without the scheduler: pyspark's own doctests and example programs tell.

``python -m tests.integration.test_equivalence`` records what the programs print under Spark's own scheduler.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from spark_sched.attach import conf, find_spark
from spark_sched.attach.compiler import spark_lines
from spark_sched.config import format_properties
from tests.integration.harness import ROOT

pytestmark = pytest.mark.integration

WHEEL = Path(pyspark.__file__).parent
PROGRAMS = WHEEL / "examples" / "src" / "main" / "python"
STOCK, OURS = "local[4]", "spark-sched:local[4]"
# All take over half an hour: a sample of both runs unless this variable is set.
ALL_PROGRAMS, PROGRAMS_SAMPLE, DOCSTRINGS_SAMPLE = "SPARK_SCHED_TEST_ALL_PROGRAMS", 12, 3
MORE_STOCK_RUNS = 3
#: What the programs of the sample print under Spark's own scheduler of the newest line.
RECORDED = Path(__file__).with_name("example_outputs.json")
# With the examples that each has at least; a sample has its share of them.
MODULES = (
    {"pyspark.rdd": 300, "pyspark.context": 100, "pyspark.sql.dataframe": 300, "pyspark.ml.clustering": 100}
    if find_spark().line == "3.5"
    else {
        "pyspark.core.rdd": 300,
        "pyspark.core.context": 100,
        "pyspark.sql.classic.dataframe": 300,
        "pyspark.ml.clustering": 100,
    }
)
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
    return conf_dir_in(tmp_path_factory.mktemp("conf"))


def conf_dir_in(folder: Path) -> Path:
    """A SPARK_CONF_DIR for both: it names the bridge, and the programs name the master, which attaches."""
    # No program looks at its pages, and 200 tasks for each shuffle of ten rows take minutes.
    quick = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"}
    defaults = {**conf(OURS, quick, door="master"), "spark.master": STOCK}
    (folder / "spark-defaults.conf").write_text(format_properties(defaults), encoding="utf-8")
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
    every = 1 if os.environ.get(ALL_PROGRAMS) else DOCSTRINGS_SAMPLE
    asked = {f"{module}:{every}": module for module in MODULES}
    found = run_all("doctests", OURS, list(asked), conf_dir, wheel_like(tmp_path / "ours"))
    ours = {module: found[path] for path, module in asked.items()}
    assert {module: result["crash"] for module, result in ours.items()} == dict.fromkeys(MODULES)
    assert {module: result["masters"] for module, result in ours.items()} == {
        module: [OURS] for module in MODULES
    }
    assert all(ours[module]["attempted"] >= least / every for module, least in MODULES.items())
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
    stock: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    names = programs() if os.environ.get(ALL_PROGRAMS) else list(stock)
    if find_spark().line != spark_lines()[-1].name:
        # Other lines have other examples, which print something else.
        names, stock = [name for name in names if (PROGRAMS / name).is_file()], {}
    ours = run_all("examples", OURS, names, conf_dir, wheel_like(tmp_path / "ours"))
    if unrecorded := [name for name in names if name not in stock]:
        stock |= run_all("examples", STOCK, unrecorded, conf_dir, wheel_like(tmp_path / "stock"))
    assert {n: ours[n]["status"] for n in names} == {n: stock[n]["status"] for n in names}
    different = [name for name in names if not same_output(ours[name], stock[name])]
    # Programs that draw without a seed are found by running them again: stock runs differ there, too, sooner
    # or later. Another processor than the one that recorded may sum otherwise.
    for number in range(MORE_STOCK_RUNS):
        if not different:
            break
        again = run_all("examples", STOCK, different, conf_dir, wheel_like(tmp_path / f"again-{number}"))
        different = [
            name
            for name in different
            if same_output(again[name], stock[name]) and not same_output(again[name], ours[name])
        ]
    assert different == []
    assert sum(stock[name]["status"] == 0 for name in names) > 0.8 * len(names)


def programs() -> list[str]:
    """Those that need nothing but the wheel."""
    names = {path.relative_to(PROGRAMS).as_posix() for path in PROGRAMS.rglob("*.py")}
    return sorted(n for n in names - NEEDS_MORE if not n.endswith("__init__.py") and "streaming" not in n)


def record() -> None:
    """Run a sample twice, and record those that print the same both times."""
    names = programs()[PROGRAMS_SAMPLE // 2 :: PROGRAMS_SAMPLE]
    with tempfile.TemporaryDirectory() as folder:
        confs = conf_dir_in(Path(folder))
        one, other = (
            run_all("examples", STOCK, order, confs, wheel_like(Path(folder) / name))
            for name, order in (("forward", names), ("backward", names[::-1]))
        )
    same = {name: one[name] for name in names if same_output(one[name], other[name])}
    RECORDED.write_text(json.dumps(same, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
