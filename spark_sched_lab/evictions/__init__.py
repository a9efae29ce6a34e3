"""Priority scheduling with evictions on servers that share CPU and memory (thesis, chapters 6 to 9).

A separate engine, because `spark_sched_lab.engine.engine` needs minutes for 15 h with 60,000 tasks and their
evictions. The engine makes no decisions: a `spark_sched.policies.eviction.PreemptionRule` decides which tasks
are evicted, how often and from which slots.
"""

from spark_sched_lab.evictions.engine import simulate_priorities
from spark_sched_lab.evictions.results import PriorityResult
from spark_sched_lab.evictions.servers import SLOT_CONFIGURATIONS, ServerGroup, thesis_servers
from spark_sched_lab.evictions.task_table import TaskTable, table_of_trace

__all__ = [
    "SLOT_CONFIGURATIONS",
    "PriorityResult",
    "ServerGroup",
    "TaskTable",
    "simulate_priorities",
    "table_of_trace",
    "thesis_servers",
]
