"""A real standalone Spark cluster on this machine: one master, several workers, each on its own address.

The daemons are Spark's own, from the installed pyspark (``bin/spark-class``); nothing is simulated. Workers
get 127.0.0.2, 127.0.0.3, … so that Spark sees several hosts and locality is real.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from spark_sched.attach.spark import find_spark
from spark_sched.errors import BadInputError

_MASTER_HOST = "127.0.0.1"
_MEMORY = re.compile(r"^([1-9][0-9]*)([mg])$")
_STOP_TIMEOUT_S = 20.0
_MIN_WORKER_MEMORY_MB = 512


class ClusterError(RuntimeError):
    """The cluster could not be started; the message carries the end of the failing daemon's log."""


@dataclass(frozen=True)
class Worker:
    """One worker: its address and what it offers."""

    host: str
    cores: int
    memory: str


class LocalCluster:
    """A standalone master and workers as child processes, for as long as the ``with`` block lasts.

    Args:
        workers: number of worker processes, at least 1.
        cores_per_worker: task slots of each worker. These are slots, not processors: a worker may offer more
            than the machine has, which is right for tasks that wait.
        memory: what each worker may hand to executors, as ``"2g"`` or ``"900m"``.
        start_timeout_s: how long master and workers together may take to be up, in seconds.

    Raises:
        BadInputError: a parameter is out of range; on entering: there is no Spark to run.
        ClusterError: on entering: a daemon did not start or did not register in time.

    The owner may end in any way: leaving the block, an exception, ``sys.exit`` or ``kill -9`` all take the
    daemons, their executors and the working directory away (see ``_supervisor.py``).

    >>> with LocalCluster(workers=2, cores_per_worker=4) as cluster:   # doctest: +SKIP
    ...     spark = SparkSession.builder.config(map=cluster.spark_conf()).getOrCreate()
    """

    def __init__(
        self,
        workers: int = 2,
        cores_per_worker: int = 4,
        memory: str = "2g",
        *,
        start_timeout_s: float = 90.0,
    ) -> None:
        if workers < 1:
            raise BadInputError(f"workers is {workers}: a cluster needs at least 1")
        if cores_per_worker < 1:
            raise BadInputError(f"cores_per_worker is {cores_per_worker}: a worker needs at least 1 slot")
        size = _MEMORY.match(memory)
        if size is None or int(size[1]) * {"m": 1, "g": 1024}[size[2]] < _MIN_WORKER_MEMORY_MB:
            raise BadInputError(
                f"memory is {memory!r}: give a size of at least {_MIN_WORKER_MEMORY_MB}m, as '2g' or '900m'"
            )
        hosts, self.note = loopback_hosts(workers)
        self.workers = tuple(Worker(host, cores_per_worker, memory) for host in hosts)
        self._start_timeout_s = start_timeout_s
        self._supervisor: subprocess.Popen[str] | None = None
        self._directory: Path | None = None
        self._master_url = ""

    @property
    def master_url(self) -> str:
        """``spark://127.0.0.1:<port>``. Raises ClusterError while the cluster is not running."""
        if self._supervisor is None:
            raise ClusterError("the cluster is not running: enter its `with` block first")
        return self._master_url

    @property
    def slots(self) -> int:
        return sum(worker.cores for worker in self.workers)

    def spark_conf(self) -> dict[str, str]:
        """Properties an application needs to run here: the master and loopback addresses only."""
        return {
            "spark.master": self.master_url,
            "spark.driver.host": _MASTER_HOST,
            "spark.driver.bindAddress": _MASTER_HOST,
        }

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the daemons and wait until every worker has registered. Raises ClusterError."""
        if self._supervisor is not None:
            return
        directory = Path(tempfile.mkdtemp(prefix="spark-sched-cluster-"))
        spec = json.dumps(self._spec(directory))
        self._directory = directory
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("_supervisor.py")), spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.stop)
        try:
            self._master_url = self._await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything and remove the working directory; harmless when already stopped."""
        supervisor, self._supervisor = self._supervisor, None
        atexit.unregister(self.stop)
        if supervisor is not None:
            assert supervisor.stdin is not None
            assert supervisor.stdout is not None
            with contextlib.suppress(OSError):
                supervisor.stdin.close()  # end of file: the supervisor takes everything down
            try:
                supervisor.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                supervisor.kill()  # the daemons go with it (PR_SET_PDEATHSIG)
                supervisor.wait()
            supervisor.stdout.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _await_ready(self) -> str:
        supervisor = self._supervisor
        assert supervisor is not None
        assert supervisor.stdout is not None
        # The supervisor has its own time limit and names the daemon; this one guards against its silence.
        deadline_s = time.monotonic() + self._start_timeout_s + 15
        ready, _, _ = select.select([supervisor.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
        line = supervisor.stdout.readline() if ready else ""
        if not line:
            raise ClusterError("the local cluster's supervising process ended or kept silent while starting")
        report = json.loads(line)
        if not report["ready"]:
            raise ClusterError(f"the local cluster did not start: {report['error']}")
        return str(report["master_url"])

    def _spec(self, directory: Path) -> dict[str, object]:
        home = find_spark().home
        spark_class = str(home / "bin" / "spark-class")
        conf = directory / "conf"
        conf.mkdir()
        env = {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(conf),  # empty on purpose: the user's defaults are for other clusters
            "SPARK_LOCAL_DIRS": str(directory / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        package = "org.apache.spark.deploy"
        free_ports = ("--port", "0", "--webui-port", "0")
        return {
            "directory": str(directory),
            "start_timeout_s": self._start_timeout_s,
            "master": {
                "argv": [spark_class, f"{package}.master.Master", "--host", _MASTER_HOST, *free_ports],
                "env": {**env, "SPARK_LOCAL_IP": _MASTER_HOST},
                "log": str(directory / "master" / "master.log"),
            },
            "workers": [
                {
                    "host": worker.host,
                    "argv": [
                        *(spark_class, f"{package}.worker.Worker", "--host", worker.host, *free_ports),
                        *("--cores", str(worker.cores), "--memory", worker.memory),
                        *("--work-dir", str(directory / f"worker-{number}")),
                    ],
                    "env": {**env, "SPARK_LOCAL_IP": worker.host},
                    "log": str(directory / f"worker-{number}" / "worker.log"),
                }
                for number, worker in enumerate(self.workers)
            ],
        }


def loopback_hosts(count: int) -> tuple[list[str], str]:
    """Addresses for ``count`` workers, and a sentence if they are not distinct (else an empty string).

    Linux answers on all of 127.0.0.0/8; systems that know 127.0.0.1 only get that one for every worker.
    """
    hosts = [f"127.0.0.{number + 2}" for number in range(count)]
    for host in hosts:
        try:
            with socket.socket() as probe:
                probe.bind((host, 0))
        except OSError:
            return [_MASTER_HOST] * count, (
                f"{host} cannot be bound here, so all workers share {_MASTER_HOST} and Spark sees one host"
            )
    return hosts, ""
