"""Nothing of a local cluster outlives its owner, however that ends.

That applications run on each of its workers, and that its block leaves nothing, is told by the tests that use
the fixture ``standalone``.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sched_lab.runs.clusters import ClusterError, LocalCluster
from tests.integration.processes import processes_naming, until

pytestmark = pytest.mark.integration

OWNER = """
import sys, time
from spark_sched_lab.runs.clusters import LocalCluster
cluster = LocalCluster(workers=1, cores_per_worker=1, memory="1g", start_timeout_s=300)
cluster.start()
print(cluster._supervisor.pid, cluster._directory, flush=True)
time.sleep(600)
"""


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
        owner.wait(timeout=300)
        assert until(lambda: not processes_naming(Path(directory).name))
        assert until(lambda: not Path("/proc", pid).exists())
        assert until(lambda: not Path(directory).exists())
    finally:
        owner.kill()
        owner.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="relies on PR_SET_PDEATHSIG")
def test_the_daemons_go_even_if_their_supervisor_is_killed():
    with LocalCluster(workers=1, cores_per_worker=1, memory="1g", start_timeout_s=300) as cluster:
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
