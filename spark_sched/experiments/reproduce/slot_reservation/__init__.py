"""Chen, Wang and Li, "Speculative Slot Reservation": its figures, and its deadlines compared."""

from spark_sched.experiments.reproduce.figures import Paper
from spark_sched.experiments.reproduce.slot_reservation.deadlines import DEADLINES
from spark_sched.experiments.reproduce.slot_reservation.fair_pools import FIGURE_13
from spark_sched.experiments.reproduce.slot_reservation.isolation import FIGURE_15, FIGURE_16
from spark_sched.experiments.reproduce.slot_reservation.loads import FIGURE_15_LOADS
from spark_sched.experiments.reproduce.slot_reservation.numeric import FIGURE_8, FIGURE_10
from spark_sched.experiments.reproduce.slot_reservation.stragglers import FIGURE_17
from spark_sched.experiments.reproduce.slot_reservation.testbeds import (
    FIGURE_1,
    FIGURE_4,
    FIGURE_5,
    FIGURE_12,
    FIGURE_14,
)

__all__ = ["PAPER"]

PAPER = Paper(
    name="slot-reservation",
    title="Speculative Slot Reservation: Enforcing Service Isolation for Dependent Data-Parallel "
    "Computations",
    figures=(
        FIGURE_1,
        FIGURE_4,
        FIGURE_5,
        FIGURE_8,
        FIGURE_10,
        FIGURE_12,
        FIGURE_13,
        FIGURE_14,
        FIGURE_15,
        FIGURE_15_LOADS,
        FIGURE_16,
        FIGURE_17,
        DEADLINES,
    ),
)
