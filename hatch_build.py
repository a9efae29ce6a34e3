"""Wheel contents beyond the Python package: the bridge's Scala sources, its jar when asked, a template.

``SPARK_SCHED_WITH_BRIDGE=1`` compiles the bridge during the build, for the line of the Spark that is found,
so that users of the wheel need no compile step. ``SPARK_SCHED_WITH_BRIDGE=FOLDER`` takes the jars of all
lines from there; ``python tools/publish.py FOLDER --wheel`` makes them. Without it the wheel has the sources
only, and the bridge is compiled on first use.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WITH_BRIDGE = "SPARK_SCHED_WITH_BRIDGE"
_COMPILE = {"1", "true", "yes"}


class BridgeBuildHook(BuildHookInterface[Any]):
    """Adds ``spark_sched/_jvm`` (sources), ``spark_sched/attach/jars`` (compiled bridge), EC2 template."""

    _scratch: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Spark is a build dependency only where the bridge is compiled: its wheel holds the compiler."""
        if _wanted() not in _COMPILE:
            return []
        return list(self.metadata.core.optional_dependencies["spark"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Force the extra files into a standard wheel; an editable install finds them in the checkout."""
        if version == "editable":
            return
        root = Path(self.root)
        stack = root / "conf" / "ec2" / "cluster.yaml"
        build_data["force_include"][str(stack)] = "spark_sched_lab/runs/clusters/ec2/cluster.yaml"
        sources = root / "jvm-bridge"
        for path in (sources / "lines.json", *sorted(sources.glob("*/src/main/**/*"))):
            if path.is_file():
                build_data["force_include"][str(path)] = (
                    f"spark_sched/_jvm/{path.relative_to(sources).as_posix()}"
                )
        for jar in self._jars(sources):
            build_data["force_include"][str(jar)] = f"spark_sched/attach/jars/{jar.name}"

    def _jars(self, sources: Path) -> list[Path]:
        if not _wanted():
            return []
        if _wanted() not in _COMPILE:
            folder = os.environ[_WITH_BRIDGE]
            if not (found := sorted(Path(folder).glob("spark-sched-bridge_*.jar"))):
                raise ValueError(
                    f"{_WITH_BRIDGE} is {folder!r} but must be 1, 0 or a folder with jars of the bridge"
                )
            return found
        sys.path.insert(0, self.root)
        from spark_sched.attach.compiler import compile_bridge, plan_build

        build = plan_build(sources=sources)
        build.require_tried()
        self._scratch = tempfile.TemporaryDirectory(prefix="spark-sched-bridge-")
        return [compile_bridge(build, Path(self._scratch.name) / build.line_jar_name)]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is written: the jar beside it is of no more use."""
        if self._scratch is not None:
            self._scratch.cleanup()


def _wanted() -> str:
    wanted = os.environ.get(_WITH_BRIDGE, "").lower()
    return "" if wanted in {"0", "false", "no"} else wanted
