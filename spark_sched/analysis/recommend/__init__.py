"""Executor and slot configuration from recorded history (``spark-sched recommend``)."""

from spark_sched.analysis.recommend.advice import Advice, Recommendation, recommend
from spark_sched.analysis.recommend.logged_application import LoggedApplication, Ran, read_application
from spark_sched.analysis.recommend.statistics import Busy, Cpu, Group, Statistics, measure

__all__ = [
    "Advice",
    "Busy",
    "Cpu",
    "Group",
    "LoggedApplication",
    "Ran",
    "Recommendation",
    "Statistics",
    "measure",
    "read_application",
    "recommend",
]
