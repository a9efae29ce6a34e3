"""Read files with sentences for what is wrong, and write them atomically: readers see the whole or none."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from spark_sched.errors import BadInputError

#: Mode of a file that only its owner can read and write.
PRIVATE = 0o600
#: No configuration, suite or result of this project is near this size.
MAX_TEXT_BYTES = 64 << 20

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def kind_of(path: Path) -> str | None:
    """What a path is that is no regular file, in words; None for a regular file, also behind links.

    A pipe without a writer would make its reader wait forever, and a device may have no end.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link to nothing" if path.is_symlink() else "missing"
    except OSError as error:  # a loop of links, a folder that may not be entered
        return f"not accessible ({error.strerror})"
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open for reading. Raises BadInputError if it is not one, or cannot be read."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise BadInputError(f"{path} is {what}, and only regular files are read: give a file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """A whole file. Raises BadInputError if it cannot be read, or has more than ``limit`` bytes."""
    with open_regular(path) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise BadInputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    if len(data) > limit:
        raise BadInputError(
            f"{path} is larger than {limit >> 20} MB, the most that is read: give another file"
        )
    return data


def read_text(path: Path) -> str:
    """The text of a file. Raises BadInputError if it cannot be read or has more than `MAX_TEXT_BYTES`."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise BadInputError(f"{path} is not UTF-8 text: give another file, or save it as UTF-8") from None


def toml_table(text: str, name: str) -> dict[str, Any]:
    """The top table of a TOML text from the file ``name``. Raises BadInputError if it is not TOML."""
    # Imported late: most commands read no TOML file.
    import tomllib

    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{name} is not a TOML file ({error}): fix that line") from None
    return table


def create_private(path: Path) -> None:
    """Make an empty file that only its owner can read, unless there is a file already."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text beside ``path``, then move it there. Raises BadInputError if that cannot be done."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise BadInputError(f"{str(path)!r} cannot be written ({error.strerror}): check the folder") from None


def check_folder(option: str, folder: Path) -> None:
    """Check before long work that files can be written into ``folder``, which is not made.

    Raises BadInputError, which names the ``option``, if the folder or its nearest parent that exists is no
    folder or cannot be written.
    """
    try:
        there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise BadInputError(
            f"{option} is {str(folder)!r} but that folder cannot be written ({error.strerror}): name another"
        ) from None
