"""A standalone cluster that runs already, named by its master's address."""

from __future__ import annotations

import re
import socket

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.clusters.local import ClusterError

_URL = re.compile(r"^spark://(?P<host>[A-Za-z0-9.-]+):(?P<port>[0-9]{1,5})$")


class StandaloneCluster:
    """What `LocalCluster` offers to applications, for an existing cluster. BadInputError for a wrong URL."""

    def __init__(self, master_url: str) -> None:
        found = _URL.match(master_url)
        if found is None or int(found["port"]) > 65535:
            raise BadInputError(f"--master is {master_url!r} but must be written as spark://HOST:PORT")
        self.master_url = master_url
        self._master = (found["host"], int(found["port"]))

    def spark_conf(self) -> dict[str, str]:
        """The master, and this machine's address as the master's network sees it.

        Raises ClusterError if the master does not answer.
        """
        try:
            with socket.create_connection(self._master, timeout=10) as connection:
                address = str(connection.getsockname()[0])
        except OSError as error:
            raise ClusterError(
                f"the master {self.master_url} does not answer ({error}): check that it runs"
            ) from None
        return {
            "spark.master": self.master_url,
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
        }
