"""The answer: the replay of the recorded run with its error, then the results of the other arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched_lab.engine.queue_rows import by_queue
from spark_sched_lab.simulator import JobSpec, Result, simulate
from spark_sched_lab.traces.readers.spark_measured import KINDS
from spark_sched_lab.whatif.accuracy import errors
from spark_sched_lab.whatif.arms import Question, ReplayArm, arms_of, as_it_ran, marked, matches
from spark_sched_lab.whatif.recorded import Recorded
from spark_sched_lab.whatif.replayed import Model, build_model
from spark_sched_lab.whatif.words import sentences

#: Called with the arm's name and the number of jobs that ended.
Progress = Callable[[str, int], None]


def answer(
    recorded: Recorded, question: Question, progress: Progress = lambda arm, ended: None
) -> dict[str, Any]:
    """One application's document: ``replay`` (the error), ``arms`` (jobs and sums each), ``answer`` (words).

    ``measured`` is what the scheduler wrote of slot time into the log. ``arms[0]`` is the replay as it ran.
    ``jct_s`` counts from a job's submission to its end, as ``real_jct_s`` does; jobs without an end in the
    log have no ``real_jct_s`` and are excluded from means.
    Times are seconds since the application's start. Raises BadInputError for a wrong policy or setting, or a
    pattern that matches no job.
    """
    question.check()
    model = build_model(recorded, one_by_one=question.one_by_one)
    specs = [job for first in model.jobs for job in first.and_followers()]
    for pattern, _ in question.priorities:
        if not any(matches(job, pattern) for job in specs):
            some = ", ".join(repr(job.name or job.key) for job in specs[:5])
            raise BadInputError(
                f"--priority matches no job of {recorded.log} with {pattern!r} (there are {some}, …): use "
                "a job's name, with * for any text"
            )
    base, notes = as_it_ran(recorded, model, question.pools)
    ran = _run(base, model, model.jobs, question.seed, progress)
    arms = [_arm("as it ran", base, ran, model, recorded)]
    jobs = marked(model.jobs, question.priorities)
    for arm in arms_of(question, recorded, model):
        found = _run(arm, model, jobs, question.seed, progress)
        arms.append(_arm(arm.name, arm, found, model, recorded))
    document: dict[str, Any] = {
        "log": str(recorded.log),
        "app": recorded.app,
        "spark": recorded.version,
        "scheduler": base.name if recorded.enforced else f"stock {recorded.mode}",
        "attached": recorded.attached,
        "executors": len(recorded.executors),
        "slots": sum(machine.slots or 0 for machine in recorded.executors),
        "jobs": len(specs),
        "replay": errors(arms[0]["jobs"]),
        "measured": _measured(recorded),
        "model": {
            **model.learned,
            "locality_wait_ms": recorded.waits.node_ms,
            "cached_tasks": model.away.cached,
            "away_tasks": model.away.tasks,
            "away_factor": model.away.factor,
            "one_by_one": model.one_by_one,
        },
        "arms": arms,
        "notes": [*notes, *(f"{count} {what}" for what, count in sorted(recorded.notes.items()))],
    }
    document["answer"] = sentences(document)
    return document


def _measured(recorded: Recorded) -> dict[str, Any] | None:
    """Slot-seconds as the scheduler measured them; None where the log does not tell."""
    found = recorded.measured
    if found is None:
        return None
    seconds = {f"{kind}_slot_s": found.total_ms(kind) / 1000.0 for kind in KINDS}
    shadow = {"would_have": dict(found.would_have)} if found.would_have else {}
    return {**seconds, "complete": found.complete, **shadow}


def _run(arm: ReplayArm, model: Model, jobs: Sequence[JobSpec], seed: int, progress: Progress) -> Result:
    return simulate(
        model.cluster,
        jobs,
        arm.policy,
        settings=arm.settings,
        predictor=arm.predictor,
        plan_every_ms=arm.plan_every_ms,
        seed=seed,
        keep_tasks=False,
        progress=lambda ended, now_ms: progress(arm.name, ended),
        changes=arm.changes,
    )


def _arm(name: str, arm: ReplayArm, result: Result, model: Model, recorded: Recorded) -> dict[str, Any]:
    pools = model.pools if recorded.mode == "FAIR" else {}
    rows = [_row(row, model, pools) for row in result.rows()]
    rows.sort(key=lambda row: (row["submit_s"], row["job"]))
    ended = [row["jct_s"] for row in rows if row["jct_s"] is not None]
    ends = [row["end_s"] for row in rows if row["end_s"] is not None]
    totals = result.totals
    return {
        "arm": name,
        "policy": arm.name,
        "predictor": arm.predictor,
        "settings": dict(arm.settings),
        "jct_mean_s": float(np.mean(ended)) if ended else None,
        "last_end_s": max(ends, default=None),
        "unfinished": result.unfinished + int(totals["jobs_not_submitted"]),
        "slots_held": int(totals["holds_total"]),
        "held_idle_slot_s": totals["held_idle_slot_ms"] / 1000.0,
        "copies": int(totals["copies_launched"]),
        "copies_won": int(totals["copies_won"]),
        "copies_wasted_slot_s": totals["copies_wasted_ms"] / 1000.0,
        "queues": by_queue(result),
        "jobs": rows,
    }


def _row(row: Mapping[str, Any], model: Model, pools: Mapping[str, str]) -> dict[str, Any]:
    key, jct_ms = row["job"], row["jct_ms"]
    real_ms = model.real_jct_ms.get(key)
    return {
        "job": key,
        "name": row["name"],
        "user": row["user"],
        "class": row["class"],
        "priority": row["priority"],
        "pool": pools.get(key),
        "tasks": row["tasks"],
        "submit_s": row["submit_ms"] / 1000.0,
        "end_s": None if jct_ms is None else (row["submit_ms"] + jct_ms) / 1000.0,
        "jct_s": None if jct_ms is None else jct_ms / 1000.0,
        "real_jct_s": None if real_ms is None else real_ms / 1000.0,
        "copies": row["copies"],
    }
