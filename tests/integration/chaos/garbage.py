"""What strangers send to the ports of a driver: bytes that mean nothing, and requests that are wrong."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

_ESTABLISHED = "01"
_LOOPBACK = "127.0.0.1"


def port_that_is_called(pid: int) -> int | None:
    """The port of this machine to which the process has a connection."""
    sockets = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(entry))
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _ESTABLISHED and f"socket:[{words[9]}]" in sockets:
                    return int(words[2].rpartition(":")[2], 16)
    return None


def to_bridge(port: int, draw: random.Random) -> str:
    """Bytes, py4j's commands without its secret, a line without an end, and a silent connection."""
    messages = [
        draw.randbytes(4_096),
        b"A\n" + b"0" * 64 + b"\ne\n",
        b"c\nt\npoll\ni2000\ni1000\ne\n",
        b"c\nt\nsubmitPlan\ns{}\ne\n",
        b"x" * 1_000_000,
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
    ]
    answered = sum(bool(_send(_LOOPBACK, port, message)) for message in messages)
    return f"{len(messages)} messages to port {port}, {answered} of them answered"


def to_ui(url: str, draw: random.Random) -> str:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    messages = [
        draw.randbytes(4_096),
        b"GET /sched/api/v1/jobs/%00%ff%c0%af HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /sched/api/v1/jobs?name=" + b"%0a" * 2_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /scheduling/job/?name=%3Cscript%3E HTTP/1.0\r\n\r\n",
        b"POST /sched/api/v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n{",
        b"GET /" + b"x" * 100_000,
        b"",
    ]
    for message in messages:
        _send(place.hostname, place.port, message)
    return f"{len(messages)} messages to {url}"


def to_steering(url: str) -> tuple[str, list[str]]:
    """Requests each of which must be refused: a sentence on them, and those that were not."""
    header = {"X-Spark-Sched": "1", "Content-Type": "application/json"}
    requests: list[tuple[str, bytes, dict[str, str]]] = [
        ("hold", b"{", header),
        ("hold", b'{"job": {"a": 1}}', header),
        ("hold", b"[]", header),
        ("hold", json.dumps({"job": "nobody\x1b[2J\n"}).encode(), header),
        ("hold", json.dumps({"job": "x" * 100_000}).encode(), header),
        ("set", b'{"job": "nobody", "priority": "1e99"}', header),
        ("mode", b'{"name": "halt"}', header),
        ("no-such-action", b"{}", header),
        ("pause", b"{}", {}),
        ("policy", b'{"name": "../../x"}', header),
    ]
    problems = []
    for action, body, headers in requests:
        answer = _post(f"{url}/sched/api/v1/steer/{action}", body, headers)
        if not 400 <= answer < 500:
            problems.append(f"garbage to steering: {action} {body[:60]!r} was answered with status {answer}")
    return f"{len(requests)} requests to {url}", problems


def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    try:
        with urlopen(Request(url, data=body, headers=headers), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def _send(host: str, port: int, message: bytes) -> bytes:
    """What is answered within half a second, or before the other side closes the connection."""
    found = b""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=0.5) as other:
        other.sendall(message)
        found = other.recv(100)
    return found
