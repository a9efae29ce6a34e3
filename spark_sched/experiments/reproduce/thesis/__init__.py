"""Çavdar, "Priority Scheduling for Heterogeneous Workloads in Computing Clusters" (2015).

Each chapter has a module (or package) here that names its figures in its own order, ``FIGURES``. To add a
chapter, import that tuple and put it into `_CHAPTERS` at its place.
"""

from __future__ import annotations

from spark_sched.experiments.reproduce.figures import FigureSpec, Paper
from spark_sched.experiments.reproduce.thesis import chapter_3, chapter_4, evictions

__all__ = ["PAPER"]

#: The figures of each chapter, in the order of the chapters.
_CHAPTERS: tuple[tuple[FigureSpec, ...], ...] = (
    chapter_3.FIGURES,
    chapter_4.FIGURES,
    evictions.FIGURES,
)

PAPER = Paper(
    name="thesis",
    title="Priority Scheduling for Heterogeneous Workloads in Computing Clusters",
    figures=tuple(figure for chapter in _CHAPTERS for figure in chapter),
)
