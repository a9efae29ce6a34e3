"""Shared by the chapters' figures: means over seeds and their table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.papers import means
from benchmarks.papers.figures import Value

#: Ratios of energy differ in the fourth digit.
mean_value = partial(means.mean_value, digits=4)


def rows_of(values: Sequence[Value]) -> list[dict[str, Any]]:
    return [
        {
            "value": f"{value.name}{f' [{value.unit}]' if value.unit else ''}",
            "thesis": value.text or ("-" if value.paper is None else f"{value.paper:g}"),
            "ours": "-" if value.ours is None else f"{value.ours:g}",
        }
        for value in values
    ]
