"""Temporary folders of experiments: removed with their block, or by a later experiment after `kill -9`.

An experiment holds an exclusive ``flock`` on a file inside its folder. The kernel releases the lock when the
process ends in any way, so a folder whose lock is free has no owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_OWNER = ".owner"


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new private folder in the temporary directory, removed with the block.

    Folders of this prefix whose owner was killed are removed first; those of running experiments, of other
    users, and without an owner's file stay.
    """
    _remove_abandoned(prefix)
    folder, owner = _claimed(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)


def _claimed(prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        owner = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        # Another experiment that saw the file before its lock has the lock, or has removed the folder.
        if _locked(owner) and (folder / _OWNER).exists():
            return folder, owner
        os.close(owner)


def _remove_abandoned(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            owner = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if _locked(owner):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(owner)


def _locked(file: int) -> bool:
    """Take the lock of an open file; False if another process has it. Child processes do not inherit it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
