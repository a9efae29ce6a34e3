"""Predictors: forecasts of active jobs behind one protocol."""

from spark_sched.predict.forecast import UNKNOWN, Forecast, ForecastCache, Predictor, forecasts
from spark_sched.predict.runtimes.active import RuntimeHistory, RuntimeStore
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.predictor import (
    LIVE_VALUES_KEPT,
    Lesson,
    Prediction,
    Submission,
    ThreeSigmaPredict,
    lesson,
)
from spark_sched.predict.stages.earlier_runs import EarlierRun, EarlierRunStore, EarlierStage
from spark_sched.predict.stages.history import StageHistory

__all__ = [
    "LIVE_VALUES_KEPT",
    "UNKNOWN",
    "EarlierRun",
    "EarlierRunStore",
    "EarlierStage",
    "Forecast",
    "ForecastCache",
    "JobAttributes",
    "Lesson",
    "Prediction",
    "Predictor",
    "RuntimeDistribution",
    "RuntimeHistory",
    "RuntimeStore",
    "StageHistory",
    "Submission",
    "ThreeSigmaPredict",
    "forecasts",
    "lesson",
]
