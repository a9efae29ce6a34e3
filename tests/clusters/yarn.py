"""A YARN cluster on loopback for tests, with its ResourceManager and NodeManagers in one Java program."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_sched.attach import find_spark
from tests.clusters import answer, class_path, running
from tests.environment import clean_environment

# Of pyspark's, since those of Hadoop's client lack a logger or are older than what the logger needs.
_FROM_PYSPARK = ("slf4j-api-", "log4j-", "snappy-java-")
_JAVA = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# What is in the containers' folders and tells why an application failed.
_LOGS = ("stderr", "stdout")


@dataclass
class YarnCluster:
    """A cluster that runs."""

    directory: Path
    web: str
    _process: subprocess.Popen[str]

    @property
    def conf_dir(self) -> Path:
        """To be exported as ``HADOOP_CONF_DIR``."""
        return self.directory / "conf"

    def application(self, identifier: str) -> dict[str, Any]:
        """What the ResourceManager's REST API says about an application."""
        url = f"http://{self.web}/ws/v1/cluster/apps/{identifier}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)["app"]
        return found

    def stop_node(self, http_port: int) -> None:
        """Stop the NodeManager with this port, with its containers."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"stop {http_port}\n")
        self._process.stdin.flush()
        said = answer(self._process)
        assert said == f"stopped {http_port}", said

    def logs(self) -> str:
        """The ends of what the containers have written so far."""
        files = sorted(path for name in _LOGS for path in self.directory.rglob(f"container_*/{name}"))
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-3000:]}" for file in files)


@contextmanager
def yarn_cluster(nodes: int = 2, cores: int = 3, memory_mib: int = 4096) -> Iterator[YarnCluster]:
    """A cluster of NodeManagers with so many cores and so much memory each; nothing of it is left afterwards.

    Raises BadInputError if it cannot be built.
    """
    jars = find_spark().home / "jars"
    theirs = [str(jar) for name in _FROM_PYSPARK for jar in sorted(jars.glob(f"{name}*.jar"))]
    program = ":".join([class_path("yarn"), *theirs])
    with tempfile.TemporaryDirectory(prefix="spark-sched-yarn-") as name:
        directory = Path(name).resolve()
        sizes = (str(nodes), str(memory_mib), str(cores))
        words = [*_JAVA, "-cp", program, "MiniYarn", f"{name}/conf", f"{name}/work", *sizes]
        with running(words, directory, clean_environment()) as process:
            ready, _, web = answer(process).partition(" ")
            if ready != "ready":
                raise RuntimeError(f"YARN did not start:\n{(directory / 'log').read_text()[-3000:]}")
            yield YarnCluster(directory, web, process)
