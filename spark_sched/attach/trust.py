"""Whether a compiled bridge in the cache may be loaded: its code runs in the driver with all rights of the
user."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from spark_sched.errors import BadInputError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_directory(path: Path, remedy: str, *, ours: bool) -> None:
    """Make the folder, accessible to its owner alone. An existing one must belong to the user or root.

    Raises BadInputError if others could put a jar there; the message ends with ``remedy``.

    Args:
        ours: it contains only compiled bridges, so access can be taken from others.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if not _owned(found):
        raise BadInputError(f"the cache directory {str(path)!r} belongs to another user: {remedy}")
    if not found.st_mode & _OTHERS_WRITE:
        return
    if ours and found.st_uid == os.geteuid():
        path.chmod(0o700)
        return
    raise BadInputError(
        f"the cache directory {str(path)!r} can be written by others: chmod go-w it, or {remedy}"
    )


def seal(jar: Path) -> None:
    """Note the hash of a jar that was just compiled beside it; both become private."""
    jar.chmod(0o600)
    note = _note(jar)
    temporary = note.with_name(f".{note.name}.{os.getpid()}")
    temporary.write_text(_digest(jar), encoding="ascii")
    temporary.chmod(0o600)
    os.replace(temporary, note)


def is_trusted(jar: Path) -> bool:
    """Whether only the user or root could write the jar, and it has not changed since it was sealed."""
    note = _note(jar)
    return _safe(jar) and _safe(note) and _digest(jar) == note.read_text(encoding="ascii", errors="replace")


def _note(jar: Path) -> Path:
    return jar.with_name(f"{jar.name}.sha256")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _safe(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and _owned(found) and not found.st_mode & _OTHERS_WRITE


def _owned(found: os.stat_result) -> bool:
    return found.st_uid in (os.geteuid(), 0)
