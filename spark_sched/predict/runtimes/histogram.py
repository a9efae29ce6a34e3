"""A histogram of runtimes with a bounded number of bins: Ben-Haim and Tom-Tov, "A streaming parallel decision
tree algorithm" (JMLR 11, 2010), as 3Sigma uses it (§4.1)."""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.predict.runtimes.distribution import RuntimeDistribution

#: The paper's number.
MAX_BINS = 80
#: Shorter runtimes count as this one: clocks have a resolution of a millisecond.
LEAST_S = 1e-3
#: Weights of new values grow, instead of old counts being reduced; beyond this value all are rescaled.
_REBASE = 64.0
#: A bin is dropped when its weight is at most this share of a new value's.
_FADED = 1.0 / 32.0


class StreamingHistogram:
    """At most ``max_bins`` bins, each a center and a count; constant memory.

    A new value is a bin of its own; when there are too many, the two whose centers have the smallest *ratio*
    become one at their weighted mean. (The paper takes the smallest difference. Runtimes span seconds to
    days: by difference all short runtimes would share a few bins while each long one kept its own.) Mass and
    mean are kept exactly.

    Old values fade once there are ``memory`` of them: each further value reduces every count by 1/``memory``.
    So after a permanent change of runtimes the histogram contains mostly new values in the end.

    Args:
        max_bins: at least 2.
        memory: how many values the counts stand for at most; infinity: nothing fades.
    """

    __slots__ = ("_centers", "_counts", "_exact", "_sum", "_unit", "max_bins", "max_s", "memory", "min_s")

    def __init__(self, max_bins: int = MAX_BINS, memory: float = float("inf")) -> None:
        self.max_bins = max_bins
        self.memory = memory
        self.min_s = float("inf")
        self.max_s = 0.0
        self._centers = array("d")
        self._counts = array("d")
        self._exact = array("b")  # whether the bin holds its center alone
        self._sum = 0.0  # of the counts
        self._unit = 1.0  # what one new value weighs in the counts

    def __len__(self) -> int:
        return len(self._centers)

    @property
    def total(self) -> float:
        """Mass in values: how many were added, less what has faded."""
        return self._sum / self._unit

    def add(self, runtime_s: float) -> None:
        value = max(LEAST_S, runtime_s)
        if self._sum > (self.memory - 1.0) * self._unit:
            self._unit /= 1.0 - 1.0 / self.memory
            if self._unit > _REBASE:
                self._rebase()
        self.min_s = min(self.min_s, value)
        self.max_s = max(self.max_s, value)
        self._insert(value, self._unit, 1)
        if len(self._centers) > self.max_bins:
            self._shrink()

    def merge(self, other: StreamingHistogram) -> None:
        scale = self._unit / other._unit
        for center, count, exact in zip(other._centers, other._counts, other._exact, strict=True):
            self._insert(center, count * scale, exact)
        while len(self._centers) > self.max_bins:
            self._shrink()
        self.min_s = min(self.min_s, other.min_s)
        self.max_s = max(self.max_s, other.max_s)

    def distribution(self) -> RuntimeDistribution:
        """The distribution of what was added. Raises BadInputError while there is nothing."""
        if not self._centers:
            raise BadInputError("a histogram without runtimes has no distribution: add one first")
        return RuntimeDistribution.trusted_histogram(
            np.array(self._centers),
            np.array(self._counts) / self._unit,
            self.min_s,
            self.max_s,
            np.array(self._exact, dtype=np.bool_),
        )

    def _insert(self, center: float, count: float, exact: int) -> None:
        self._sum += count
        at = bisect_left(self._centers, center)
        if at < len(self._centers) and self._centers[at] == center:
            self._counts[at] += count
            self._exact[at] &= exact
        else:
            self._centers.insert(at, center)
            self._counts.insert(at, count)
            self._exact.insert(at, exact)

    def _shrink(self) -> None:
        centers = np.array(self._centers)
        at = int(np.argmin(centers[1:] / centers[:-1]))
        left, right = self._counts[at], self._counts.pop(at + 1)
        both = left + right
        self._centers[at] += (self._centers.pop(at + 1) - self._centers[at]) * (right / both)
        self._counts[at] = both
        self._exact.pop(at + 1)
        self._exact[at] = 0

    def _rebase(self) -> None:
        """Rescale counts to values; faded bins are removed, with the range that they covered."""
        kept = [
            (center, count / self._unit, exact)
            for center, count, exact in zip(self._centers, self._counts, self._exact, strict=True)
            if count > _FADED * self._unit
        ]
        self._centers = array("d", [center for center, _, _ in kept])
        self._counts = array("d", [count for _, count, _ in kept])
        self._exact = array("b", [exact for _, _, exact in kept])
        self._sum = sum(self._counts)
        self._unit = 1.0
        self.min_s, self.max_s = self._centers[0], self._centers[-1]

    def to_bytes(self) -> bytes:
        """The state as 8-byte little-endian floats: range, unit, then centers, counts and marks."""
        head = [self.min_s, self.max_s, self._unit]
        rows = np.array([*head, *self._centers, *self._counts, *self._exact], dtype="<f8")
        return rows.tobytes()

    @classmethod
    def from_bytes(
        cls, state: bytes, max_bins: int = MAX_BINS, memory: float = float("inf")
    ) -> StreamingHistogram:
        """What `to_bytes` wrote. Raises ValueError if it cannot be that."""
        rows = np.frombuffer(state, dtype="<f8")
        size, rest = divmod(rows.size - 3, 3)
        if rest or size < 0 or size > max_bins or not (size == 0 or np.isfinite(rows).all()):
            raise ValueError("no histogram")
        made = cls(max_bins, memory)
        made.min_s, made.max_s, made._unit = rows[:3].tolist()
        made._centers = array("d", rows[3 : 3 + size].tolist())
        made._counts = array("d", rows[3 + size : 3 + 2 * size].tolist())
        made._exact = array("b", [int(v) for v in rows[3 + 2 * size :].tolist()])
        centers = rows[3 : 3 + size]
        if size and not (
            centers[0] > 0.0
            and (np.diff(centers) > 0.0).all()
            and (rows[3 + size : 3 + 2 * size] > 0.0).all()
        ):
            raise ValueError("no histogram")
        made._sum = sum(made._counts)
        return made
