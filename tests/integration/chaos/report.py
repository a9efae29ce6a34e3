"""What a run reports: a table of its counts, and the load that it was."""

from __future__ import annotations

import os
import resource
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.integration.processes import descendants_running


class Load(threading.Thread):
    """Processor time and memory of this process and all below it, and of nobody else."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="load")
        self._begun_s = time.monotonic()
        self._most_mb = 0.0

    def run(self) -> None:
        while True:
            self._most_mb = max(self._most_mb, sum(map(_resident_mb, descendants_running(os.getpid(), ""))))
            time.sleep(5.0)

    def so_far(self) -> dict[str, float]:
        """The figures. Processes that nobody waited for are not counted: those whose parent was killed."""
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        processor_s = sum(each.ru_utime + each.ru_stime for each in used)
        took_s = time.monotonic() - self._begun_s
        return {
            "processor_s": round(processor_s, 1),
            "took_s": round(took_s, 1),
            "cores": round(processor_s / took_s, 3),
            "most_mb": round(self._most_mb),
        }


def _resident_mb(pid: int) -> float:
    """With its part of what it shares with others."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def table(result: dict[str, Any]) -> str:
    """The counts, and all that explains those that are not zero."""
    wide = max(map(len, result["counts"]))
    text = [f"chaos under {result['policy']}, seed {result['seed']}, {result['seconds']:g} s"]
    text += [f"  {name:{wide}}  {count}" for name, count in result["counts"].items()]
    load = "{processor_s:.0f} s of processor time in {took_s:.0f} s, {most_mb} MB at most".format(**result)
    jobs, faults = (sum(result[what].values()) for what in ("jobs", "faults"))
    text.append(f"{jobs} jobs, {faults} faults, {result['looks']} looks; {load}")
    if any(result["counts"].values()):
        text += [f"{what}: {result[what]}" for what in ("jobs", "faults", "counters")]
        text += ["faults in the order of their times:", *result["fault_log"]]
        for kind, sentences in result["lines"].items():
            text += [f"{kind}:", *(f"  {sentence}" for sentence in sentences)] if sentences else []
    return "\n".join(text)
