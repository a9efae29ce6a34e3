"""Park et al., "3Sigma: Distribution-based cluster scheduling for runtime uncertainty": figures 1 and 5 to
12, and table 2's simulator side."""

from spark_sched.experiments.reproduce.figures import Paper
from spark_sched.experiments.reproduce.three_sigma.comparison import FIGURE_1, FIGURE_6, FIGURE_7, TABLE_2
from spark_sched.experiments.reproduce.three_sigma.example import FIGURE_5
from spark_sched.experiments.reproduce.three_sigma.scalability import FIGURE_12
from spark_sched.experiments.reproduce.three_sigma.sensitivity import FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11

__all__ = ["PAPER"]

PAPER = Paper(
    name="3sigma",
    title="3Sigma: Distribution-based cluster scheduling for runtime uncertainty",
    figures=(
        FIGURE_1,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_8,
        FIGURE_9,
        FIGURE_10,
        FIGURE_11,
        FIGURE_12,
        TABLE_2,
    ),
    runs=5,
)
