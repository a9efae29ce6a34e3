"""Replay a Spark event log: the recorded run simulated again, and under other policies."""

from __future__ import annotations

from spark_sched_lab.whatif.arms import Question
from spark_sched_lab.whatif.recorded import logs_under, read_log, read_pools
from spark_sched_lab.whatif.replay import answer

__all__ = ["Question", "answer", "logs_under", "read_log", "read_pools"]
