"""Chen, Wang and Li, "Speculative Slot Reservation": five of its figures, and its deadlines compared."""

from spark_sched.experiments.reproduce.figures import Paper
from spark_sched.experiments.reproduce.slot_reservation.deadlines import DEADLINES
from spark_sched.experiments.reproduce.slot_reservation.isolation import FIGURE_15, FIGURE_16
from spark_sched.experiments.reproduce.slot_reservation.numeric import FIGURE_8, FIGURE_10
from spark_sched.experiments.reproduce.slot_reservation.stragglers import FIGURE_17

__all__ = ["PAPER"]

PAPER = Paper(
    name="slot-reservation",
    title="Speculative Slot Reservation: Enforcing Service Isolation for Dependent Data-Parallel "
    "Computations",
    figures=(FIGURE_8, FIGURE_10, FIGURE_15, FIGURE_16, FIGURE_17, DEADLINES),
)
