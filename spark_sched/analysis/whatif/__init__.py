"""Replay a Spark event log: what happened, simulated again, and what other policies would have made of it."""

from __future__ import annotations

from spark_sched.analysis.whatif.arms import STOCK, Question
from spark_sched.analysis.whatif.recorded import logs_under, read_log, read_pools
from spark_sched.analysis.whatif.replay import answer

__all__ = ["STOCK", "Question", "answer", "logs_under", "read_log", "read_pools"]
