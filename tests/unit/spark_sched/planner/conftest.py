"""The history databases that the stores are tested on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "history.db")
        return
    yield from _postgres(tmp_path)


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[str]:
    yield from _postgres(tmp_path)


def _postgres(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed")
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("no PostgreSQL on this machine")
    data, sockets = tmp_path / "data", tmp_path / "s"
    sockets.mkdir()
    as_user: list[str] = []
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        if (
            shutil.which("runuser") is None
            or subprocess.run(["id", "nobody"], capture_output=True).returncode
        ):
            pytest.skip("PostgreSQL does not run as root and there is no other user")
        as_user = ["runuser", "-u", "nobody", "--"]
        for folder in (tmp_path, sockets):
            shutil.chown(folder, "nobody")
        for parent in tmp_path.parents:
            if not parent.stat().st_mode & 0o001:
                if parent == Path(parent.anchor):
                    break
                parent.chmod(parent.stat().st_mode | 0o011)

    def pg(*command: str) -> None:
        subprocess.run([*as_user, *command], check=True, capture_output=True, cwd="/", timeout=120)

    try:
        pg("initdb", "-D", str(data), "-U", "sched", "-A", "trust", "--no-sync")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"PostgreSQL cannot be set up here ({error.stderr.decode()[-80:]!r})")
    options = f"-c listen_addresses= -c unix_socket_directories={sockets} -c fsync=off"
    pg("pg_ctl", "-D", str(data), "-w", "-l", str(tmp_path / "log"), "-o", options, "start")
    try:
        yield f"postgresql://sched@/postgres?host={sockets}"
    finally:
        pg("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
