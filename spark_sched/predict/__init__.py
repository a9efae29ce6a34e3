"""Predictors: what to expect of active jobs, behind one protocol."""

from spark_sched.predict.distribution import RuntimeDistribution
from spark_sched.predict.features import JobAttributes
from spark_sched.predict.forecast import UNKNOWN, Forecast, Predictor, forecasts
from spark_sched.predict.history import PhaseHistory
from spark_sched.predict.runs import NoStore, PhaseRun, Run, RunStore
from spark_sched.predict.runtimes import RuntimeHistory, RuntimeStore
from spark_sched.predict.sigma import LIVE_VALUES_KEPT, Lesson, Prediction, SigmaPredict, Submission, lesson

__all__ = [
    "LIVE_VALUES_KEPT",
    "UNKNOWN",
    "Forecast",
    "JobAttributes",
    "Lesson",
    "NoStore",
    "PhaseHistory",
    "PhaseRun",
    "Prediction",
    "Predictor",
    "Run",
    "RunStore",
    "RuntimeDistribution",
    "RuntimeHistory",
    "RuntimeStore",
    "SigmaPredict",
    "Submission",
    "forecasts",
    "lesson",
]
