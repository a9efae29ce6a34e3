"""Why tasks were evicted, from Google-2011-format tables (thesis, chapter 5)."""

from spark_sched_lab.traces.evictions.analysis import EvictionAnalysis
from spark_sched_lab.traces.evictions.summary import summary
from spark_sched_lab.traces.evictions.tables import EvictionTables

__all__ = ["EvictionAnalysis", "EvictionTables", "summary"]
