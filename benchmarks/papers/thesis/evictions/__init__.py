"""Chapters 5 to 9 of the thesis: evictions."""

from benchmarks.papers.thesis.evictions import (
    bars,
    hybrid,
    offline_optimum,
    priorities,
    trace,
)

__all__ = ["FIGURES"]

FIGURES = (
    *trace.FIGURES,
    *priorities.FIGURES,
    *hybrid.FIGURES,
    bars.claims,
    offline_optimum.optimum,
)
