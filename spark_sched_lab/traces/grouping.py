"""Groups the rows of each job, wherever they are in a file, in bounded memory."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

#: Files up to this size (as stored) are grouped in memory.
IN_MEMORY_BYTES = 32 << 20
#: Bytes of a stored file per bucket, above that; a bucket is what is in memory at once.
_BUCKET_BYTES = 8 << 20
_MOST_BUCKETS = 256

Rows = list[tuple[int, bytes]]


def grouped(
    rows: Iterable[tuple[str, int, bytes]], size_bytes: int, *, in_memory_bytes: int = IN_MEMORY_BYTES
) -> Iterator[tuple[str, Rows]]:
    """``(key, [(line number, line), …])`` for each key of ``(key, line number, line)``.

    Small files keep the order in which keys first appear. Larger ones are spread over temporary files by a
    hash of the key (the order is then by bucket, within it by first appearance, and the same on every
    machine). Keys and lines hold no newline.
    """
    if size_bytes <= in_memory_bytes:
        yield from _collect(rows).items()
        return
    buckets = min(_MOST_BUCKETS, max(2, size_bytes // _BUCKET_BYTES))
    with tempfile.TemporaryDirectory(prefix="spark-sched-trace-") as folder, ExitStack() as stack:
        paths = [Path(folder, f"{i}.rows") for i in range(buckets)]
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for key, number, line in rows:
            encoded = key.encode()
            files[zlib.crc32(encoded) % buckets].write(b"%d\t%s\t%s\n" % (number, encoded, line))
        for file in files:
            file.close()
        for path in paths:
            yield from _collect(_stored(path)).items()
            path.unlink()


def _stored(path: Path) -> Iterator[tuple[str, int, bytes]]:
    with path.open("rb") as file:
        for row in file:
            number, key, line = row.rstrip(b"\n").split(b"\t", 2)
            yield key.decode(), int(number), line


def _collect(rows: Iterable[tuple[str, int, bytes]]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for key, number, line in rows:
        found.setdefault(key, []).append((number, line))
    return found
