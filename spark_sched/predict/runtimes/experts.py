"""A feature value's history: its runtimes, and how well each expert guessed them (3Sigma §4.1)."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from spark_sched.predict.runtimes.histogram import MAX_BINS, StreamingHistogram

EXPERTS = ("average", "median", "decay", "recent")
#: The paper's weight of the newest runtime in the rolling estimate.
DECAY_ALPHA = 0.6
#: Number of recent runtimes whose median is used for the median of all; odd, so that the median is one of
#: them.
MEDIAN_OF = 19
#: The X of "average of X recent runtimes".
RECENT = 5
#: Runs that a histogram remembers. Long enough for a 95 % interval, short enough to follow a change.
MEMORY_RUNS = 30.0
#: An expert's record starts with this number of prior guesses with the usual error of first guesses on this
#: feature, so that one lucky guess does not beat a long record.
_DOUBT_GUESSES = 2.0
#: Share of an expert's record that each new guess replaces in the long run: 1/200.
_RECORD_KEEPS = 1.0 - 1.0 / 200.0
#: Numbers before the recent runtimes in the state's bytes.
_HEAD = 11


@dataclass(slots=True, eq=False)
class FeatureHistory:
    """Runtimes of the jobs that share one value of one feature; constant memory.

    Attributes:
        histogram: of the runtimes; the latest have the largest weight.
        guesses_s: what each expert expects of the next run, in the order of `EXPERTS`; empty without runs.
        best: number of the best expert in `EXPERTS`.
        nmae: its normalised mean absolute error: the sum of its errors over the sum of runtimes. Infinite
            before the first guess could be checked.
    """

    runs: int = 0
    histogram: StreamingHistogram = field(default_factory=lambda: StreamingHistogram(MAX_BINS, MEMORY_RUNS))
    guesses_s: tuple[float, ...] = ()
    best: int = 1
    nmae: float = float("inf")
    _doubt: float = 1.0
    _average_s: float = 0.0
    _decay_s: float = 0.0
    _recent_s: array[float] = field(default_factory=lambda: array("d"))  # the newest last
    _errors_s: array[float] = field(default_factory=lambda: array("d", (0.0,) * len(EXPERTS)))
    #: Sum of runtimes guessed, and how many.
    _actual_s: array[float] = field(default_factory=lambda: array("d", (0.0, 0.0)))

    @classmethod
    def of_one(cls, runtime_s: float) -> FeatureHistory:
        """The history of a single run, for which no expert had a guess."""
        made = cls()
        made.add(runtime_s)
        return made

    @property
    def is_one(self) -> bool:
        """Whether this history is equal to one made by `of_one`."""
        return self.runs == 1 and not self._actual_s[1]

    def last_runs_s(self, count: int) -> tuple[float, ...]:
        """The latest runtimes, the latest first."""
        return tuple(self._recent_s[: -count - 1 : -1])

    def add(self, runtime_s: float, guesses_s: tuple[float, ...] = (), doubt: float = 1.0) -> None:
        """Take in a runtime.

        Args:
            guesses_s: `guesses_s` at the job's submission: experts are scored by their guesses at that time,
                not by what they learned while the job ran. Empty: there were no runs at that time.
            doubt: the NMAE to expect of a history about which nothing is known yet.
        """
        if guesses_s:
            self._doubt = doubt
            actual = self._actual_s
            actual[0] = actual[0] * _RECORD_KEEPS + runtime_s
            actual[1] = actual[1] * _RECORD_KEEPS + 1.0
            errors = self._errors_s
            for expert, guess in enumerate(guesses_s):
                errors[expert] = errors[expert] * _RECORD_KEEPS + abs(guess - runtime_s)
            self._judge()
        self.runs += 1
        self._average_s += (runtime_s - self._average_s) / self.runs
        self._decay_s = (
            DECAY_ALPHA * runtime_s + (1.0 - DECAY_ALPHA) * self._decay_s if self.runs > 1 else runtime_s
        )
        if len(self._recent_s) == MEDIAN_OF:
            self._recent_s.pop(0)
        self._recent_s.append(runtime_s)
        self.histogram.add(runtime_s)
        self._guess()

    def _guess(self) -> None:
        recent = self._recent_s
        last = recent[-RECENT:]
        self.guesses_s = self._average_s, median(recent), self._decay_s, sum(last) / len(last)

    def _judge(self) -> None:
        total_s, guesses = self._actual_s
        least = min(self._errors_s)
        self.best = self._errors_s.index(least)
        more_s = _DOUBT_GUESSES * total_s / guesses
        self.nmae = (least + self._doubt * more_s) / (total_s + more_s) if total_s > 0.0 else 0.0

    def to_bytes(self) -> bytes:
        """The state as 8-byte little-endian floats."""
        recent = self._recent_s
        head = [
            float(self.runs),
            self._average_s,
            self._decay_s,
            *self._actual_s,
            *self._errors_s,
            self._doubt,
        ]
        rows = np.array([*head, float(len(recent)), *recent], dtype="<f8")
        return rows.tobytes() + self.histogram.to_bytes()

    @classmethod
    def from_bytes(cls, state: bytes) -> FeatureHistory:
        """What `to_bytes` wrote. Raises ValueError if it cannot be that."""
        head = np.frombuffer(state[: 8 * _HEAD], dtype="<f8").tolist()
        if len(head) != _HEAD or not np.isfinite(head).all() or not 0 <= head[-1] <= MEDIAN_OF:
            raise ValueError("no history of a feature")
        end = 8 * (_HEAD + int(head[-1]))
        made = cls()
        made.runs = int(head[0])
        made._average_s, made._decay_s = head[1:3]
        made._actual_s = array("d", head[3:5])
        made._errors_s = array("d", head[5:9])
        made._doubt = head[9]
        made._recent_s = array("d", np.frombuffer(state[8 * _HEAD : end], dtype="<f8").tolist())
        made.histogram = StreamingHistogram.from_bytes(state[end:], MAX_BINS, MEMORY_RUNS)
        if made._actual_s[1] > 0.0:
            made._judge()
        if made._recent_s:
            made._guess()
        return made
