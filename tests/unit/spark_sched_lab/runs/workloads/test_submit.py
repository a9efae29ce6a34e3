"""Jobs that run side by side: they do not import side by side, and iterations follow one another."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from spark_sched_lab.runs.workloads.programs import PROGRAMS
from spark_sched_lab.runs.workloads.submit import SuiteRun

# In a process of its own: here MLlib may be imported already.
PREPARED = """
import sys
from spark_sched_lab.runs.workloads.submit import SuiteRun
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


class Recorded(SuiteRun):
    """Notes starts and ends; job 0 ends only when job 2 has started."""

    def __init__(self, after: list[bool]) -> None:
        jobs = [{"workload": "sleep", "arrival_s": 0.0, "after": late} for late in after]
        super().__init__(None, jobs, in_sequence=False)  # type: ignore[arg-type]
        self.told: list[str] = []
        self.beside = threading.Event()

    def _run(self, number: int) -> None:
        self.told.append(f"{number} starts")
        if number == 2:
            self.beside.set()
        if number == 0:
            assert self.beside.wait(30)
        self.told.append(f"{number} ends")

    def _thread(self, target: Callable[..., None], *args: object) -> threading.Thread:
        return threading.Thread(target=target, args=args, daemon=True)


def test_an_iteration_starts_after_the_one_before_and_others_beside_it() -> None:
    run = Recorded([False, True, False])
    run.start()
    assert run.wait(60)
    assert run.told.index("0 ends") < run.told.index("1 starts")
    assert run.told.index("2 starts") < run.told.index("0 ends")


class Turns(SuiteRun):
    """Two lanes: the first turn of lane 0 ends only when lane 1 is in its second turn."""

    def __init__(self) -> None:
        places = [(0, 0), (0, 0), (0, 1), (1, 0), (1, 1)]
        jobs = [
            {"workload": "sleep", "arrival_s": 0.0, "after": False, "lane": lane, "turn": turn}
            for lane, turn in places
        ]
        super().__init__(None, jobs, in_sequence=False)  # type: ignore[arg-type]
        self.told: list[str] = []
        self.beside = threading.Event()

    def _run(self, number: int) -> None:
        self.told.append(f"{number} starts")
        if number == 4:
            self.beside.set()
        if number == 1:
            assert self.beside.wait(30)
        self.told.append(f"{number} ends")


def test_lanes_run_side_by_side_and_a_turn_waits_for_all_jobs_of_the_one_before() -> None:
    run = Turns()
    run.start()
    assert run.wait(60)
    order = {what: place for place, what in enumerate(run.told)}
    assert max(order["0 ends"], order["1 ends"]) < order["2 starts"]
    assert order["3 ends"] < order["4 starts"] < order["1 ends"]


def test_a_pause_takes_the_drivers_time_and_no_task() -> None:
    think = PROGRAMS["think"]
    parameters = {each.name: each.default for each in think.parameters} | {"sleepms": 1}
    assert think.run(None, parameters, 0) == (1.0,)  # type: ignore[arg-type]  # no session: no Spark job
    drawn = parameters | {"sleepms": None, "distribution": "uniform", "min": 5.0, "max": 9.0}
    assert think.pause is not None
    assert {think.pause(drawn, seed) for seed in range(200)} <= set(range(5, 10))
