"""Executor and slot configuration from recorded history (``spark-sched recommend``)."""

from spark_sched.analysis.recommend.advice import Advice, recommend
from spark_sched.analysis.recommend.logged_application import LoggedApplication, Ran, read_application
from spark_sched.analysis.recommend.statistics import Group, Statistics, measure

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
