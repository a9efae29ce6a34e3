"""Power of a host as a function of the share of its slots that run tasks (thesis, equation 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.files import read_text, toml_table

_NUMBERS = ("idle_w", "cpu_w", "memory_w", "slots")


@dataclass(frozen=True, slots=True)
class HostType:
    """A kind of host.

    Attributes:
        name: its name in the profile.
        idle_w: power without tasks; watts.
        dynamic_w: what all slots running tasks add, of CPU and memory; watts.
        slots: number of tasks that the whole host can run at once; None: the slots that its executors offer.
    """

    name: str
    idle_w: float
    dynamic_w: float
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class PowerProfile:
    """The types of the hosts: the first pattern that a host's name matches, else ``default``.

    Patterns are the shell's (``*``, ``?``, ``[...]``). ``measured_j`` has the energy in joules that was
    measured of a host while its executors were there, by the host's name.
    """

    default: HostType
    hosts: tuple[tuple[str, HostType], ...] = ()
    measured_j: Mapping[str, float] = field(default_factory=dict)

    def of(self, host: str) -> HostType:
        return next((kind for pattern, kind in self.hosts if fnmatchcase(host, pattern)), self.default)


def read_profile(path: Path, measured: Sequence[Path] = ()) -> PowerProfile:
    """The profile in a TOML file, see conf/energy/thesis.toml.

    Args:
        measured: further files with a table ``measured_j``, as ``spark-sched energy`` writes them.

    Raises:
        BadInputError: a file cannot be read, is not TOML, a key is unknown, missing or out of range, or two
            files have the energy of one host.
    """
    document = toml_table(read_text(path), str(path))
    _known(path, "the profile", document, ("default", "types", "hosts", "measured_j"))
    types = document.get("types")
    if not isinstance(types, dict) or not types:
        raise BadInputError(f"{path}: give at least one host type, a table such as [types.A]")
    kinds = {name: _type(path, name, table) for name, table in types.items()}

    def kind(where: str, name: Any) -> HostType:
        if not isinstance(name, str) or name not in kinds:
            raise BadInputError(f"{path}: {where} is {name!r} but must be one of {', '.join(kinds)}")
        return kinds[name]

    hosts = document.get("hosts", {})
    if not isinstance(hosts, dict):
        raise BadInputError(f"{path}: hosts must be a table of host name patterns and types")
    default = document.get("default", next(iter(kinds)) if len(kinds) == 1 else None)
    measured_j = _measured_j(path, document)
    for file in measured:
        further = toml_table(read_text(file), str(file))
        _known(file, "a measurement", further, ("measured_j",))
        for name, joules in _measured_j(file, further).items():
            if name in measured_j:
                raise BadInputError(
                    f"{file} gives the energy of host {name!r} a second time: keep one of them"
                )
            measured_j[name] = joules
    return PowerProfile(
        kind("default", default),
        tuple((pattern, kind(f"hosts.{pattern}", v)) for pattern, v in hosts.items()),
        measured_j,
    )


def _measured_j(path: Path, document: Mapping[str, Any]) -> dict[str, float]:
    measured_j = document.get("measured_j", {})
    if not isinstance(measured_j, dict):
        raise BadInputError(f"{path}: measured_j must be a table of host names and joules")
    for host, joules in measured_j.items():
        if type(joules) not in (int, float) or not 0.0 < joules < float("inf"):
            raise BadInputError(f"{path}: measured_j.{host} is {joules!r} but must be a number above 0")
    return {host: float(joules) for host, joules in measured_j.items()}


def _known(path: Path, where: str, table: Mapping[str, Any], legal: tuple[str, ...]) -> None:
    for key in table:
        if key not in legal:
            raise BadInputError(
                f"{path}: {where} has an unknown key {key!r}{did_you_mean(key, legal)}; it may have "
                f"{', '.join(legal)}"
            )


def _type(path: Path, name: str, table: Any) -> HostType:
    where = f"types.{name}"
    if not isinstance(table, dict):
        raise BadInputError(f"{path}: {where} must be a table with idle_w, cpu_w, memory_w and slots")
    _known(path, where, table, _NUMBERS)
    if "idle_w" not in table or "cpu_w" not in table:
        raise BadInputError(f"{path}: {where} needs idle_w and cpu_w, in watts")
    for key, value in table.items():
        if type(value) not in (int, float) or not 0.0 <= value < float("inf"):
            raise BadInputError(f"{path}: {where}.{key} is {value!r} but must be a number >= 0")
    slots = table.get("slots")
    if slots is not None and (type(slots) is not int or slots < 1):
        raise BadInputError(f"{path}: {where}.slots is {slots!r} but must be a whole number >= 1")
    return HostType(
        name, float(table["idle_w"]), float(table["cpu_w"]) + float(table.get("memory_w", 0.0)), slots
    )
