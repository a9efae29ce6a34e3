"""SLearn, "A Case for Task Sampling based Learning for Cluster Job Scheduling": tables 4-9, figures 1-9."""

from benchmarks.papers.figures import Paper
from benchmarks.papers.slearn import prediction, scheduling

__all__ = ["PAPER"]

PAPER = Paper(
    name="slearn",
    title="A Case for Task Sampling based Learning for Cluster Job Scheduling",
    figures=(
        prediction.figure_1, prediction.table_4, prediction.table_5, prediction.figure_2,
        scheduling.figure_3, scheduling.figure_4, scheduling.table_6, scheduling.figure_5,
        prediction.table_7, scheduling.figure_6, scheduling.figure_7, scheduling.table_8,
        scheduling.figure_8, scheduling.table_9, scheduling.figure_9,
    ),
    # Bursts of arrivals differ so much between seeds that means of five seeds still differ.
    runs=10,
)  # fmt: skip
