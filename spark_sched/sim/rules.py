"""The rules of the engine's jobs: `Overlay` applied to what the engine knows of them."""

from __future__ import annotations

from dataclasses import dataclass

from spark_sched.sim.overlay import Overlay
from spark_sched.sim.records import JobTerms
from spark_sched.sim.rule import Rule
from spark_sched.sim.workload import JobSpec


@dataclass(slots=True)
class Rules:
    """The rules of jobs.

    Attributes:
        paused: whether reservations are paused, so that no job may hold slots.
    """

    overlay: Overlay
    paused: bool = False

    def own(self, spec: JobSpec) -> Rule:
        """The job's rule without a plan."""
        return self.overlay.own(spec.priority, spec.isolation, spec.copies)

    def in_force(self, terms: JobTerms) -> Rule:
        """The rule that holds for a job now."""
        may_hold = not self.paused and not terms.on_hold
        return self.overlay.in_force(terms.own_rule, terms.planned, changed=terms.changed, may_hold=may_hold)
