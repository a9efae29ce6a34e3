"""SLearn, "A Case for Task Sampling based Learning for Cluster Job Scheduling": tables 4-9, figures 1-9."""

from spark_sched.experiments.reproduce.figures import Paper
from spark_sched.experiments.reproduce.slearn.prediction import (
    figure_1,
    figure_2,
    table_4,
    table_5,
    table_7,
)
from spark_sched.experiments.reproduce.slearn.scheduling import (
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    table_6,
    table_8,
    table_9,
)

__all__ = ["PAPER"]

PAPER = Paper(
    name="slearn",
    title="A Case for Task Sampling based Learning for Cluster Job Scheduling",
    figures=(
        figure_1, table_4, table_5, figure_2, figure_3, figure_4, table_6, figure_5, table_7, figure_6,
        figure_7, table_8, figure_8, table_9, figure_9,
    ),
    # Bursts of arrivals differ so much between seeds that means of five seeds still differ.
    runs=10,
)  # fmt: skip
