"""Lines of plain, gzip and zstd files in bounded memory, distinguishing damage from a missing end."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from spark_sched.errors import BadInputError
from spark_sched.traces.read_report import ReadReport

#: ``progress(bytes)``: called with the number of further (compressed) input bytes that were read.
Progress = Callable[[int], None]

_BLOCK = 1 << 20
#: No format here has longer rows; without a limit a file without newlines would fill the memory.
MAX_LINE_BYTES = 512 << 20

#: Greatest difference, in bytes, between the size in a gzip trailer and the unpacked size of the same file.
_END_WITHIN = 2 << 20

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
#: Spark's other event log codecs frame their data in ways of their own.
_FOREIGN = {
    b"LZ4Block": "Spark's lz4 block format",
    b"\x82SNAPPY\x00": "Spark's snappy format",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "a zip archive",
}


class Truncated(Exception):
    """The compressed data stops before its end; everything read before is valid."""


def compression(path: Path) -> str:
    """``plain``, ``gzip`` or ``zstd`` by the file's first bytes; other compressions are rejected.

    Raises:
        BadInputError: the file cannot be read, or has an unsupported compression.
    """
    head = read_head(path, 8)
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD):
        return "zstd"
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            hint = "set spark.eventLog.compression.codec=zstd for new logs and unpack this one"
            remedy = hint if name.startswith("Spark") else "unpack it"
            raise BadInputError(f"{path} is compressed as {name}, which cannot be read here: {remedy} first")
    return "plain"


def read_head(path: Path, size: int) -> bytes:
    """The first ``size`` bytes as they are on disk; raises `BadInputError` where the file cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}; check the path") from None


def blocks(path: Path, progress: Progress | None = None) -> Iterator[bytes]:
    """Unpacked blocks of a file.

    Raises:
        Truncated: the compressed data has no end. All blocks before are sound.
        BadInputError: gzip data is damaged. The whole file is checked before the first block is returned,
            because the checksum is at the very end and rows of a damaged file would look like jobs.
    """
    kind = compression(path)
    if kind == "gzip":
        _check_gzip(path)
    with path.open("rb") as file:
        if kind == "gzip":
            yield from _gunzip(file, progress)
        elif kind == "zstd":
            yield from _unzstd(path, file, progress)
        else:
            while block := file.read(_BLOCK):
                _tell(progress, len(block))
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
    with path.open("rb") as file:
        try:
            for block in _gunzip(file, None):
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


def lines(path: Path, report: ReadReport, progress: Progress | None = None) -> Iterator[tuple[int, bytes]]:
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
        for block in blocks(path, progress):
            parts = block.split(b"\n")
            if len(parts) == 1:
                rest.append(block)
                size += len(block)
                if size > MAX_LINE_BYTES:
                    raise BadInputError(
                        f"{path} line {number + 1} is longer than {MAX_LINE_BYTES >> 20} MB: "
                        "this is not a text trace, give another file"
                    )
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
