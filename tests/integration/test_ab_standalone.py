"""``spark-sched ab run --master``: on a standalone cluster that runs already, as on EC2."""

import json
import subprocess
import sys

import pytest

from spark_sched_lab.runs.clusters import LocalCluster
from tests.environment import clean_environment
from tests.integration.test_ab import SUITE

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_an_existing_cluster_runs_the_suite_and_stays(tmp_path):
    suite, out = tmp_path / "suite.toml", tmp_path / "out"
    suite.write_text(SUITE.replace("blocks = 2", "blocks = 1"))
    with LocalCluster(workers=1, cores_per_worker=3, memory="2g", start_timeout_s=300) as cluster:
        command = [sys.executable, "-m", "spark_sched", "ab", "run", str(suite), "--out", str(out), "--json"]
        done = subprocess.run(
            [*command, "--master", cluster.master_url],
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert cluster.spark_conf()["spark.master"] == cluster.master_url
    document = json.loads(done.stdout)
    assert (document["on"], document["runs"]) == ("a standalone cluster", 4)
    assert document["results_equal"] is True
