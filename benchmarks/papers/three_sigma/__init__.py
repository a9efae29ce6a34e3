"""Park et al., "3Sigma: Distribution-based cluster scheduling for runtime uncertainty": figures 1 and 5 to
12, and table 2's simulator side."""

from benchmarks.papers.figures import Paper
from benchmarks.papers.three_sigma.comparison import figure_1, figure_6, figure_7, table_2
from benchmarks.papers.three_sigma.example import figure_5
from benchmarks.papers.three_sigma.scalability import figure_12
from benchmarks.papers.three_sigma.sensitivity import figure_8, figure_9, figure_10, figure_11

__all__ = ["PAPER"]

PAPER = Paper(
    name="3sigma",
    title="3Sigma: Distribution-based cluster scheduling for runtime uncertainty",
    figures=(
        figure_1, figure_5, figure_6, figure_7, figure_8, figure_9, figure_10, figure_11, figure_12,
        table_2,
    ),
    runs=5,
)  # fmt: skip
