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
#: Each JVM that a test starts reads one of these: launchers, drivers (also for their executors), daemons.
QUICK_JVMS = {
    "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
    "SPARK_SUBMIT_OPTS": f'{QUICK_JAVA} "-Dspark.executor.defaultJavaOptions={QUICK_JAVA}"',
    "SPARK_MASTER_OPTS": QUICK_JAVA,
    "SPARK_WORKER_OPTS": QUICK_JAVA,
}


def clean_environment() -> dict[str, str]:
    """This environment without what a Spark session of this process left in it, our programs first on PATH.

    Such a session exports where its own driver listens; a program must start its own.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_CONF"))}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept
