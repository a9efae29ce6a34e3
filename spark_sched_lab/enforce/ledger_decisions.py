"""Whether a job keeps a slot that one of its tasks freed: HANDLETASKCOMPLETION of Algorithm 1.

The twin of ``schedcore.ledger.LedgerDecisions``. Pure functions of a stage's and its job's books.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_sched_lab.enforce import ledger_demand
from spark_sched_lab.enforce.ledger_fit import Place
from spark_sched_lab.enforce.ledger_state import LedgerAttempt, LedgerJob, LedgerStage


class Decision(NamedTuple):
    """The decision on a freed slot, and its reason as text for people."""

    keep: bool
    reason: str


def on_completion(p: LedgerStage, now_ms: int, place: Place | None) -> Decision:
    """A task of the stage was completed; the job's demand and deadline count it already.

    ``place`` is what its slots are to the next stages, where they must fit.
    """
    if not p.job.may_hold:
        return Decision(False, "no isolation")
    if p.is_last():  # lines 2-3
        return Decision(False, "last stage")
    if place is not None and not place.fits:  # section III-C
        return Decision(False, "next stage needs other slots")
    if (ledger_demand.needed_after(p, now_ms) if place is None else place.slots) == 0:  # lines 9-11
        return Decision(False, "fewer tasks next")
    known = p.next_slots() is not None
    return _room(p.job, now_ms, "next stage" if known else "next stage unknown")  # lines 6-8, 12-15


def keep_unless_last(p: LedgerStage, why: str, now_ms: int, place: Place | None) -> Decision:
    """An attempt ended that completed no task of a stage that still runs."""
    if not p.job.may_hold:
        return Decision(False, "no isolation")
    if p.is_last():
        return Decision(False, "last stage")
    if place is not None and place.slots == 0:
        return Decision(False, "enough held")
    return _room(p.job, now_ms, why)


def after_stage(p: LedgerStage, now_ms: int, place: Place | None) -> Decision:
    """A killed twin's slot comes back after its stage ended: it was the job's, so it stays until the gap
    ends."""
    if p.is_last() or not p.job.may_hold or (place is not None and place.slots == 0):
        return Decision(False, "stage over")
    return _room(p.job, now_ms, "copy returned")


def slots_to_keep(a: LedgerAttempt, completed: bool, now_ms: int, place: Place | None) -> int:
    """How many of an ended attempt's slots its job keeps, if it keeps any.

    ``completed`` is whether the attempt completed a task of a stage that still runs.
    """
    if place is not None:
        return place.slots
    if a.slots == 1:
        return 1
    most = min(a.slots, a.stage.job.demand.slots - a.stage.job.running - a.stage.job.held)
    # The first m - n slots go: of the task that crosses this bound the slots beyond it stay.
    return min(most, ledger_demand.needed_after(a.stage, now_ms)) if completed else most


def _room(j: LedgerJob, now_ms: int, why: str) -> Decision:
    if j.deadline_ms <= now_ms:
        return Decision(False, "deadline passed")
    if j.running + j.held >= j.demand.slots:
        return Decision(False, "enough held")
    return Decision(True, why)
