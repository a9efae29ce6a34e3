"""Ledger operations written as data, and what each of them did.

The golden sequences under ``protocol/golden`` are lists of such steps; the Scala suite has the same reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.protocol.plan import PoolShare
from spark_sched_lab.enforce.ledger import UNBOUNDED, Decision, IdleLimits, Ledger
from spark_sched_lab.enforce.rule import CopyAge, Rule
from spark_sched_lab.enforce.task_shape import TaskShape

#: Operation to the names of its arguments.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "executor_added": ("executor", "slots"),
    "observe_free": ("executor", "free", "now_ms"),
    "executor_draining": ("executor", "now_ms"),
    "executor_excluded": ("executor", "now_ms"),
    "executor_removed": ("executor", "now_ms"),
    "job_started": ("job", "marked", "rule"),
    "job_ranked": ("job", "rank", "arrival"),
    "rule_changed": ("job", "rule", "now_ms"),
    "job_ended": ("job", "now_ms"),
    "stage_started": ("job", "stage", "index", "tasks", "next_tasks", "last", "barrier", "now_ms"),
    "next_learned": ("stage", "vertex", "slots", "ready", "now_ms"),
    "last_learned": ("stage", "last", "now_ms"),
    "action_failed": ("job", "now_ms"),
    "stage_ended": ("stage", "now_ms"),
    "may_launch": ("job", "executor", "already_taken"),
    "refused_on": ("executor", "job"),
    "held_up_by": ("job", "slots"),
    "give_way": ("job", "now_ms"),
    "give_up": ("job", "now_ms"),
    "task_launched": ("task", "stage", "index", "executor", "copy", "now_ms"),
    "task_ended": ("task", "success", "now_ms"),
    "task_undone": ("stage", "index", "now_ms"),
    "task_done_elsewhere": ("stage", "index", "now_ms"),
    "wants_copies": ("stage", "now_ms"),
    "any_copies_due": ("now_ms",),
    "pick_copy": ("stage", "executor", "now_ms"),
    "expire": ("now_ms",),
    "next_wake": ("now_ms",),
    "look": ("now_ms",),
}

#: Arguments that a step may leave out.
_OPTIONAL: dict[str, tuple[str, ...]] = {
    "executor_added": ("profile",),
    "stage_started": (
        "slots_per_task",
        "restartable",
        "vertex",
        "successors",
        "next_at_most",
        "profile",
        "kill_ms",
        "writes",
        "reads",
    ),
    "may_launch": ("slots",),
    "next_learned": ("inputs",),
}


def rule_of(fields: Mapping[str, Any]) -> Rule:
    """A rule from its fields as JSON has them, where those of `CopyAge` are the rule's own."""
    plain = dict(fields)
    age = {name: plain.pop(f"copy_{name}") for name in CopyAge.__slots__ if f"copy_{name}" in plain}
    pool = fields.get("pool")
    return Rule(
        **{
            **plain,
            "copy_age": CopyAge(**age),
            "stage_tasks": tuple(fields.get("stage_tasks", ())),
            "pool": None if pool is None else PoolShare(**pool),
        }
    )


def fields_of(rule: Rule) -> dict[str, Any]:
    """The fields of which `rule_of` makes the rule, in the order of the golden files."""
    found: dict[str, Any] = {}
    for name, value in asdict(rule).items():
        if name == "copy_age":
            found.update((f"copy_{each}", of) for each, of in value.items())
        else:
            found[name] = value
    return {**found, "stage_tasks": list(rule.stage_tasks)}


class Outcome(NamedTuple):
    """What one step did.

    Attributes:
        answer: what the operation returned; for ``task_ended`` whether the slot was kept.
        reason: why it was kept or let go; empty for other operations.
        calls: the listener's calls in order: ``["held", job, stage, executor, deadline_ms]`` or
            ``["freed", job, executor, reason]``.
    """

    answer: bool | int | list[str] | None
    reason: str
    calls: list[list[str | int]]


class StepRunner:
    """A ledger that is driven by steps.

    Args:
        rules: rules by the name that steps call them by.
        limits: what holding between actions may cost.
        seed: of the draws of calibrated deadlines.
    """

    def __init__(self, rules: Mapping[str, Rule], limits: IdleLimits = UNBOUNDED, seed: int = 0) -> None:
        self._rules = rules
        self._calls: list[list[str | int]] = []
        self.ledger = Ledger(self, limits, seed)

    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None:
        self._calls.append(["held", job, stage, executor, deadline_ms])

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None:
        self._calls.append(["freed", job, executor, reason])

    def run(self, step: Mapping[str, Any]) -> Outcome:
        """Does one step; fields beyond the operation's arguments are not read.

        Raises:
            BadInputError: the operation, one of its arguments or its rule is missing or unknown.
        """
        op = str(step.get("op"))
        names = OPERATIONS.get(op)
        if names is None:
            raise BadInputError(f"op is {op!r}, which the ledger has not{did_you_mean(op, OPERATIONS)}")
        missing = [name for name in names if name not in step]
        if missing:
            raise BadInputError(f"step {dict(step)!r} lacks {missing[0]}")
        arguments = {name: step[name] for name in (*names, *_OPTIONAL.get(op, ())) if name in step}
        if "successors" in arguments:
            arguments["successors"] = [
                (name, slots, ready, *(TaskShape(*s) for s in shape))
                for name, slots, ready, *shape in arguments["successors"]
            ]
        if "rule" in arguments:
            rule = self._rules.get(arguments["rule"])
            if rule is None:
                raise BadInputError(f"rule {arguments['rule']!r} is none of {', '.join(self._rules)}")
            arguments["rule"] = rule
        self._calls = []
        if op == "look":
            return Outcome(None, "", [])
        answer = getattr(self.ledger, "next_wake_ms" if op == "next_wake" else op)(**arguments)
        if isinstance(answer, Decision):
            return Outcome(answer.keep, answer.reason, self._calls)
        if isinstance(answer, set):
            return Outcome(sorted(answer), "", self._calls)
        return Outcome(answer, "", self._calls)

    def holds(self) -> dict[str, dict[str, int]]:
        """Held slots by executor and job, without zeros."""
        found: dict[str, dict[str, int]] = {}
        for job, executor, slots, _ in self.ledger.holds():
            found.setdefault(executor, {})[job] = slots
        return found

    def deadlines(self) -> dict[str, int]:
        """When the holds of each holding job end, in ms."""
        return {job: deadline_ms for job, _, _, deadline_ms in self.ledger.holds()}
