"""Çavdar, "Priority Scheduling for Heterogeneous Workloads in Computing Clusters" (2015).

Each chapter has a module (or package) here that names its figures in its own order, ``FIGURES``.
"""

from __future__ import annotations

from benchmarks.papers.figures import Paper
from benchmarks.papers.thesis import chapter_3, chapter_4, evictions

__all__ = ["PAPER"]

PAPER = Paper(
    name="thesis",
    title="Priority Scheduling for Heterogeneous Workloads in Computing Clusters",
    figures=(*chapter_3.FIGURES, *chapter_4.FIGURES, *evictions.FIGURES),
)
