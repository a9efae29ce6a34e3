"""What a cluster costs per hour, from prices that the user gives.

Prices differ by region, contract and minute (spot), so none are built in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spark_sched.errors import BadInputError, did_you_mean

_NAMES = ("master", "worker", "nat")
_PAGES = "https://aws.amazon.com/ec2/pricing and https://aws.amazon.com/vpc/pricing list them"


@dataclass(frozen=True)
class HourlyPrices:
    """Dollars per hour of the master, of each worker, and of the NAT gateway."""

    master: float
    worker: float
    nat: float

    def per_hour(self, workers: int) -> float:
        """Dollars per hour of a whole cluster.

        >>> round(HourlyPrices(0.2, 0.4, 0.05).per_hour(3), 2)
        1.45
        """
        return self.master + workers * self.worker + self.nat


def read_prices(given: Sequence[str], types: dict[str, str]) -> HourlyPrices:
    """Prices from ``NAME=DOLLARS`` texts; ``types`` are the instance types, for messages.

    Raises BadInputError for a missing, unknown, repeated or wrong price.
    """
    found: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in _NAMES:
            hint = did_you_mean(name, _NAMES)
            raise BadInputError(
                f"--price is {text!r}{hint} but must be one of {', '.join(_NAMES)} and =DOLLARS"
            )
        if name in found:
            raise BadInputError(f"--price {name} is given twice: keep one")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not 0 <= found[name] < math.inf:
            raise BadInputError(f"--price is {text!r} but must be dollars per hour, as {name}=0.34")
    for name in _NAMES:
        if name not in found:
            what = f"{name} ({types[name]})" if name in types else "nat (the NAT gateway)"
            raise BadInputError(
                f"the price of {what} is missing: add --price {name}=DOLLARS per hour; {_PAGES}"
            )
    return HourlyPrices(**found)
