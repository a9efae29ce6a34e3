"""The scale of an application's jobs, from the latest ones: seconds in one application, hours in another."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: Jobs whose sizes are remembered, the latest ones, and the least number from which a scale follows.
_KEPT, _LEAST = 200, 10
#: Scales are powers of this many-th root of ten: 1, 3.2, 10, 32, …
_PER_DECADE = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """A typical size of jobs, which follows a quantile of the latest sizes in rare steps. Immutable.

    It is a power of the square root of ten. It changes only when the quantile is more than a factor of that
    root away, so that a random fluctuation around the border of two steps changes nothing.

    Attributes:
        value: in force.
        low, high: the least and the greatest value.
        quantile: of the sizes that it follows.
        sizes: the latest ones, the oldest first, each above 0.
    """

    value: float
    low: float
    high: float
    quantile: float = 0.25
    sizes: tuple[float, ...] = ()

    def after(self, sizes: Iterable[float]) -> Scale:
        """After jobs of these sizes."""
        new = tuple(size for size in sizes if size > 0.0)
        if not new:
            return self
        known = (*self.sizes, *new)[-_KEPT:]
        value = self.value
        if len(known) >= _LEAST:
            wanted = sorted(known)[int(self.quantile * (len(known) - 1))]
            wanted = min(self.high, max(self.low, wanted))
            if abs(math.log10(wanted / value)) * _PER_DECADE > 1.0:
                step = round(math.log10(wanted) * _PER_DECADE) / _PER_DECADE
                value = min(self.high, max(self.low, 10.0**step))
        return replace(self, value=value, sizes=known)

    @property
    def basis(self) -> str:
        """What the value follows from, for people."""
        # Without the number of sizes: a plan with another reason is sent to the driver.
        return "by the sizes seen" if len(self.sizes) >= _LEAST else f"until {_LEAST} sizes are seen"
