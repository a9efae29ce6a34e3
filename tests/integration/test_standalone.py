"""Attaching to a standalone cluster whose workers are several hosts."""

from __future__ import annotations

import pytest

from spark_sched.attach import conf
from spark_sched.config import format_properties
from tests.integration.attached import assert_attached, last_line

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_a_standalone_cluster_of_several_hosts(run, program, tmp_path, standalone):
    driver = {name: value for name, value in standalone.spark_conf().items() if name != "spark.master"}
    # Nothing runs before both executors are there, and no copies keep tasks from one of them.
    both = {
        "spark.cores.max": "4",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "10min",
        "spark.sched.copies.enabled": "false",
    }
    properties = tmp_path / "sched.conf"
    properties.write_text(
        format_properties(
            conf(
                standalone.master_url,
                {
                    **driver,
                    "spark.ui.enabled": "false",
                    **both,
                    "spark.executor.memory": "512m",
                    "spark.executor.cores": "2",
                },
            )
        )
    )
    report = last_line(run("spark-submit", "--properties-file", properties, program))
    assert_attached(report)
    assert report["hosts"] == sorted(worker.host for worker in standalone.workers)


def test_the_ready_properties_file_of_a_standalone_cluster(run, program, root, standalone):
    outcome = run(
        *("spark-sched", "submit", "--properties-file", root / "conf" / "standalone.conf"),
        *("--master", standalone.master_url, "--conf", "spark.executor.memory=512m", program),
    )
    assert_attached(last_line(outcome))
