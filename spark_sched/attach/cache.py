"""The compiled bridge: the wheel's for this line of Spark, or compiled once per Spark version and sources."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from spark_sched.attach.compiler import Build, compile_bridge, plan_build
from spark_sched.attach.trust import is_trusted, private_directory, seal
from spark_sched.errors import BadInputError

CACHE_DIR_VARIABLE = "SPARK_SCHED_CACHE_DIR"
#: For a Spark whose version is a release's but that differs from it: no jar of the wheel is used.
COMPILE_VARIABLE = "SPARK_SCHED_COMPILE"

_PACKAGED = Path(__file__).parent / "jars"
# A compile takes a quarter of a minute; on a machine that needs ten, something else is wrong.
_LOCK_TIMEOUT_S = 600.0


def cache_dir() -> Path:
    """Where compiled bridges are kept: ``SPARK_SCHED_CACHE_DIR``, else the user's cache directory."""
    if chosen := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("spark-sched", appauthor=False))


def build(spark_home: Path | None = None, *, sources: Path | None = None) -> Path:
    """Path of the bridge's jar for this Spark, compiling it first if no process has done so yet.

    A wheel may have a jar for each line of Spark, which is used for the line's releases that were tried.

    Safe when several processes call it at once: one compiles, the others wait for its jar. A jar in the
    cache that has changed since it was compiled, or that another user could have changed, is compiled
    again.

    Args:
        spark_home: the Spark to compile for; see ``find_spark`` for the default.
        sources: the ``jvm-bridge`` folder; by default the one of this checkout or installed package.

    Raises:
        BadInputError: no Spark, no Java 17, a Spark line without a shim, or a cache directory that cannot be
            written or that others can write.
        BridgeError: the compiler rejected the sources; the message contains its output.
    """
    planned = plan_build(spark_home, sources)
    packaged = _PACKAGED / planned.line_jar_name
    if planned.is_tried_release and packaged.is_file() and not os.environ.get(COMPILE_VARIABLE):
        return packaged
    directory = cache_dir()
    jar = directory / planned.jar_name
    elsewhere = f"set {CACHE_DIR_VARIABLE} to one of your own"
    import filelock

    try:
        private_directory(directory, elsewhere, ours=CACHE_DIR_VARIABLE not in os.environ)
        if is_trusted(jar):
            return jar
        with filelock.FileLock(f"{jar}.lock", timeout=_LOCK_TIMEOUT_S):
            if not is_trusted(jar):  # unless another process compiled it while this one waited
                with _progress(planned):
                    compile_bridge(planned, jar)
                seal(jar)
    except filelock.Timeout:
        raise BadInputError(
            f"another process has held {jar}.lock for {_LOCK_TIMEOUT_S:.0f} s: end it, then try again"
        ) from None
    except OSError as error:
        raise BadInputError(
            f"the cache directory {str(directory)!r} cannot be written ({error.strerror}): "
            f"set {CACHE_DIR_VARIABLE} to one that can"
        ) from None
    return jar


@contextlib.contextmanager
def _progress(planned: Build) -> Iterator[None]:
    from rich.console import Console

    console = Console(stderr=True)
    line = f"compiling the bridge for Spark {planned.spark.version} at {planned.spark.home} (once) …"
    if not console.is_terminal:
        console.print(line, highlight=False)
        yield
        return
    with console.status(line):
        yield
