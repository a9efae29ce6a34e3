"""pyspark's worker daemon without the archives on its path: ``spark.python.daemon.module`` names it.

Spark puts ``pyspark.zip`` and its own core jar on the path of Python daemons. Each daemon compiles the zip's
source code again. Each worker, which is forked from a daemon, reads the directories of both archives, that of
the zip once for every package of pyspark: 0.3 s of processor time. The pyspark that is installed beside this
package is the same code, as byte code in files.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys


def _without_archives() -> None:
    """Take archives off the path, unless pyspark is found in none of the other places."""
    everywhere = sys.path[:]
    sys.path[:] = [place for place in everywhere if not place.endswith((".zip", ".jar"))]
    if importlib.util.find_spec("pyspark") is None:
        sys.path[:] = everywhere
    else:
        sys.path_importer_cache.clear()


_without_archives()

# What workers import first.
for _module in (
    "messages.zero_copy_byte_stream",
    "shuffle",
    "sql.streaming.stateful_processor_util",
    "worker_message",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(f"pyspark.{_module}")
from pyspark import daemon  # noqa: E402

with contextlib.suppress(ImportError):
    import psutil  # noqa: F401


def main() -> None:
    """What ``pyspark/daemon.py`` does when it is the main module."""
    daemon.manager()
    sys.exit(0)


if __name__ == "__main__":
    main()
