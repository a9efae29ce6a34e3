"""Chapters 5 to 9 of the thesis: evictions."""

from spark_sched.experiments.reproduce.figures import FigureSpec
from spark_sched.experiments.reproduce.thesis.evictions import (
    bars,
    hybrid,
    offline_optimum,
    priorities,
    trace,
)

__all__ = ["FIGURES"]

FIGURES: tuple[FigureSpec, ...] = (
    *trace.FIGURES,
    *priorities.FIGURES,
    *hybrid.FIGURES,
    bars.FIGURE,
    offline_optimum.FIGURE,
)
