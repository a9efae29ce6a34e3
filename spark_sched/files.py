"""Write files atomically: readers see the whole file or none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from spark_sched.errors import BadInputError

#: Mode of a file that only its owner can read and write.
PRIVATE = 0o600


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
