"""SLearn, "A Case for Task Sampling based Learning for Cluster Job Scheduling": tables 4-9, figures 1-9."""

from spark_sched.experiments.reproduce.figures import Paper
from spark_sched.experiments.reproduce.slearn.prediction import (
    FIGURE_1,
    FIGURE_2,
    TABLE_4,
    TABLE_5,
    TABLE_7,
)
from spark_sched.experiments.reproduce.slearn.scheduling import (
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURE_9,
    TABLE_6,
    TABLE_8,
    TABLE_9,
)

__all__ = ["PAPER"]

PAPER = Paper(
    name="slearn",
    title="A Case for Task Sampling based Learning for Cluster Job Scheduling",
    figures=(
        FIGURE_1, TABLE_4, TABLE_5, FIGURE_2, FIGURE_3, FIGURE_4, TABLE_6, FIGURE_5, TABLE_7, FIGURE_6,
        FIGURE_7, TABLE_8, FIGURE_8, TABLE_9, FIGURE_9,
    ),
    # Bursts of arrivals differ so much between seeds that means of five seeds still differ.
    runs=10,
)  # fmt: skip
