"""Runs pyspark's own doctests or example programs under a given master, all in one process.

``python -m tests.integration.equivalence doctests|examples MASTER PATH…`` prints what came out as one JSON
document. The programs name no master or ``local[4]``; both become MASTER. All else is pyspark's code. Of the
doctests of a module, MODULE:3 runs every third docstring, MODULE:NAME,NAME those of these names.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import os
import runpy
import signal
import sys
import traceback
from typing import Any

import numpy as np
import pyspark

# Against programs that hang; a crowded machine needs minutes for the longest.
_TIMEOUT_S = 900
# Programs that want arguments, and what they get; paths are below the wheel's folder.
ARGUMENTS = {
    "kmeans.py": ["data/mllib/kmeans_data.txt", "2", "0.1"],
    "logistic_regression.py": ["data/mllib/sample_svm_data.txt", "2"],
    "pagerank.py": ["data/mllib/pagerank_data.txt", "3"],
    "sort.py": ["data/mllib/als/test.data"],
    "wordcount.py": ["data/mllib/als/test.data"],
    "mllib/kmeans.py": ["data/mllib/kmeans_data.txt", "2"],
    "mllib/word2vec.py": ["data/mllib/sample_lda_data.txt"],
    "mllib/gaussian_mixture_model.py": ["data/mllib/gmm_data.txt", "2"],
}


# Of each context that was created.
_masters: list[str] = []


def _wrap(master: str) -> None:
    """Every context of this process gets the master, whatever the program asked for."""
    create = pyspark.SparkContext.__init__

    def with_master(self: Any, *args: Any, **kwargs: Any) -> None:
        if args and isinstance(args[0], str):
            args = (master, *args[1:])
        elif kwargs.get("conf") is not None:
            kwargs["conf"].setMaster(master)
        else:
            kwargs["master"] = master
        create(self, *args, **kwargs)
        _masters.append(self.master)

    pyspark.SparkContext.__init__ = with_master  # type: ignore[method-assign]


def _run(main: Any) -> dict[str, Any]:
    out = io.StringIO()
    status: object = 0
    signal.alarm(_TIMEOUT_S)
    try:
        with contextlib.redirect_stdout(out):
            main()
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException as error:
        status = type(error).__name__
        traceback.print_exc()
    finally:
        signal.alarm(0)
        if pyspark.SparkContext._active_spark_context is not None:
            pyspark.SparkContext._active_spark_context.stop()
    return {"status": status, "stdout": out.getvalue()}


#: Examples that print whatever is there after a second of the machine's time.
TIMED = ("RDD.countApprox", "RDD.meanApprox", "RDD.sumApprox")


class _Some(doctest.DocTestFinder):
    """Finds the doctests of some docstrings: of those that are named, or of every n-th that has any."""

    wanted = "1"

    def find(self, *args: Any, **kwargs: Any) -> list[doctest.DocTest]:
        found = [test for test in super().find(*args, **kwargs) if test.examples]
        if self.wanted.isdigit():
            return sorted(found)[:: int(self.wanted)]
        return [test for test in found if test.name in self.wanted.split(",")]


def doctests(path: str) -> dict[str, Any]:
    """Which examples of the module failed, of how many, on which masters; none that has a time limit."""
    name, _, docstrings = path.partition(":")
    module = importlib.import_module(name)
    # Run as a program, a module has classes of its own: their contexts would have the master that it names.
    own_test = getattr(module, "_test", None)
    found: dict[str, Any] = {}
    test, finder = doctest.testmod, doctest.DocTestFinder

    def counting(of: Any = None, **kwargs: Any) -> Any:
        result = test(of or (own_test and module), **kwargs)
        found.update(attempted=result.attempted)
        return result

    if int(np.__version__.split(".")[0]) > 1:
        # As the modules do where pandas is installed: their texts have numbers as NumPy 1 prints them.
        np.set_printoptions(legacy="1.25")
    doctest.testmod = counting
    _Some.wanted = docstrings or "1"
    doctest.DocTestFinder = _Some  # type: ignore[misc]
    _masters.clear()
    try:
        ran = _run(own_test or (lambda: runpy.run_module(name, run_name="__main__", alter_sys=True)))
    finally:
        doctest.testmod, doctest.DocTestFinder = test, finder  # type: ignore[misc]
    failures = [
        line for line in ran["stdout"].splitlines() if line.startswith("File ") and not line.endswith(TIMED)
    ]
    # A module exits with a status of its own where any example failed, those with a time limit among them.
    crash = ran["status"] if isinstance(ran["status"], str) else None
    return {**found, "failures": failures, "crash": crash, "masters": sorted(set(_masters))}


def examples(path: str) -> dict[str, Any]:
    sys.argv = [path, *ARGUMENTS.get(path, [])]
    file = os.path.join("examples", "src", "main", "python", path)
    return _run(lambda: runpy.run_path(file, run_name="__main__"))


def main(kind: str, master: str, names: list[str]) -> None:
    _wrap(master)
    results = {name: {"doctests": doctests, "examples": examples}[kind](name) for name in names}
    print("\nRESULTS " + json.dumps(results), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
