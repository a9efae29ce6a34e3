"""Data in Spark's framings, for tests that need it without a JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_sched_lab.traces.spark_codecs import xxh32

BLOCK = 32 << 10


def _parts(data):
    return [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]


def lz4_blocks(data, check=0):
    """As ``LZ4BlockOutputStream`` writes it; ``check`` is added to each check sum."""
    found = b""
    for part in _parts(data):
        packed = pa.Codec("lz4_raw").compress(part, asbytes=True)
        own = int(xxh32(np.frombuffer(part, np.uint8)[None, :])[0]) & 0x0FFF_FFFF
        numbers = (len(packed), len(part), (own + check) & 0x0FFF_FFFF)
        found += b"LZ4Block\x25" + b"".join(n.to_bytes(4, "little") for n in numbers) + packed
    return found + b"LZ4Block\x15" + bytes(12)


def snappy_blocks(data):
    """As ``SnappyOutputStream`` writes it."""
    found = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    for part in _parts(data):
        packed = pa.Codec("snappy").compress(part, asbytes=True)
        found += len(packed).to_bytes(4, "big") + packed
    return found


def lzf_chunks(data):
    """As ``LZFOutputStream`` writes it: runs of one byte are packed, all else is stored."""
    found = b""
    for part in _parts(data):
        if len(part) > 300 and part == part[:1] * len(part):
            left, packed = len(part) - 1, b"\x00" + part[:1]
            while left >= 9:
                count = min(left, 264)
                packed += bytes([0xE0, count - 9, 0])
                left -= count
            packed += bytes([left - 1]) + part[:left] if left else b""
            head = b"ZV\x01" + len(packed).to_bytes(2, "big") + len(part).to_bytes(2, "big")
            found += head + packed
        else:
            found += b"ZV\x00" + len(part).to_bytes(2, "big") + part
    return found


FRAMED = {"lz4": lz4_blocks, "snappy": snappy_blocks, "lzf": lzf_chunks}
