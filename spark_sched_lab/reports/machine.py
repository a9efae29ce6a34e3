"""The basis of a measurement: machine and versions, recorded beside every figure."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def basis() -> dict[str, Any]:
    """Machine and versions as a JSON object; unknown values are empty strings."""
    return {
        "machine": {
            "processors": os.cpu_count() or 0,
            "model": _processor(),
            "memory_gb": round(_memory_bytes() / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
        },
        "versions": {
            "python": platform.python_version(),
            "java": _java(),
            **{name: _version(name) for name in ("spark-sched", "pyspark", "numpy", "scipy")},
        },
    }


def basis_line(document: dict[str, Any]) -> str:
    """One sentence for a table's foot from what `basis` returned."""
    machine, versions = document["machine"], document["versions"]
    return (
        f"{machine['processors']} processors ({machine['model'] or 'unknown model'}), "
        f"{machine['memory_gb']} GB, {machine['system']}; Spark {versions['pyspark']}, "
        f"Java {versions['java']}, Python {versions['python']}"
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _memory_bytes() -> int:
    if sys.platform == "win32":
        return 0
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        report = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
    quoted = report.split('"')
    return quoted[1] if len(quoted) > 1 else ""
