"""What programs that tests start see of this process's environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Programs of tests last seconds: what the optimizing compiler makes of them comes too late.
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def clean_environment() -> dict[str, str]:
    """This environment without what a Spark session of this process left in it, our programs first on PATH.

    Such a session exports where its own driver listens; a program must start its own.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_CONF"))}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept
