"""Priority eviction: who loses a slot to whom, how often, and in which slots (thesis, chapters 6 to 9)."""

from spark_sched.policies.eviction.rules import RULES, PreemptionRule, named_rule
from spark_sched.policies.eviction.victims import Candidate, RunningIndex, choose_victim

__all__ = ["RULES", "Candidate", "PreemptionRule", "RunningIndex", "choose_victim", "named_rule"]
