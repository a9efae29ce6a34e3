"""Chen, Wang and Li, "Speculative Slot Reservation": its figures, and its deadlines compared."""

from benchmarks.papers.figures import Paper
from benchmarks.papers.slot_reservation.deadlines import deadlines
from benchmarks.papers.slot_reservation.fair_pools import figure_13
from benchmarks.papers.slot_reservation.isolation import figure_15, figure_16
from benchmarks.papers.slot_reservation.loads import figure_15_loads
from benchmarks.papers.slot_reservation.numeric import figure_8, figure_10
from benchmarks.papers.slot_reservation.stragglers import figure_17
from benchmarks.papers.slot_reservation.testbeds import (
    figure_1,
    figure_4,
    figure_5,
    figure_12,
    figure_14,
)

__all__ = ["PAPER"]

PAPER = Paper(
    name="slot-reservation",
    title="Speculative Slot Reservation: Enforcing Service Isolation for Dependent Data-Parallel "
    "Computations",
    figures=(
        figure_1, figure_4, figure_5, figure_8, figure_10, figure_12, figure_13, figure_14,
        figure_15, figure_15_loads, figure_16, figure_17, deadlines,
    ),
)  # fmt: skip
