"""Predictors: what to expect of active jobs, behind one protocol."""

from spark_sched.predict.forecast import UNKNOWN, Forecast, Predictor, forecasts
from spark_sched.predict.history import PhaseHistory
from spark_sched.predict.runs import NoStore, PhaseRun, Run, RunStore

__all__ = [
    "UNKNOWN",
    "Forecast",
    "NoStore",
    "PhaseHistory",
    "PhaseRun",
    "Predictor",
    "Run",
    "RunStore",
    "forecasts",
]
