"""Power of servers and switches: tables 3.1, 3.2 and 4.1 of the thesis, equations 4.1 and 4.2."""

from __future__ import annotations

from dataclasses import dataclass

from spark_sched.errors import BadInputError


@dataclass(frozen=True, slots=True)
class ServerType:
    """A row of table 3.1.

    Attributes:
        name: the table's letter.
        ratio: share of all servers.
        cpu, memory: capacity, the largest machine's being 1.
        cpu_w, memory_w: power at full use of CPU and of memory, beside ``idle_w``; watts.
        sleep_w, idle_w, peak_w: watts. The table's peak, 231.25 W for type A where equation 4.2 gives 231.5.

    Raises:
        BadInputError: a capacity is not above 0, or a power or the ratio is negative; or one is not finite.
    """

    name: str
    ratio: float
    cpu: float
    memory: float
    cpu_w: float
    memory_w: float
    sleep_w: float
    idle_w: float
    peak_w: float

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", "ratio", "cpu_w", "memory_w", "sleep_w", "idle_w", "peak_w"):
            value, positive = getattr(self, name), name in ("cpu", "memory")
            if not 0.0 <= value < float("inf") or (positive and value == 0.0):
                range_ = "above 0" if positive else "at least 0"
                raise BadInputError(
                    f"{name} of server type {self.name} is {value!r} but must be {range_} and finite"
                )

    def on_w(self, cpu_used: float, memory_used: float) -> float:
        """Watts of a server that is on, by the CPU and memory in use (units of the largest machine; eq. 4.1).

        >>> round(SERVER_TYPES[0].on_w(0.5, 0.0), 1)
        213.5
        """
        return self.idle_w + self.cpu_w * cpu_used / self.cpu + self.memory_w * memory_used / self.memory


@dataclass(frozen=True, slots=True)
class SwitchType:
    """A row of table 4.1: watts asleep, idle and on."""

    sleep_w: float
    idle_w: float
    on_w: float


#: Table 3.1.
SERVER_TYPES = (
    ServerType("A", 0.54, 0.5, 0.5, 51.5, 18.0, 46.25, 162.0, 231.25),
    ServerType("B", 0.31, 0.5, 0.25, 51.5, 9.0, 44.5, 162.0, 222.5),
    ServerType("C", 0.08, 0.5, 0.75, 51.5, 24.0, 47.5, 162.0, 237.5),
    ServerType("D", 0.07, 1.0, 1.0, 103.0, 36.0, 60.2, 162.0, 301.0),
)
#: Table 4.1: core, aggregation, access.
SWITCHES_CHAPTER_4 = (
    SwitchType(5.0, 16.6, 25.0),
    SwitchType(10.2, 34.0, 51.0),
    SwitchType(15.0, 50.0, 75.0),
)
#: Table 3.2 gives the power on alone, that of table 4.1, whose sleep power is taken here. Chapter 3 knows no
#: idle switch: one that never sleeps is on.
SWITCHES_CHAPTER_3 = (
    SwitchType(5.0, 25.0, 25.0),
    SwitchType(10.2, 51.0, 51.0),
    SwitchType(15.0, 75.0, 75.0),
)
