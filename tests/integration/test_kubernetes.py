"""Kubernetes in client and in cluster mode, on the oldest and the newest line of Spark."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spark_sched.attach import build, find_spark
from spark_sched.attach.compiler import SparkLine, spark_lines
from spark_sched.config import read_properties
from spark_sched.errors import BadInputError
from tests.clusters.kubernetes import KubernetesCluster, Pod, kubernetes_cluster
from tests.conftest import ROOT, Run
from tests.environment import QUICK_JAVA
from tests.integration.processes import until
from tests.integration.test_lines import all_duties_done, environment_of
from tests.integration.test_reservation import LONG_PAUSES, nothing_leaked

pytestmark = [pytest.mark.integration, pytest.mark.slow]

OLDEST, *_, NEWEST = spark_lines()
PROGRAM = ROOT / "tests" / "integration" / "submitted_app.py"


@pytest.fixture(scope="module")
def cluster() -> Iterator[KubernetesCluster]:
    try:
        with kubernetes_cluster() as running:
            yield running
    except BadInputError as error:
        pytest.skip(str(error))


class Kubernetes:
    """Gives applications to a cluster."""

    def __init__(self, run: Run, cluster: KubernetesCluster, folder: Path) -> None:
        self._run = run
        self._cluster = cluster
        self._folder = folder
        self.master = f"k8s://{cluster.url}"

    def submit(
        self,
        scenario: str,
        mode: str,
        line: SparkLine = NEWEST,
        settings: Mapping[str, str] | None = None,
        executors: Sequence[str] = ("--num-executors", "2"),
    ) -> dict[str, Any]:
        """The result of an application with the properties of ``spark-sched conf``, and with these."""
        there = environment_of(line)
        file = self._folder / "app.conf"
        given = {**self.settings(line), **(settings or {})}
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        conf = ("spark-sched", "conf", "--master", self.master, *words, "--out", file)
        made = self._run(*conf, environment=there)
        assert made.status == 0, made.output
        return self.submit_with(("--properties-file", str(file)), scenario, mode, line, executors)

    def submit_with(
        self,
        options: Sequence[str],
        scenario: str,
        mode: str,
        line: SparkLine = NEWEST,
        executors: Sequence[str] = ("--num-executors", "2"),
    ) -> dict[str, Any]:
        """The result of an application that spark-submit gets with these options.

        Its own result is that of the scenario; ``log`` is what its driver has logged.
        """
        program = f"local://{PROGRAM}" if mode == "cluster" else str(PROGRAM)
        done = self._run(
            *(_home(line) / "bin" / "spark-submit", *options, "--deploy-mode", mode),
            *(*executors, "--executor-cores", "2"),
            *(program, "kubernetes_scenarios", scenario, self._folder),
            environment={**environment_of(line), "PYTHONPATH": _paths(line)},
        )
        result = self._folder / "result"
        if done.status != 0 or not result.is_file():
            raise AssertionError(f"{done.output[-6000:]}\n{self._cluster.logs()}")
        found: dict[str, Any] = json.loads(result.read_text())
        assert (found["attached"], found["master"], found["plugins"]) == (True, self.master, "")
        self._nothing_left(found)
        drivers = [pod for pod in self.pods(found["application"]) if pod.labels["spark-role"] == "driver"]
        assert [pod.phase for pod in drivers] == (["Succeeded"] if mode == "cluster" else [])
        return {**found, "log": self._cluster.log(drivers[0]) if drivers else done.output}

    def pods(self, application: str) -> list[Pod]:
        """Those that the API has of an application."""
        return [pod for pod in self._cluster.pods() if pod.labels.get("spark-app-selector") == application]

    def _nothing_left(self, found: dict[str, Any]) -> None:
        """No pod of an executor is left, and no process of a pod, and no planner."""
        pods = self.pods(found["application"])
        assert all(pod.labels["spark-role"] == "driver" for pod in pods), pods
        assert until(lambda: not self._cluster.processes()), self._cluster.processes()
        planner = found["counters"]["planner_pid"]
        assert until(lambda: not Path(f"/proc/{planner}").exists()), planner

    def settings(self, line: SparkLine) -> dict[str, str]:
        """Of the cluster, and of every application here."""
        token = self._folder / "token"
        token.write_text("none")
        mounted = "spark.kubernetes.authenticate.driver.mounted"
        return {
            **dict(setting.split("=", 1) for setting in LONG_PAUSES),
            "spark.kubernetes.container.image": str(_home(line)),
            # Of a driver in a pod, with what it would find in its pod.
            "spark.kubernetes.driver.master": self._cluster.url,
            f"{mounted}.oauthTokenFile": str(token),
            f"{mounted}.caCertFile": str(token),
            "spark.kubernetes.driverEnv.PYTHONPATH": _paths(line),
            "spark.executorEnv.PYTHONPATH": _paths(line),
            "spark.driver.memory": "700m",
            "spark.executor.memory": "600m",
            "spark.executor.instances": "1",
            "spark.pyspark.python": sys.executable,
            "spark.python.daemon.module": "spark_sched_lab.runs.workloads.quick_daemon",
            "spark.driver.defaultJavaOptions": QUICK_JAVA,
            "spark.executor.defaultJavaOptions": QUICK_JAVA,
            "spark.ui.enabled": "false",
            "spark.ui.liveUpdate.period": "0",
            "spark.testing.schedInvariants": "true",
        }


def _home(line: SparkLine) -> Path:
    return Path(environment_of(line).get("SPARK_HOME", find_spark().home))


def _paths(line: SparkLine) -> str:
    """With which programs import the tests, and pyspark of that line."""
    pyspark = environment_of(line).get("PYTHONPATH")
    return os.pathsep.join(each for each in (pyspark, str(ROOT)) if each)


@pytest.fixture
def kubernetes(run: Run, cluster: KubernetesCluster, tmp_path: Path) -> Kubernetes:
    return Kubernetes(run, cluster, tmp_path)


@pytest.mark.parametrize(
    ("line", "mode"),
    [(OLDEST, "cluster"), (NEWEST, "cluster"), (NEWEST, "client")],
    ids=lambda value: value.name if isinstance(value, SparkLine) else value,
)
def test_an_application_on_kubernetes_has_its_executors_and_does_all_that_it_does_elsewhere(
    kubernetes: Kubernetes, tmp_path: Path, line: SparkLine, mode: str
) -> None:
    history = tmp_path / "history.db"
    learning = {"spark.sched.history.path": str(history), "spark.sched.planner.restartBackoff": "100ms"}
    result = kubernetes.submit("duties", mode, line, learning)
    # Those of the command line, not those of a file or defaults.
    assert (result["executors"], result["cores"]) == (2, 4)
    all_duties_done(result, line, history)


def test_a_driver_pod_without_a_python_for_the_planner_says_so_once_and_holds_slots(
    kubernetes: Kubernetes,
) -> None:
    """As with properties that were written where Python is at another place than in the image."""
    elsewhere = {
        "spark.sched.planner.python": "/nowhere/bin/python3",
        "spark.sched.planner.package": "/nowhere/spark_sched",
    }
    result = kubernetes.submit("isolation", "cluster", settings=elsewhere)
    assert result["background_tasks"] == 16
    assert result["intruders"] == 0
    assert result["counters"]["holds_total"] > 0
    assert result["counters"]["planner_starts"] == 0
    assert result["log"].count("No planner runs") == 1
    nothing_leaked(result)


def test_an_operator_attaches_by_configuration_and_a_jar_and_finds_the_planner_in_the_image(
    kubernetes: Kubernetes,
) -> None:
    """An operator starts spark-submit in cluster mode with the master, and all else as options.

    The properties are those of ``conf/kubernetes.conf``.
    """
    example = read_properties(ROOT / "conf" / "kubernetes.conf")
    del example["spark.master"], example["spark.driver.extraClassPath"]
    # The pods of this cluster have no image, so the driver looks for a Python.
    del example["spark.sched.planner.python"]
    settings = {**example, **kubernetes.settings(NEWEST)}
    # At the example's level some held slots expire before the barrier falls, as they are to.
    assert settings["spark.sched.reservation.isolation"] == "0.9"
    settings["spark.sched.reservation.isolation"] = "1"
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    result = kubernetes.submit_with(
        ("--master", kubernetes.master, "--jars", f"local://{build(_home(NEWEST))}", *options),
        "isolation",
        "cluster",
    )
    assert result["background_tasks"] == 16
    assert result["intruders"] == 0
    assert result["counters"]["planner_starts"] == 1
    assert result["counters"]["plans_accepted"] > 0
    nothing_leaked(result)


def test_dynamic_allocation_on_kubernetes_keeps_executors_with_held_slots(kubernetes: Kubernetes) -> None:
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "2",
        # Idle executors are decommissioned rather than killed.
        "spark.decommission.enabled": "true",
        "spark.sched.placement": "pack",
    }
    result = kubernetes.submit("allocation", "cluster", settings=settings, executors=())
    assert result["executors_of_pair"] == {"packed": 1, "with_deadline": 2}
    assert (result["tasks"], result["background_tasks"]) == (4, 8)
    assert result["held"] > 0
    assert result["counters"]["executors_kept"] > 0
    assert result["executors"] == [2, 2]
    nothing_leaked(result)


def test_executors_that_are_killed_deleted_or_decommissioned_keep_no_holds_and_are_replaced(
    cluster: KubernetesCluster, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    settings = {
        "spark.decommission.enabled": "true",
        # Spark asks so often whether a pod is still there of whose end it was not told.
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.kubernetes.executor.missingPodDetectDelta": "5s",
        # Spark 4.3 takes a killed process for one that ran out of memory, and the next one has one core.
        "spark.kubernetes.allocation.recoveryMode.enabled": "false",
    }
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(kubernetes.submit, "executors_lost", "cluster", settings=settings)
        for how, lose in _LOSSES.items():
            asked = tmp_path / how
            assert until(lambda: asked.exists() or running.done())  # noqa: B023 - is called at once
            if running.done():
                break
            (pod,) = [pod for pod in cluster.pods() if pod.labels.get("spark-exec-id") == asked.read_text()]
            lose(cluster, pod)
        result = running.result()
    for how in _LOSSES:
        assert result[how]["sums"] == [[0, 2], [1, 4]]
    # Others came in their place.
    assert len({result[how]["lost"] for how in _LOSSES}) == 3
    assert all(len(result[how]["executors"]) == 2 for how in _LOSSES)
    assert result["counters"]["holds_total"] >= 9
    nothing_leaked(result)


_LOSSES: dict[str, Callable[[KubernetesCluster, Pod], None]] = {
    "killed": lambda _, pod: os.kill(pod.pid, signal.SIGKILL),
    "deleted": lambda cluster, pod: cluster.delete(pod),
    # What decommissioning by Spark's images does before the node ends the pod.
    "decommissioned": lambda _, pod: os.kill(pod.pid, signal.SIGPWR),
}
