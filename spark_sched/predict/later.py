"""Jobs that have yet to arrive: in each sample others, drawn from those that came of late.

How many come per time, what they need, and how long this goes on is not known, and the errors of all waiting
jobs' forecasts depend on it together. So each sample draws all three: the rate from its posterior after the
arrivals seen (a gamma distribution), the jobs from those seen, with replacement (bootstrap), and how much
longer such a rush lasts from the time that it has lasted: it lasts for another such time in half of the
samples (Gott, "Implications of the Copernican principle for our future prospects", 1993).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats

#: Arrivals remembered, and for how long.
_ARRIVALS = 1_000
_ARRIVALS_MS = 600_000.0
#: A rate needs that much time and that many arrivals.
_RATE_MS, _RATE_ARRIVALS = 20_000.0, 3
#: Columns of all kinds together, and kinds: those with the most arrivals. A column is several jobs if
#: more are to come.
_COLUMNS, _KINDS = 64, 16


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides the place of a later job: its queue's number (0: there are none) and its priority."""

    queue: int
    priority: int


@dataclass(frozen=True, slots=True)
class Later:
    """Later jobs of a kind, or groups of them.

    Attributes:
        work: slot-ms, shape (S, C).
        width: most slots.
        release_ms: when they come, shape (S, C); infinite: not.
    """

    kind: Kind
    work: Floats
    width: float
    release_ms: Floats


class LaterArrivals:
    """The arrivals of late, by kind."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, Kind, float, float]] = deque(maxlen=_ARRIVALS)
        self._since_ms: int | None = None

    def arrive(self, at_ms: int, kind: Kind, slot_ms: float, width: float) -> None:
        if np.isfinite(slot_ms):
            self._seen.append((at_ms, kind, slot_ms, width))

    def lasted_ms(self, now_ms: int) -> tuple[float, float]:
        """For how long arrivals were watched, of late; and for how long those came that are remembered."""
        if self._since_ms is None:
            self._since_ms = now_ms
        while self._seen and self._seen[0][0] < now_ms - _ARRIVALS_MS:
            self._seen.popleft()
        since_ms = watched_ms = max(self._since_ms, now_ms - _ARRIVALS_MS)
        if len(self._seen) == self._seen.maxlen:
            # So many arrivals give a rate in whatever time they came.
            since_ms = max(since_ms, self._seen[0][0])
        return max(1.0, now_ms - watched_ms), max(1.0, now_ms - since_ms)

    def draw(
        self, now_ms: int, samples: int, until_ms: float, is_before: Callable[[Kind], bool]
    ) -> list[Later]:
        """Those that come until ``until_ms`` from now, of the kinds that are ``is_before`` somebody and of
        which enough came."""
        watched_ms, lasted_ms = self.lasted_ms(now_ms)
        if self._since_ms is None or now_ms - self._since_ms < _RATE_MS:
            return []
        kinds: dict[Kind, list[tuple[float, float]]] = {}
        for _, kind, slot_ms, width in self._seen:
            kinds.setdefault(kind, []).append((slot_ms, width))
        # The same draws in each forecast, so that forecasts do not jitter.
        rng = np.random.default_rng(0)
        part = rng.permuted((np.arange(samples) + 0.5) / samples)
        ends_ms = watched_ms * part / (1.0 - part)
        enough = [
            (kind, seen) for kind, seen in kinds.items() if len(seen) >= _RATE_ARRIVALS and is_before(kind)
        ]
        enough = sorted(enough, key=lambda each: -len(each[1]))[:_KINDS]
        most = _COLUMNS // max(1, len(enough))
        return [_drawn(kind, np.array(seen), lasted_ms, ends_ms, until_ms, most) for kind, seen in enough]


def _drawn(kind: Kind, seen: Floats, lasted_ms: float, ends_ms: Floats, until_ms: float, most: int) -> Later:
    rng = np.random.default_rng([1, kind.queue, abs(kind.priority), int(kind.priority < 0)])
    samples, count = ends_ms.size, len(seen)
    expected = count / lasted_ms * until_ms
    each = max(1, int(np.ceil(expected / most)))
    columns = min(most, int(expected / each) + 1)
    rate = rng.gamma(count, 1.0 / lasted_ms, samples)
    gaps_ms = rng.gamma(each, 1.0, (samples, columns)) / rate[:, None]
    # Several jobs in one come in the middle of their time.
    release_ms = np.cumsum(gaps_ms, axis=1) - (0.5 * gaps_ms if each > 1 else 0.0)
    release_ms = np.where(release_ms < ends_ms[:, None], release_ms, np.inf)
    chosen = rng.integers(0, count, (samples, columns, each))
    return Later(kind, seen[chosen, 0].sum(axis=2), each * float(seen[:, 1].mean()), release_ms)
