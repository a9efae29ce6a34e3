"""The first line on the planner's standard input, and its end."""

from __future__ import annotations

import io
import os
import threading

import pytest

from spark_sched.errors import BadInputError
from spark_sched.planner.handshake import Handshake, read_handshake, wait_for_end
from spark_sched.planner.log import Throttle, blot_out, make_log


def pipe(text: bytes) -> tuple[int, int]:
    reader, writer = os.pipe()
    os.write(writer, text)
    return reader, writer


def test_the_handshake_is_one_line_and_leaves_the_rest_of_the_pipe_alone() -> None:
    reader, writer = pipe(
        b'{"address": "::1", "port": 4711, "secret": "s3", "app": "app-1", "session": "s-1", '
        b'"folder": "/x"}\nrest'
    )
    assert read_handshake(reader) == Handshake("::1", 4711, "s3", "app-1", "s-1", "/x")
    assert os.read(reader, 10) == b"rest"
    os.close(reader)
    os.close(writer)


def test_the_secret_is_in_no_representation() -> None:
    assert "s3cret" not in repr(Handshake("::1", 1, "s3cret", "a", "s", "/x"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "must begin with the driver's handshake line"),
        (b'{"port": 1', "must begin with the driver's handshake line"),
        (b"s3cret\n", "must be a JSON object"),
        (b'["s3cret"]\n', "must be a JSON object"),
        (b'{"port": 1, "secret": "s3cret", "app": "a"}\n', "address must be one of the loopback interface"),
        (b'{"address": "10.0.0.1", "secret": "s3cret"}\n', "loopback interface, not '10.0.0.1'"),
        (b'{"address": "driver", "secret": "s3cret"}\n', "loopback interface, not 'driver'"),
        (
            b'{"address": "127.0.0.1", "secret": "s3cret", "app": "a"}\n',
            "port must be a whole number from 1 to 65535, not None",
        ),
        (b'{"address": "::1", "port": 70000, "secret": "s3cret", "app": "a"}\n', "not 70000"),
        (b'{"address": "::1", "port": true, "secret": "s3cret", "app": "a"}\n', "not True"),
        (
            b'{"address": "::1", "port": 1, "secret": "", "app": "a"}\n',
            "secret must be text that is not empty",
        ),
        (b'{"address": "::1", "port": 1, "secret": "s3cret"}\n', "app must be text"),
        (
            b'{"address": "::1", "port": 1, "secret": "s3cret", "app": "a", "session": "", "folder": "/x"}\n',
            "session must be text that is not empty, not ''",
        ),
        (
            b'{"address": "::1", "port": 1, "secret": "s3cret", "app": "a", "session": "s", "folder": "x"}\n',
            "folder must be an absolute path, not 'x'",
        ),
    ],
)
def test_a_bad_handshake_is_refused_without_telling_the_secret(line: bytes, words: str) -> None:
    reader, writer = pipe(line)
    os.close(writer)
    with pytest.raises(BadInputError, match=words) as refused:
        read_handshake(reader)
    assert "s3cret" not in str(refused.value)
    os.close(reader)


def test_the_end_of_the_pipe_is_noticed_and_not_before() -> None:
    reader, writer = pipe(b"chatter")
    watcher = threading.Thread(target=wait_for_end, args=(reader,))
    watcher.start()
    os.write(writer, b"more")
    assert watcher.is_alive()
    os.close(writer)
    watcher.join(timeout=300)
    assert not watcher.is_alive()
    os.close(reader)


def test_a_log_entry_is_one_line_without_the_secret() -> None:
    stream = io.StringIO()
    make_log(stream, "s3cret").warning("two\nlines and %s", "s3cret")
    assert stream.getvalue() == "WARNING two | lines and ***\n"


def test_what_is_blotted_out_later_shows_in_no_line_either() -> None:
    stream = io.StringIO()
    log = make_log(stream, "s3cret")
    blot_out(log, "hunter2")
    blot_out(log, "")
    log.warning("s3cret and hunter2 and more")
    assert stream.getvalue() == "WARNING *** and *** and more\n"


def test_a_throttle_lets_powers_of_two_through() -> None:
    throttle = Throttle()
    assert [throttle("x") for _ in range(9)] == [1, 2, 0, 4, 0, 0, 0, 8, 0]
    assert throttle("y") == 1
