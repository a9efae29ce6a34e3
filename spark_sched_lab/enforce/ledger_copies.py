"""Copies of a stage's slow tasks on slots that its job holds (section IV-C): which, and when."""

from __future__ import annotations

from spark_sched_lab.enforce.ledger_state import LedgerExecutor, LedgerStage


def pick(p: LedgerStage, e: LedgerExecutor, now_ms: int) -> int | None:
    """Index of the task that a slot of the executor, held by the stage's job, should run a copy of."""
    if p.job not in e.held_by:
        return None
    due = p.stragglers(now_ms)
    for a in due:
        if a.executor != e.id:
            return a.index
    # A copy beside its original shares the fate of the host: only where the job holds no slot elsewhere.
    return due[0].index if due and p.job.held == e.held_by[p.job] else None


def later_ages_ms(p: LedgerStage, now_ms: int) -> list[int]:
    """When each of the running tasks that are not is old enough for a copy."""
    if not p.restartable or not p.pace_known():
        return []
    age_ms = p.copy_age_ms()
    ages = [a.launch_ms + age_ms for a in p.attempts.values() if not a.copy and a.index not in p.copied]
    return [at_ms for at_ms in ages if at_ms > now_ms]
