"""The local cluster is real, and nothing of it outlives its owner, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_sched.cluster import ClusterError, LocalCluster

pytestmark = pytest.mark.integration

APPLICATION = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.config(map=dict(a.split("=", 1) for a in sys.argv[1:])).getOrCreate()
where = lambda _: [os.environ["SPARK_LOCAL_IP"]]
print(sorted(set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect())))
spark.stop()
"""

OWNER = """
import sys, time
from spark_sched.cluster import LocalCluster
cluster = LocalCluster(workers=1, cores_per_worker=1, memory="1g")
cluster.start()
print(cluster._supervisor.pid, cluster._directory, flush=True)
time.sleep(600)
"""


def processes_naming(text: str) -> list[int]:
    """Process ids whose command line or working directory mentions ``text``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
            if text in line or text in os.readlink(entry / "cwd"):
                found.append(int(entry.name))
        except OSError:
            continue  # ended while being looked at
    return found


def until(condition, timeout_s: float = 60.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_an_application_runs_on_every_worker_and_nothing_is_left_afterwards():
    with LocalCluster(workers=2, cores_per_worker=2, memory="1g") as cluster:
        properties = {
            **cluster.spark_conf(),
            "spark.ui.enabled": "false",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "2",
        }
        arguments = [f"{key}={value}" for key, value in properties.items()]
        done = subprocess.run(
            [sys.executable, "-c", APPLICATION, *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        directory = cluster._directory
        hosts = [worker.host for worker in cluster.workers]
    assert done.stdout.strip() == str(sorted(hosts)), done.stderr[-2000:]
    assert not directory.exists()
    assert until(lambda: not processes_naming(directory.name))


@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
@pytest.mark.parametrize(
    "signum",
    [
        pytest.param(signal.SIGKILL, id="an owner killed with kill -9"),
        pytest.param(signal.SIGINT, id="an owner interrupted with Ctrl-C"),
    ],
)
def test_the_cluster_goes_with_its_owner(signum):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        pid, directory = owner.stdout.readline().split()
        assert processes_naming(Path(directory).name)
        owner.send_signal(signum)
        owner.wait(timeout=60)
        assert until(lambda: not processes_naming(Path(directory).name))
        assert until(lambda: not Path("/proc", pid).exists())
        assert until(lambda: not Path(directory).exists())
    finally:
        owner.kill()
        owner.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="relies on PR_SET_PDEATHSIG")
def test_the_daemons_go_even_if_their_supervisor_is_killed():
    with LocalCluster(workers=1, cores_per_worker=1, memory="1g") as cluster:
        name = cluster._directory.name
        cluster._supervisor.kill()
        assert until(lambda: not processes_naming(name))


def test_a_daemon_that_does_not_start_is_named_with_the_end_of_its_log(monkeypatch, tmp_path):
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "jars").mkdir()
    (home / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    (home / "bin" / "spark-class").write_text("#!/bin/sh\necho no memory left\nexit 3\n")
    (home / "bin" / "spark-class").chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    cluster = LocalCluster(workers=1)
    with pytest.raises(ClusterError, match=r"the master exited with 3(.|\n)*no memory left"):
        cluster.start()
    assert cluster._directory is None
