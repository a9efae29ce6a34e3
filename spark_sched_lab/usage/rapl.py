"""RAPL counters: the energy of a host's processors as Linux counts it (powercap, also on AMD)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_sched.errors import BadInputError


@dataclass(frozen=True, slots=True)
class _Counter:
    """A file of microjoules that starts again at 0 after ``range_uj``."""

    path: Path
    range_uj: int


class RaplMeter:
    """Energy since the meter was created: of all processor packages, and of the memory if it has a counter.

    Packages are ``intel-rapl:N``. Of their parts only ``dram`` is not in the package's own counter. The zone
    ``psys``, where there is one, counts the packages again and is left out.

    Args:
        root: the folder of the counters, ``/sys/class/powercap`` on Linux.

    Raises:
        BadInputError: the host has no counter, or one cannot be read.
    """

    def __init__(self, root: Path) -> None:
        self._counters = [
            _Counter(zone / "energy_uj", _number(zone / "max_energy_range_uj"))
            for zone in sorted(root.glob("intel-rapl:*"))
            if _counts(zone)
        ]
        if not self._counters:
            raise BadInputError(
                f"{root} has no RAPL counter (intel-rapl:N), as on most virtual machines: run without "
                "measured_j, and the power model alone gives the energy"
            )
        self._last_uj = [_number(counter.path) for counter in self._counters]
        self._sum_uj = 0

    def sample(self) -> float:
        """Read the counters. Returns the joules since the meter was created.

        Call it more often than a counter wraps around (``max_energy_range_uj``: 262 kJ on many processors, 20
        min at 200 W), because two readings show at most one wrap-around.
        """
        now_uj = [_number(counter.path) for counter in self._counters]
        for counter, last, now in zip(self._counters, self._last_uj, now_uj, strict=True):
            self._sum_uj += now - last if now >= last else now - last + counter.range_uj
        self._last_uj = now_uj
        return self._sum_uj / 1e6


def _counts(zone: Path) -> bool:
    """Whether a zone's energy is in no other zone's."""
    name = _text(zone / "name")
    return name == "dram" or name.startswith("package")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except PermissionError:
        raise BadInputError(f"{path} cannot be read: run as root, or let this user read it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not a readable RAPL file ({error})") from None


def _number(path: Path) -> int:
    text = _text(path)
    if not text.isdecimal():
        raise BadInputError(f"{path} has {text!r} but must have a number of microjoules")
    return int(text)
