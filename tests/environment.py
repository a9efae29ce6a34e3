"""What programs that tests start see of this process's environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Programs of tests last seconds. What the optimizing compiler makes of them comes too late, and to verify the
# byte code of Spark's thousands of classes takes a quarter of the time; the Scala tests verify ours.
QUICK_JAVA = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

# Python workers of tests run few tasks each; what they import would take most of their time.
QUICK_WORKERS = "-Dspark.python.daemon.module=spark_sched_lab.runs.workloads.quick_daemon"


def quick_jvms(drivers: str = QUICK_JAVA, others: str = QUICK_JAVA) -> dict[str, str]:
    """The environment that gives each JVM that a test starts its options, and Python workers their daemon.

    Args:
        drivers: of drivers.
        others: of executors and of the daemons of a cluster. No option of them may need quotes.
    """
    return {
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
        "SPARK_SUBMIT_OPTS": f'{drivers} "-Dspark.executor.defaultJavaOptions={others}" {QUICK_WORKERS}',
        "SPARK_MASTER_OPTS": others,
        "SPARK_WORKER_OPTS": others,
    }


def clean_environment() -> dict[str, str]:
    """This environment without what a Spark session of this process left in it, our programs first on PATH.

    Such a session exports where its own driver listens; a program must start its own.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_CONF"))}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept
