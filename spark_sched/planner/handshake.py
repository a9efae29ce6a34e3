"""The first line of the planner's standard input: the driver's address, and the secret that it requires.

The pipe is read by its file descriptor, byte by byte: a buffered reader would swallow what follows, and
would hold a lock at interpreter exit.
"""

from __future__ import annotations

import ipaddress
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field

from spark_sched.errors import BadInputError

_MAX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Handshake:
    """``address`` and ``port`` of the driver's py4j gateway on the loopback interface, which is ``::1`` where
    the driver prefers IPv6; the driver's working directory ``folder``. ``session`` identifies this run of the
    driver: the numbers of its jobs' ends are unique within it. The secret is in no representation."""

    address: str
    port: int
    secret: str = field(repr=False)
    app: str
    session: str
    folder: str


def read_handshake(fd: int) -> Handshake:
    """Read and check the first line. Raises BadInputError; the sentence never holds the secret."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte or len(line) >= _MAX_BYTES:
            raise BadInputError(
                "standard input must begin with the driver's handshake line: "
                "the driver starts the planner by itself"
            )
        line += byte
    try:
        source = json.loads(line)
    except ValueError:
        source = None
    if not isinstance(source, dict):
        raise BadInputError(
            "the handshake line must be a JSON object with address, port, secret, app, session and folder"
        )
    address, port, secret = source.get("address"), source.get("port"), source.get("secret")
    app, session, folder = source.get("app"), source.get("session"), source.get("folder")
    if not isinstance(address, str) or not _is_loopback(address):
        raise BadInputError(f"the handshake's address must be one of the loopback interface, not {address!r}")
    if type(port) is not int or not 0 < port < 65_536:
        raise BadInputError(f"the handshake's port must be a whole number from 1 to 65535, not {port!r}")
    if not isinstance(secret, str) or not secret:
        raise BadInputError("the handshake's secret must be text that is not empty")
    if not isinstance(app, str):
        raise BadInputError(f"the handshake's app must be text, not {app!r}")
    if not isinstance(session, str) or not session:
        raise BadInputError(f"the handshake's session must be text that is not empty, not {session!r}")
    if not isinstance(folder, str) or not os.path.isabs(folder):
        raise BadInputError(f"the handshake's folder must be an absolute path, not {folder!r}")
    return Handshake(address, port, secret, app, session, folder)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def wait_for_end(fd: int) -> None:
    """Return when the other end of the pipe is closed: the driver is gone, however it ended."""
    with suppress(OSError):
        while os.read(fd, 4_096):
            pass
