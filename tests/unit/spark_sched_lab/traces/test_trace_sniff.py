"""A file of another format is refused by name, with what it looks like."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import FORMATS, open_trace

LOOKS = [
    pytest.param(b"; comment\n", "swf", id="an SWF header"),
    pytest.param(b"1 10 5 100 8 -1 -1 16 300 2048 1 3 1 4 2 -1 -1 -1\n", "swf", id="an SWF row"),
    pytest.param(b"0.5 2 3.0 2.0 4.0\n", "hawk", id="a Hawk row"),
    pytest.param(b"job0\t49\t49\t740773\t2339561\t627471\n", "swim", id="a SWIM row"),
    pytest.param(b"M1,1,j_1,1,Terminated,419209,419219,100,0.3\n", "alibaba2018", id="batch_task"),
    pytest.param(b"0,,3418309,0,user,3,n,\n", "google2011", id="job_events"),
    pytest.param(b"0,2,3418309,0,4155527081,0,u,3,9,,,,\n", "google2011", id="task_events"),
    pytest.param(b'{"time": 1, "collection_id": 5, "type": 0}\n', "google2019", id="collection_events"),
    pytest.param(
        b'{"query":1,"scale":"2g","parents":[],"stages":[]}\n', "tpch_profiles", id="a TPC-H profile"
    ),
    pytest.param(b'{"Event":"SparkListenerLogStart"}\n', "spark_eventlog", id="an event log"),
]


@pytest.mark.parametrize(
    "compress", [pytest.param(bytes, id="plain"), pytest.param(gzip.compress, id="gzip")]
)
@pytest.mark.parametrize(("data", "name"), LOOKS)
def test_a_format_is_found_from_the_content(tmp_path, data, name, compress):
    path = tmp_path / "file"
    path.write_bytes(compress(data))
    assert open_trace(path).format == name
    other = next(f for f in FORMATS if f != name)
    with pytest.raises(BadInputError, match=f"is not a {other} trace but looks like .*: read it as {name}"):
        open_trace(path, other)


def tar_of(name):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(pickle.dumps({"a": 1}), "a Python pickle", id="a pickle"),
        pytest.param(tar_of("x/readme.txt"), "a tar archive without StageDetails", id="a tar file"),
        pytest.param(
            b"c1,t,j,1,Terminated,1,2,m,1,1,1,1,1,1\n", "batch_instance table", id="Alibaba's other table"
        ),
        pytest.param(b'{"a": 1, "b": 2}\n', "JSON lines with the keys a, b", id="other JSON"),
        pytest.param(b'{"a": 1\n', "damaged JSON", id="cut JSON"),
        pytest.param(
            b"1406471.0 45 81384.1" + b" 79782.4" * 15,
            "text that begins with '1406471.0 45",
            id="a cut task list",
        ),
        pytest.param(b"Dear diary\n", "text that begins with 'Dear diary'", id="prose"),
        pytest.param(b"\x00\xff\xfe\x01", "text that begins with", id="binary rubbish"),
    ],
)
def test_what_is_no_trace_is_refused_by_what_it_looks_like(tmp_path, data, words):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(BadInputError, match=words):
        open_trace(path)


def test_missing_and_empty_files_are_named(tmp_path):
    with pytest.raises(BadInputError, match="none does not exist"):
        open_trace(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(BadInputError, match="empty is empty"):
        open_trace(tmp_path / "empty")


def test_an_unknown_format_gets_the_nearest_name(tmp_path):
    with pytest.raises(BadInputError, match="did you mean 'alibaba2018'"):
        open_trace(tmp_path, "alibaba")
