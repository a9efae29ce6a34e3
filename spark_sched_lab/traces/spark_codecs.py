"""The framings in which Spark writes its lz4, snappy and lzf event logs.

They are those of the Java libraries that Spark uses (``LZ4BlockOutputStream``, ``SnappyOutputStream``,
``LZFOutputStream``), not the standard ones, so that tools and Python libraries for these formats do not read
them. The blocks inside are standard; Arrow unpacks those of lz4 and snappy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LZ4 = b"LZ4Block"
SNAPPY = b"\x82SNAPPY\x00"
LZF = b"ZV"

#: The largest block that any of the libraries writes (lz4: 2^25 bytes) or Spark asks for.
MAX_BLOCK_BYTES = 32 << 20
#: Unpacked bytes of lz4 blocks whose check sums are calculated together.
_TOGETHER = 1 << 20

_Words = npt.NDArray[np.uint32]


class Truncated(Exception):
    """The compressed data stops before its end; everything read before is valid."""


class Damaged(Exception):
    """The data is not what its format says; the message is the reason."""


def unpack_lz4(file: BinaryIO) -> Iterator[bytes]:
    """Blocks of ``LZ4BlockOutputStream``: magic, token, packed size, size, check sum (little-endian), data.

    An empty block ends a stream, and another stream may follow, as Spark reads it.
    """
    codec = pa.Codec("lz4_raw")
    waiting: list[tuple[bytes, int]] = []
    size_waiting = 0
    try:
        while head := _read(file, 21, may_end=True):
            if not head.startswith(LZ4):
                raise Damaged("a block does not begin with LZ4Block")
            packed_size, size, check = (int.from_bytes(head[at : at + 4], "little") for at in (9, 13, 17))
            _check_sizes(packed_size, size)
            data = _read(file, packed_size)
            method = head[8] & 0xF0
            if method == 0x20:
                data = _unpacked(codec, data, size)
            elif method != 0x10 or packed_size != size:
                raise Damaged(f"a block has the unknown method {method:#x}, or two sizes")
            if size:
                waiting.append((data, check))
                size_waiting += size
            if size_waiting >= _TOGETHER:
                yield _checked(waiting)
                waiting, size_waiting = [], 0
    except Truncated:
        if waiting:
            yield _checked(waiting)
        raise
    if waiting:
        yield _checked(waiting)


def unpack_snappy(file: BinaryIO) -> Iterator[bytes]:
    """Blocks of ``SnappyOutputStream``: packed size (big-endian) and data, after a head of 16 bytes, which is
    repeated where streams are joined."""
    codec = pa.Codec("snappy")
    while size_or_head := _read(file, 4, may_end=True):
        if size_or_head == SNAPPY[:4]:
            if _read(file, 12)[:4] != SNAPPY[4:]:
                raise Damaged("a stream does not begin with SNAPPY")
            continue
        packed_size = int.from_bytes(size_or_head, "big")
        _check_sizes(packed_size, 0)
        data = _read(file, packed_size)
        size = _varint(data)
        _check_sizes(packed_size, size)
        yield _unpacked(codec, data, size)


def unpack_lzf(file: BinaryIO) -> Iterator[bytes]:
    """Chunks of ``LZFOutputStream``: ``ZV``, a type, sizes (big-endian) and data of at most 64 KiB."""
    while head := _read(file, 5, may_end=True):
        if not head.startswith(LZF) or head[2] > 1:
            raise Damaged("a chunk does not begin with ZV")
        packed_size = int.from_bytes(head[3:], "big")
        if head[2] == 0:
            yield _read(file, packed_size)
            continue
        size = int.from_bytes(_read(file, 2), "big")
        yield _unpack_lzf_chunk(_read(file, packed_size), size)


def _read(file: BinaryIO, size: int, *, may_end: bool = False) -> bytes:
    data = file.read(size)
    if len(data) < size and (data or not may_end):
        raise Truncated
    return data


def _check_sizes(packed_size: int, size: int) -> None:
    if packed_size > MAX_BLOCK_BYTES or size > MAX_BLOCK_BYTES:
        raise Damaged(
            f"a block has {max(packed_size, size):,} bytes, and Spark writes at most {MAX_BLOCK_BYTES:,}"
        )


def _unpacked(codec: pa.Codec, data: bytes, size: int) -> bytes:
    try:
        plain: bytes = codec.decompress(data, decompressed_size=size, asbytes=True)
    except (OSError, ValueError) as error:
        raise Damaged(str(error)) from None
    if len(plain) != size:
        raise Damaged(f"a block unpacks to {len(plain):,} bytes instead of {size:,}")
    return plain


def _varint(data: bytes) -> int:
    """The unpacked size at the beginning of a snappy block."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise Damaged("a block does not say its size")


def _unpack_lzf_chunk(data: bytes, size: int) -> bytes:
    plain = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            control = data[at]
            at += 1
            if control < 32:  # that many literal bytes and one more
                plain += data[at : at + control + 1]
                at += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += data[at]
                at += 1
            begin = len(plain) - ((control & 31) << 8) - data[at] - 1
            at += 1
            length += 2
            if begin < 0:
                raise Damaged("a chunk refers to data before its beginning")
            reach = len(plain) - begin
            if reach >= length:
                plain += plain[begin : begin + length]
            else:  # it repeats what it is about to write
                plain += (plain[begin:] * (length // reach + 1))[:length]
            if len(plain) > size:
                break
    except IndexError:
        raise Damaged("a chunk stops in the middle") from None
    if len(plain) != size:
        raise Damaged(f"a chunk unpacks to other than {size:,} bytes")
    return bytes(plain)


def _checked(blocks: list[tuple[bytes, int]]) -> bytes:
    """The blocks' data, joined, once their check sums are found right."""
    by_size: dict[int, list[int]] = {}
    for place, (data, _) in enumerate(blocks):
        by_size.setdefault(len(data), []).append(place)
    for size, places in by_size.items():
        together = np.frombuffer(b"".join(blocks[place][0] for place in places), dtype=np.uint8)
        found = xxh32(together.reshape(len(places), size)) & 0x0FFF_FFFF  # the library drops the first 4 bits
        if found.tolist() != [blocks[place][1] for place in places]:
            raise Damaged("a block's check sum is wrong")
    return b"".join(data for data, _ in blocks)


_P1, _P2, _P3, _P4, _P5 = (np.uint32(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))
_SEED = np.uint32(0x9747B28C)


def xxh32(rows: npt.NDArray[np.uint8]) -> _Words:
    """xxHash32 of each row, under the seed that ``LZ4BlockOutputStream`` uses; rows are read side by side."""
    count, size = rows.shape
    with np.errstate(over="ignore"):
        whole = size // 16 * 16
        if whole:
            words = np.ascontiguousarray(rows[:, :whole]).view("<u4").reshape(count, -1, 4).transpose(1, 0, 2)
            starts = np.array([_SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1], dtype=np.uint32)
            lanes = np.tile(starts, (count, 1))
            for each in np.ascontiguousarray(words):
                lanes += each * _P2
                lanes = _rotated(lanes, 13)
                lanes *= _P1
            turned = [_rotated(lanes[:, n], turn) for n, turn in enumerate((1, 7, 12, 18))]
            hashes: _Words = turned[0] + turned[1] + turned[2] + turned[3]
        else:
            hashes = np.full(count, _SEED + _P5, dtype=np.uint32)
        hashes = hashes + np.uint32(size)
        at = whole
        while at + 4 <= size:
            word: _Words = np.ascontiguousarray(rows[:, at : at + 4]).view("<u4")[:, 0]
            hashes = _rotated(hashes + word * _P3, 17) * _P4
            at += 4
        for place in range(at, size):
            byte: _Words = rows[:, place].astype(np.uint32)
            hashes = _rotated(hashes + byte * _P5, 11) * _P1
        hashes = (hashes ^ (hashes >> np.uint32(15))) * _P2
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _P3
        last: _Words = hashes ^ (hashes >> np.uint32(16))
        return last


def _rotated(words: _Words, bits: int) -> _Words:
    turned: _Words = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return turned
