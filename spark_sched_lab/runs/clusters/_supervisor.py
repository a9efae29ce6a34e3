"""Own the JVMs of one local cluster as long as the process that requested it lives.

Run as a script, never imported: ``python -I _supervisor.py '<json spec>'``. It needs the standard library
only, so it starts in milliseconds and works from a source tree that is not installed.

A separate process is needed because the owner may die by ``kill -9`` and could not clean up then. The
owner holds the write end of this process's standard input; the kernel closes it however the owner ends,
and end of file is the one signal on which everything here is taken down and the directory removed. Should
this process itself be killed, Linux ends the JVMs (``PR_SET_PDEATHSIG``) and executors follow their worker.

Steps:

1. start the master, read its address from its log;
2. start the workers against it, wait until each log says that it registered;
3. print one JSON line ``{"ready": true, "master_url": …}`` (or ``{"ready": false, "error": …}``);
4. wait for end of file; stop workers, then master; remove the directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_PR_SET_PDEATHSIG = 1
_STOP_GRACE_S = 5.0
_POLL_S = 0.05


class _StartError(Exception):
    """A daemon did not come up; the message says which and what its log ends with."""


class _OwnerGone(Exception):
    """Standard input reached its end while the cluster was still starting."""


def _die_with_parent() -> None:
    """Between fork and exec: ask Linux to end this child when the supervisor goes, however it goes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _owner_is_gone(timeout_s: float) -> bool:
    ready, _, _ = select.select([0], [], [], timeout_s)
    return bool(ready) and os.read(0, 4096) == b""


def _tail(path: Path, lines: int = 15) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    return "(no log)"


def _start(daemon: dict[str, Any], argv: list[str]) -> subprocess.Popen[bytes]:
    log = Path(daemon["log"])
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **daemon["env"]},
            cwd=log.parent,
            start_new_session=True,  # its executors share the group, so one killpg reaches them all
            preexec_fn=_die_with_parent,
        )


def _wait_for_line(
    name: str, process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[str], deadline_s: float
) -> str:
    while time.monotonic() < deadline_s:
        if found := pattern.search(log.read_text(errors="replace")):
            return found.group(1) if found.groups() else found.group(0)
        if process.poll() is not None:
            raise _StartError(f"the {name} exited with {process.returncode}; its log ends:\n{_tail(log)}")
        if _owner_is_gone(_POLL_S):
            raise _OwnerGone
    raise _StartError(f"the {name} was not up in time; its log ends:\n{_tail(log)}")


def _signal_group(process: subprocess.Popen[bytes], signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signum)


def _group_alive(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """End every group: politely first, so that workers stop their executors, then for certain."""
    for process in processes:
        _signal_group(process, signal.SIGTERM)
    deadline_s = time.monotonic() + _STOP_GRACE_S
    while time.monotonic() < deadline_s and any(_group_alive(process) for process in processes):
        time.sleep(_POLL_S)
    for process in processes:
        _signal_group(process, signal.SIGKILL)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_GRACE_S)


def _run(spec: dict[str, Any]) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    deadline_s = time.monotonic() + float(spec["start_timeout_s"])
    try:
        # 1. master
        master = spec["master"]
        processes.append(_start(master, master["argv"]))
        url = _wait_for_line("master", processes[0], Path(master["log"]), _MASTER_URL, deadline_s)
        # 2. workers
        for worker in spec["workers"]:
            processes.append(_start(worker, [*worker["argv"], url]))
        for worker, process in zip(spec["workers"], processes[1:], strict=True):
            name = f"worker {worker['host']}"
            _wait_for_line(name, process, Path(worker["log"]), _REGISTERED, deadline_s)
        # 3. tell the owner
        print(json.dumps({"ready": True, "master_url": url, "pids": [p.pid for p in processes]}), flush=True)
        # 4. until the owner goes
        while not _owner_is_gone(3600):
            pass
    except _OwnerGone:
        pass
    except _StartError as error:
        print(json.dumps({"ready": False, "error": str(error)}), flush=True)
    finally:
        # Workers before the master: a worker that loses its master first logs for seconds about it.
        _stop(processes[1:])
        _stop(processes[:1])
        shutil.rmtree(spec["directory"], ignore_errors=True)


if __name__ == "__main__":
    # The owner decides when to stop; a Ctrl-C in its terminal must not race with that.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _run(json.loads(sys.argv[1]))
