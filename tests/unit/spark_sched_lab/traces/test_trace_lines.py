"""Reading compressed lines: what is whole, what is cut, what is damaged, what is foreign."""

from __future__ import annotations

import gzip
import zlib

import pyarrow as pa
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import lines as lines_module
from spark_sched_lab.traces.lines import lines
from spark_sched_lab.traces.read_report import ReadReport
from tests.unit.spark_sched_lab.traces.spark_frames import FRAMED, lz4_blocks

TEXT = b"".join(b"row %d\n" % i for i in range(5000))


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def read(path):
    report = ReadReport()
    return list(lines(path, report)), report


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(TEXT, id="plain"),
        pytest.param(gzip.compress(TEXT), id="gzip"),
        pytest.param(gzip.compress(TEXT[:700]) + gzip.compress(TEXT[700:]), id="gzip of two members"),
        pytest.param(gzip.compress(TEXT) + b"\0" * 512, id="gzip with zero padding"),
        pytest.param(zstd(TEXT), id="zstd"),
        pytest.param(zstd(TEXT[:700]) + zstd(TEXT[700:]), id="zstd of two frames"),
        pytest.param(TEXT.replace(b"\n", b"\r\n"), id="carriage returns"),
        pytest.param(TEXT.rstrip(b"\n"), id="no newline at the end"),
    ],
)
def test_all_lines_of_a_sound_file_are_read_with_their_numbers(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    found, report = read(path)
    assert found == [(i + 1, b"row %d" % i) for i in range(5000)]
    assert report.bad_rows == 0


@pytest.mark.parametrize("framed", FRAMED.values(), ids=FRAMED)
def test_sparks_own_framings_are_read_whole_cut_joined_and_damaged(tmp_path, framed):
    path = tmp_path / "file"
    text = TEXT * 20
    path.write_bytes(framed(text[:400_000]) + framed(text[400_000:]))
    found, report = read(path)
    assert b"".join(line + b"\n" for _, line in found) == text
    assert report.bad_rows == 0
    path.write_bytes(framed(text)[: len(framed(text)) * 2 // 3])
    cut, report = read(path)
    assert cut == found[: len(cut)]
    assert len(cut) > 1_000
    assert report.truncated == [str(path)]
    damaged = bytearray(framed(text))
    damaged[len(damaged) // 2 : len(damaged) // 2 + 64] = b"\xff" * 64
    path.write_bytes(bytes(damaged))
    if framed is not FRAMED["lzf"]:  # its stored chunks have no check sum
        with pytest.raises(BadInputError, match="damaged .* file"):
            read(path)


def test_a_wrong_check_sum_of_lz4_is_damage(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(lz4_blocks(TEXT, check=1))
    with pytest.raises(BadInputError, match="damaged lz4 file .a block's check sum is wrong"):
        read(path)


@pytest.mark.parametrize(
    "data",
    [
        b"LZ4Block\x25" + b"\xff\xff\xff\x7f" * 3,
        b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xff",
        b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00\x00\x06\xff\xff\xff\xff\x07x",
    ],
    ids=["lz4", "snappy", "snappy's unpacked size"],
)
def test_a_block_that_says_it_has_gigabytes_is_damage(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(BadInputError, match="Spark writes at most 33,554,432"):
        read(path)


def test_empty_lines_count_but_are_no_rows(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a\n\n  \nb\n")
    assert read(path)[0] == [(1, b"a"), (4, b"b")]


@pytest.mark.parametrize("compress", [pytest.param(gzip.compress, id="gzip"), pytest.param(zstd, id="zstd")])
def test_a_file_that_stops_early_gives_its_whole_lines_and_one_bad_row(tmp_path, compress):
    path = tmp_path / "file"
    data = compress(TEXT)
    path.write_bytes(data[: len(data) * 2 // 3])
    found, report = read(path)
    assert found == [(i + 1, b"row %d" % i) for i in range(len(found))]
    assert report.truncated == [str(path)]
    assert report.bad_rows == 1
    assert "stops in the middle" in report.examples[0].reason


def test_a_gzip_file_that_fails_its_check_sum_is_refused_before_its_first_line(tmp_path):
    path = tmp_path / "file.gz"
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(BadInputError, match="damaged gzip file"):
        next(lines(path, ReadReport()))


def test_a_gzip_file_whose_damage_hides_its_end_is_refused_and_not_taken_for_cut(tmp_path):
    def damaged(number: int) -> bytes:
        """The last block says that another one follows, so that the check sum is read as that."""
        data = bytearray(gzip.compress(TEXT[:60_000] + b"row %d" % number, compresslevel=0))
        assert data[10] == 1  # one stored block, the last
        data[10] = 0
        return bytes(data)

    def seems_cut(data: bytes) -> bool:
        unpack = zlib.decompressobj(wbits=31)
        try:
            unpack.decompress(data)
        except zlib.error:
            return False
        return not unpack.eof

    path = tmp_path / "file.gz"
    path.write_bytes(next(filter(seems_cut, map(damaged, range(1_000)))))
    with pytest.raises(BadInputError, match="damaged gzip file .its end is there"):
        next(lines(path, ReadReport()))


@pytest.mark.parametrize(
    ("magic", "name"),
    [
        pytest.param(b"\x04\x22\x4d\x18", "standard lz4 format.*unpack it", id="standard lz4"),
        pytest.param(b"\xff\x06\x00\x00sNaPpY", "standard snappy format.*unpack it", id="standard snappy"),
        pytest.param(b"\xfd7zXZ\x00", "xz.*unpack it", id="xz"),
        pytest.param(b"BZh91AY", "bzip2.*unpack it", id="bzip2"),
    ],
)
def test_a_foreign_compression_is_refused_by_name_with_the_remedy(tmp_path, magic, name):
    path = tmp_path / "file"
    path.write_bytes(magic + b"rest")
    with pytest.raises(BadInputError, match=name):
        next(lines(path, ReadReport()))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 2 << 20)
    path = tmp_path / "file"
    path.write_bytes(b"x" * (4 << 20))
    with pytest.raises(BadInputError, match="line 1 is longer than 2 MB"):
        list(lines(path, ReadReport()))


def test_progress_adds_up_to_the_size_on_disk(tmp_path):
    for data in (TEXT, gzip.compress(TEXT), zstd(TEXT)):
        path = tmp_path / "file"
        path.write_bytes(data)
        told: list[int] = []
        list(lines(path, ReadReport(), told.append))
        assert sum(told) == len(data)
