"""Executor and slot configuration from recorded history (``spark-sched recommend``)."""

from spark_sched_lab.sizing.advice import Advice, recommend
from spark_sched_lab.sizing.logged_application import LoggedApplication, Ran, read_application
from spark_sched_lab.sizing.statistics import Group, Statistics, measure

__all__ = [
    "Advice",
    "Group",
    "LoggedApplication",
    "Ran",
    "Statistics",
    "measure",
    "read_application",
    "recommend",
]
