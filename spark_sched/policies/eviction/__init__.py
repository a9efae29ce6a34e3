"""Which task loses its slot to which, how often, and in which slots (thesis, chapters 6 to 9)."""

from spark_sched.policies.eviction.rules import RULES, PreemptionRule, named_rule
from spark_sched.policies.eviction.victims import RunningIndex

__all__ = ["RULES", "PreemptionRule", "RunningIndex", "named_rule"]
