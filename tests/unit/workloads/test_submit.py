"""Jobs that run side by side do not import side by side."""

import subprocess
import sys

import pytest

# In a process of its own: here MLlib may be imported already.
PREPARED = """
import sys
from spark_sched.workloads.submit import SuiteRun
assert "pyspark" not in sys.modules
SuiteRun(None, [{"workload": name} for name in sys.argv[1].split(",")], in_sequence=False)
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""
ML, CLUSTERING, REGRESSION = (
    "pyspark.ml.classification",
    "pyspark.mllib.clustering",
    "pyspark.mllib.regression",
)


@pytest.mark.parametrize(
    ("workloads", "imported"),
    [
        ("sleep", []),
        ("svm", [REGRESSION]),
        ("lr-bml,kmeans", [ML, CLUSTERING]),
    ],
)
def test_mllib_is_imported_before_any_job_has_its_thread(workloads: str, imported: list[str]) -> None:
    command = [sys.executable, "-c", PREPARED, workloads, ML, CLUSTERING, REGRESSION]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert set(imported) <= set(found)
    assert imported or not found
