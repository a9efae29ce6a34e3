"""The thesis' named settings of priority scheduling, S1 to S11."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EvictionSetup:
    """An eviction rule on servers, see `named_rule` and `thesis_servers`."""

    rule: str
    configuration: str = "SC2"
    memory: bool = False
    resume: bool = False
    memory_eviction: str = "LSF"


def _setting(rule: str, memory_eviction: str | None) -> EvictionSetup:
    return EvictionSetup(rule, "SC3", memory_eviction is not None, memory_eviction=memory_eviction or "LSF")


#: Table 6.2, on servers of 24 and 48 slots (§6.4).
SETTINGS: Mapping[str, EvictionSetup] = {
    "S1": _setting("lrs", None),
    "S2": _setting("rnd", None),
    "S3": _setting("mrs", None),
    "S4": _setting("fcfs", "LPF"),
    "S5": _setting("fcfs", "LSF"),
    "S6": _setting("lrs", "LPF"),
    "S7": _setting("lrs", "LSF"),
    "S8": _setting("rnd", "LPF"),
    "S9": _setting("rnd", "LSF"),
    "S10": _setting("mrs", "LPF"),
    "S11": _setting("mrs", "LSF"),
}
