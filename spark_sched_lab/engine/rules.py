"""The rules of the engine's jobs: `Overlay` applied to what the engine knows of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_sched.config import Settings, keys
from spark_sched_lab.enforce.overlay import Overlay
from spark_sched_lab.enforce.rule import Rule
from spark_sched_lab.engine.records import JobTerms
from spark_sched_lab.engine.workload import JobSpec


@dataclass(slots=True)
class Rules:
    """The rules of jobs.

    Attributes:
        max_priority, max_isolation: what marks may give a job at most.
        paused: whether reservations are paused, so that no job may hold slots.
    """

    overlay: Overlay
    max_priority: int
    max_isolation: float
    paused: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        return cls(Overlay(settings), settings[keys.LIMITS_MAX_PRIORITY], settings[keys.LIMITS_MAX_ISOLATION])

    def limited(self, spec: JobSpec) -> JobSpec:
        """The job with marks that the limits allow, as ``schedcore.marks.JobMark`` lowers them."""
        isolation = spec.isolation
        if isolation is not None:
            isolation = min(isolation, self.max_isolation)
        priority = min(spec.priority, self.max_priority)
        if (priority, isolation) == (spec.priority, spec.isolation):
            return spec
        return replace(spec, priority=priority, isolation=isolation)

    def own(self, spec: JobSpec) -> Rule:
        """The job's rule without a plan."""
        return self.overlay.own(spec.priority, spec.isolation, spec.copies, spec.pool)

    def in_force(self, terms: JobTerms) -> Rule:
        """The rule that holds for a job now."""
        may_hold = not self.paused and not terms.on_hold
        return self.overlay.in_force(terms.own_rule, terms.planned, changed=terms.changed, may_hold=may_hold)
