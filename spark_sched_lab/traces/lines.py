"""Lines of plain and compressed files in bounded memory, distinguishing damage from a missing end."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from spark_sched.errors import BadInputError
from spark_sched.files import open_regular
from spark_sched_lab.traces import spark_codecs
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.spark_codecs import Damaged
from spark_sched_lab.traces.spark_codecs import Truncated as Truncated

#: ``progress(bytes)``: called with the number of further (compressed) input bytes that were read.
Progress = Callable[[int], None]

_BLOCK = 1 << 20
#: No format here has longer rows; without a limit a file without newlines would fill the memory.
MAX_LINE_BYTES = 64 << 20
#: Ten times what the largest event of a real log has.
MAX_JSON_VALUES = 1_000_000
#: Event logs unpack to 10 to 50 times their size. More than this is made to fill a disk or to waste time.
MAX_RATIO = 200
#: Up to this size a file may unpack at any ratio.
FREE_BYTES = 256 << 20
#: The most that one file may unpack to.
MAX_UNPACKED_BYTES = 256 << 30

#: Greatest difference, in bytes, between the size in a gzip trailer and the unpacked size of the same file.
_END_WITHIN = 2 << 20

_ZSTD = b"\x28\xb5\x2f\xfd"
#: By the first bytes. Those of lzf are too few for a file that is not compressed.
_KINDS = {
    b"\x1f\x8b": "gzip",
    _ZSTD: "zstd",
    spark_codecs.LZ4: "lz4",
    spark_codecs.SNAPPY: "snappy",
    spark_codecs.LZF + b"\x00": "lzf",
    spark_codecs.LZF + b"\x01": "lzf",
}
_FOREIGN = {
    b"\x04\x22\x4d\x18": "the standard lz4 format",
    b"\xff\x06\x00\x00sNaPpY": "the standard snappy format",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a RAR archive",
}
_SPARKS = {
    "lz4": spark_codecs.unpack_lz4,
    "snappy": spark_codecs.unpack_snappy,
    "lzf": spark_codecs.unpack_lzf,
}


def compression(path: Path) -> str:
    """``plain``, ``gzip``, ``zstd``, or Spark's ``lz4``, ``snappy`` or ``lzf``, by the file's first bytes.

    Raises:
        BadInputError: the file cannot be read, or has an unsupported compression.
    """
    head = read_head(path, 16)
    for magic, kind in _KINDS.items():
        if head.startswith(magic):
            return kind
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            raise BadInputError(f"{path} is compressed as {name}, which cannot be read here: unpack it first")
    return "plain"


def read_head(path: Path, size: int) -> bytes:
    """The first ``size`` bytes as they are on disk; raises `BadInputError` where the file cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(size)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror or error}): check the path") from None


def blocks(path: Path, progress: Progress | None = None, *, check: bool = True) -> Iterator[bytes]:
    """Unpacked blocks of a file; ``check=False`` is for a look at its beginning, without the check of a gzip
    file.

    Raises:
        Truncated: the compressed data has no end. All blocks before are sound.
        BadInputError: the data is damaged, or unpacks to more than `MAX_RATIO` times its size or to more than
            `MAX_UNPACKED_BYTES`. A gzip file is checked before its first block is returned, because its
            checksum is at the very end and rows of a damaged file would look like jobs.
    """
    kind = compression(path)
    if kind == "gzip" and check:
        _check_gzip(path)
    with open_regular(path) as file:
        if kind == "gzip":
            try:
                yield from _bounded(path, _gunzip(file, progress))
            except zlib.error as why:
                raise BadInputError(f"{path} is a damaged gzip file ({why}): copy it again") from None
        elif kind == "zstd":
            yield from _bounded(path, _unzstd(path, file, progress))
        elif kind in _SPARKS:
            counted = cast(BinaryIO, _Counting(file, progress))
            try:
                yield from _bounded(path, _SPARKS[kind](counted))
            except Damaged as why:
                raise BadInputError(f"{path} is a damaged {kind} file ({why}): copy it again") from None
        else:
            while block := file.read(_BLOCK):
                _tell(progress, len(block))
                yield block


def _bounded(path: Path, unpacked: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks, as long as they are not more than a file of this size may hold."""
    most = min(MAX_UNPACKED_BYTES, max(FREE_BYTES, MAX_RATIO * path.stat().st_size))
    size = 0
    for block in unpacked:
        size += len(block)
        if size > most:
            limit = (
                f"{MAX_UNPACKED_BYTES >> 30} GB"
                if most == MAX_UNPACKED_BYTES
                else (f"{most >> 20} MB ({MAX_RATIO} times its size, at least {FREE_BYTES >> 20} MB)")
            )
            raise BadInputError(
                f"{path} unpacks to more than {limit}, the most that is read of it: if you trust the file, "
                "unpack it and give the result"
            )
        yield block


def _tell(progress: Progress | None, count: int) -> None:
    if progress is not None and count:
        progress(count)


def _gunzip(file: BinaryIO, progress: Progress | None) -> Iterator[bytes]:
    unpack = zlib.decompressobj(wbits=31)
    waiting = b""
    while True:
        packed = waiting or file.read(_BLOCK // 4)
        if not packed:
            break
        if not waiting:
            _tell(progress, len(packed))
        if unpack.eof:  # the next member of a multi-member file; zero padding is legal
            packed = packed.lstrip(b"\x00")
            waiting = b""
            if not packed:
                continue
            unpack = zlib.decompressobj(wbits=31)
        plain = unpack.decompress(packed, _BLOCK)
        waiting = unpack.unconsumed_tail or unpack.unused_data
        if plain:
            yield plain
    if not unpack.eof:
        rest = unpack.flush()
        if rest:
            yield rest
        if not unpack.eof:
            raise Truncated


def _check_gzip(path: Path) -> None:
    unpacked, why = 0, ""
    with open_regular(path) as file:
        try:
            for block in _bounded(path, _gunzip(file, None)):
                unpacked += len(block)
        except Truncated:
            if unpacked and _has_end(file, unpacked):
                why = "its end is there, but the data runs past it"
        except zlib.error as error:
            why = str(error)
    if why:
        raise BadInputError(
            f"{path} is a damaged gzip file ({why}), so none of its rows can be trusted: copy it again"
        )


def _has_end(file: BinaryIO, unpacked: int) -> bool:
    """Whether gzip data that seems truncated still has its end, which states the unpacked size: then the data
    is damaged and not truncated.

    The data unpacked past the damage has about the stated size. A truncated file ends in four arbitrary
    bytes, which state about that size with a probability of at most 1/1000.
    """
    file.seek(-4, os.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    return abs(size - unpacked) <= min(4 * unpacked, _END_WITHIN)


def _unzstd(path: Path, file: BinaryIO, progress: Progress | None) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(_Counting(file, progress), mode="r"), "zstd")
    while True:
        try:
            block = stream.read(_BLOCK)
        except OSError as error:
            if "Truncated" in str(error):
                raise Truncated from None
            if "memory" in str(error):
                raise BadInputError(
                    f"{path} needs more than 128 MB of memory to be unpacked (zstd --long): unpack it first"
                ) from None
            raise BadInputError(f"{path} is a damaged zstd file ({error}): copy it again") from None
        if not block:
            return
        yield block


class _Counting:
    """A file that reports the bytes read; it has only the methods that Arrow needs."""

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        self._file = file
        self._progress = progress
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        _tell(self._progress, len(data))
        return data

    def close(self) -> None:
        self.closed = True


def parse_json(line: bytes) -> Any:
    """The value of a line of JSON. Raises ValueError for damaged JSON, and for a line of more values than
    `MAX_JSON_VALUES`: each takes up to a hundred times the memory of its text."""
    if len(line) > MAX_JSON_VALUES and sum(map(line.count, (b",", b"[", b"{"))) > MAX_JSON_VALUES:
        raise ValueError(f"it has more than {MAX_JSON_VALUES:,} values, the most that is read")
    return json.loads(line)


def lines(
    path: Path, report: ReadReport, progress: Progress | None = None, *, check: bool = True
) -> Iterator[tuple[int, bytes]]:
    """``(number from 1, line without its end)`` of a text file, without empty lines.

    A file whose compressed data stops early gives its whole lines, then one counted bad row. A last line
    without a newline is valid, because many writers omit it.

    Raises:
        BadInputError: unreadable or damaged file, or a line of more than `MAX_LINE_BYTES`.
    """
    number = 0
    rest: list[bytes] = []
    size = 0
    cut = False
    try:
        for block in blocks(path, progress, check=check):
            parts = block.split(b"\n")
            size += len(parts[0])
            if size > MAX_LINE_BYTES:
                raise BadInputError(
                    f"{path} line {number + 1} is longer than {MAX_LINE_BYTES >> 20} MB, the most that is "
                    "read: remove that line, or give another file if this is not a text trace"
                )
            if len(parts) == 1:
                rest.append(block)
                continue
            parts[0] = b"".join(rest) + parts[0]
            for part in parts[:-1]:
                number += 1
                if part.strip():
                    yield number, part.rstrip(b"\r")
            rest = [parts[-1]]
            size = len(parts[-1])
    except Truncated:
        cut = True
    last = b"".join(rest)
    if cut:
        # The last line may be half a row: a number cut in two is another number.
        report.cut(
            str(path), number + 1, "the compressed file stops in the middle (copied or written incompletely)"
        )
    elif last.strip():
        yield number + 1, last.rstrip(b"\r")
