"""Spark's history server on this machine, over a folder of event logs."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from spark_sched.attach.spark import find_spark
from tests.environment import QUICK_JAVA, clean_environment
from tests.integration.scenarios import wait_until

_STARTED = re.compile(r"started at (http://[\w.:\[\]]+)")


class HistoryServer:
    """Pages by path; ``said`` is its log."""

    def __init__(self, url: str, log: Any) -> None:
        self.url = url
        self._log = log

    def get(self, path: str) -> str:
        with urlopen(f"{self.url}{path}", timeout=300) as answer:
            text: str = answer.read().decode()
            return text

    @property
    def said(self) -> str:
        self._log.seek(0)
        return str(self._log.read().decode(errors="replace"))


@contextmanager
def history_server(logs: Path, class_path: str = "") -> Iterator[HistoryServer]:
    """A server that shows the logs, with ``class_path`` beside Spark's own."""
    home = find_spark().home
    options = f"-Dspark.history.fs.logDirectory={logs.as_uri()} -Dspark.history.ui.port=0"
    environment = {
        **clean_environment(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_CLASSPATH": class_path,
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        "SPARK_HISTORY_OPTS": options,
    }
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [os.fspath(home / "bin" / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        found = HistoryServer("", log)
        try:
            wait_until(
                lambda: server.poll() is not None or _STARTED.search(found.said) is not None,
                "the history server was to start",
            )
            started = _STARTED.search(found.said)
            assert started is not None, found.said[-3000:]
            found.url = started[1]
            wait_until(lambda: '"id"' in found.get("/api/v1/applications"), "it was to find the log")
            yield found
        finally:
            server.terminate()
            server.wait()
