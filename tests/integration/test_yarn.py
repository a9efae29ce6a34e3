"""YARN in client and in cluster mode, on the oldest and the newest line of Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from spark_sched.attach import cache_dir, find_spark
from spark_sched.attach.compiler import SparkLine, spark_lines
from spark_sched.errors import BadInputError
from tests.clusters.yarn import YarnCluster, yarn_cluster
from tests.conftest import ROOT, Run
from tests.environment import QUICK_JAVA
from tests.integration.processes import until
from tests.integration.test_lines import all_duties_done, environment_of
from tests.integration.test_reservation import LONG_PAUSES, nothing_leaked

pytestmark = [pytest.mark.integration, pytest.mark.slow]

OLDEST, *_, NEWEST = spark_lines()
PROGRAM = ROOT / "tests" / "integration" / "submitted_app.py"
TWO_EXECUTORS = ("--num-executors", "2", "--executor-cores", "2")


def two_nodes() -> Iterator[YarnCluster]:
    """With three cores each: room for the driver and two executors of two cores, one on each node."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(yarn_cluster())
        except BadInputError as error:
            pytest.skip(str(error))
        yield running


cluster = pytest.fixture(scope="module")(two_nodes)
# For a test that stops a node, which does not come back.
own_cluster = pytest.fixture(two_nodes)


class Yarn:
    """Gives applications to a cluster."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self._folder = folder

    def submit(
        self,
        cluster: YarnCluster,
        scenario: str,
        mode: str,
        line: SparkLine = NEWEST,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = TWO_EXECUTORS,
    ) -> dict[str, Any]:
        """The scenario's result. The application is attached by the properties of ``spark-sched conf``."""
        there = environment_of(line)
        home = Path(there.get("SPARK_HOME", find_spark().home))
        environment = {**there, "HADOOP_CONF_DIR": str(cluster.conf_dir)}
        paths = [each for each in (there.get("PYTHONPATH"), str(ROOT)) if each]
        environment["PYTHONPATH"] = ":".join(paths)
        properties = self._folder / "app.conf"
        given = {**_settings(cluster, home), **(settings or {})}
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        conf = ("spark-sched", "conf", "--master", "yarn", *words, "--out", properties)
        made = self._run(*conf, environment=there)
        assert made.status == 0, made.output
        done = self._run(
            *(home / "bin" / "spark-submit", "--properties-file", properties),
            *("--deploy-mode", mode, "--queue", "other", *options),
            *(PROGRAM, "yarn_scenarios", scenario, self._folder),
            environment=environment,
        )
        result = self._folder / "result"
        if done.status != 0 or not result.is_file():
            _, failure, said = done.output.partition("Traceback (most recent call last)")
            said = failure + said[:6000] if failure else done.output[-6000:]
            raise AssertionError(f"{said}\n{cluster.logs()[-20000:]}")
        found: dict[str, Any] = json.loads(result.read_text())
        said = cluster.application(found["application"])
        assert (said["queue"], said["finalStatus"]) == ("root.other", "SUCCEEDED")
        assert (found["attached"], found["master"]) == (True, "yarn")
        return found


@pytest.fixture
def yarn(run: Run, tmp_path: Path) -> Yarn:
    return Yarn(run, tmp_path)


def _settings(cluster: YarnCluster, home: Path) -> dict[str, str]:
    # YARN starts containers with few variables of its own environment.
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCHED_CACHE_DIR": str(cache_dir())}
    return {
        **dict(setting.split("=", 1) for setting in LONG_PAUSES),
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.stagingDir": f"file://{cluster.directory}/staging",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "600m",
        "spark.pyspark.python": sys.executable,
        "spark.python.daemon.module": "spark_sched_lab.runs.workloads.quick_daemon",
        "spark.driver.defaultJavaOptions": QUICK_JAVA,
        "spark.executor.defaultJavaOptions": QUICK_JAVA,
        "spark.ui.enabled": "false",
        "spark.ui.liveUpdate.period": "0",
        "spark.testing.schedInvariants": "true",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in variables.items()},
        **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
    }


@pytest.mark.parametrize(
    ("line", "mode"),
    [(OLDEST, "cluster"), (NEWEST, "cluster"), (NEWEST, "client")],
    ids=lambda value: value.name if isinstance(value, SparkLine) else value,
)
def test_an_application_on_yarn_has_its_queue_executors_and_racks_and_does_all_that_it_does_elsewhere(
    cluster: YarnCluster, yarn: Yarn, tmp_path: Path, line: SparkLine, mode: str
) -> None:
    history = tmp_path / "history.db"
    learning = {"spark.sched.history.path": str(history), "spark.sched.planner.restartBackoff": "100ms"}
    result = yarn.submit(cluster, "duties", mode, line, learning)
    assert result["deploy_mode"] == mode
    assert (result["executors"], result["nodes"]) == (2, 2)
    assert result["racks"] == ["Some(/rack-a)", "Some(/rack-b)", "Some(/default-rack)"]
    assert result["racks"] == result["stock_racks"]
    all_duties_done(result, line, history)


def test_the_second_attempt_of_an_application_master_attaches_and_leaves_nothing_of_the_first(
    cluster: YarnCluster, yarn: Yarn, tmp_path: Path
) -> None:
    result = yarn.submit(cluster, "second_attempt", "cluster")
    assert result["attempt"] == "2"
    assert result["sums"] == [[0, 2], [1, 4]]
    assert result["counters"]["holds_total"] >= 3
    nothing_leaked(result)
    first = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert result["planner"] not in first
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in first)), first


def test_a_job_survives_the_loss_of_a_node_where_it_holds_slots(
    own_cluster: YarnCluster, yarn: Yarn, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(yarn.submit, own_cluster, "node_lost", "client")
        nodes = tmp_path / "nodes"
        assert until(lambda: nodes.exists() or running.done())
        if not running.done():
            application, *ports = nodes.read_text().split()
            master = own_cluster.application(application)["amHostHttpAddress"].rpartition(":")[2]
            (lost,) = set(ports) - {master}
            own_cluster.stop_node(int(lost))
        result = running.result()
    assert result["executors"] == 1
    assert result["sums"] == [[0, 2], [1, 4]]
    nothing_leaked(result)


def test_dynamic_allocation_on_yarn_keeps_executors_with_held_slots(cluster: YarnCluster, yarn: Yarn) -> None:
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
    options = ("--executor-cores", "2")
    result = yarn.submit(cluster, "allocation", "cluster", OLDEST, settings, options)
    assert result["has_part"] is True
    assert result["executors_of_pair"] == {"packed": 1, "with_deadline": 2}
    assert (result["tasks"], result["background_tasks"]) == (4, 8)
    assert result["held"] > 0
    assert result["counters"]["executors_kept"] > 0
    assert result["executors"] == [2, 2]
    nothing_leaked(result)
