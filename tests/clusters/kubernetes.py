"""A Kubernetes API on loopback for tests, and a kubelet that runs pods as processes of this machine."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clusters import answer, class_path, running
from tests.environment import clean_environment
from tests.integration.processes import processes_naming

_JAVA = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


@dataclass(frozen=True)
class Pod:
    """A pod as the API describes it."""

    name: str
    labels: dict[str, str]
    phase: str
    container: str

    @property
    def pid(self) -> int:
        """Of its container's process."""
        return int(self.container.removeprefix("process://"))


@dataclass(frozen=True)
class KubernetesCluster:
    """A cluster that runs.

    Attributes:
        url: of its API; ``k8s://`` before it makes it a master.
    """

    directory: Path
    url: str

    def pods(self) -> list[Pod]:
        """All that there are."""
        return [_pod(each) for each in self._ask("GET", "")["items"]]

    def delete(self, pod: Pod) -> None:
        """As ``kubectl delete pod`` does."""
        self._ask("DELETE", f"/{pod.name}")

    def processes(self) -> list[int]:
        """Those of all pods, also of deleted ones."""
        return processes_naming(f"{self.directory}/pods/")

    def log(self, pod: Pod) -> str:
        """What its container has written so far."""
        return (self.directory / "pods" / pod.name / "log").read_text(errors="replace")

    def logs(self) -> str:
        """The ends of what all containers have written so far."""
        files = sorted(self.directory.glob("pods/*/log"), key=lambda file: file.stat().st_mtime)
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-6000:]}" for file in files)

    def _ask(self, method: str, path: str) -> Any:
        address = f"{self.url}/api/v1/namespaces/default/pods{path}"
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=60) as answer:
            return json.load(answer)


def _pod(described: dict[str, Any]) -> Pod:
    status = described.get("status", {})
    containers = status.get("containerStatuses") or [{}]
    metadata = described["metadata"]
    return Pod(
        metadata["name"],
        metadata.get("labels", {}),
        status.get("phase", ""),
        containers[0].get("containerID", ""),
    )


@contextmanager
def kubernetes_cluster() -> Iterator[KubernetesCluster]:
    """A cluster whose images are folders of Sparks; none of its processes is left afterwards.

    Raises BadInputError if it cannot be built.
    """
    program = class_path("kubernetes")
    with tempfile.TemporaryDirectory(prefix="spark-sched-kubernetes-") as name:
        directory = Path(name).resolve()
        words = [*_JAVA, "-cp", program, "MiniKubernetes", directory / "pods"]
        with running(words, directory, {**clean_environment(), "SPARK_LOCAL_IP": "127.0.0.1"}) as process:
            url = answer(process)
            if not url:
                raise RuntimeError(f"Kubernetes did not start:\n{(directory / 'log').read_text()[-3000:]}")
            yield KubernetesCluster(directory, url)
