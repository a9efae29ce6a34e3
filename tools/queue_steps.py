"""Steps of tenants' queues written as data, played on the simulator; the Scala suite has the same
player."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spark_sched.config.queue_file import parse_queues
from spark_sched.config.queues import NO_QUEUES, QueueTree
from spark_sched_lab.enforce.floor_preemption import FloorVictim
from spark_sched_lab.enforce.queue_shares import Wanted
from spark_sched_lab.enforce.queue_usage import QueueUsage


class Steps:
    """Plays steps. ``safe`` of a step names the holders whose slots are safe from the job."""

    def __init__(self, tree: Mapping[str, Any] | None) -> None:
        self.usage = QueueUsage(_tree(tree))

    def run(self, step: Mapping[str, Any]) -> Any:
        """What the step answers; None: nothing."""
        usage, job = self.usage, step.get("job", "")

        def is_safe(holder: str) -> bool:
            return holder in step["safe"]

        match step["op"]:
            case "capacity":
                usage.capacity(step["slots"])
                return [usage.ceiling(spec.path) for spec in usage.tree.queues]
            case "entered":
                return usage.entered(job, step["queue"], step["priority"], step["arrival"], step["now_ms"])
            case "changed":
                tree = _tree(step["tree"])
                return usage.changed(tree, lambda job: tree.place(step["users"].get(job, "")))
            case "ranked":
                return usage.ranked(job, step["priority"])
            case "left":
                return usage.left(job)
            case "overdue":
                return [usage.next_due_ms(), usage.overdue(step["now_ms"])]
            case "freed":
                due_ms = usage.next_freed_ms()
                admitted = usage.freed(step["now_ms"])
                return [due_ms, admitted, [use.day.slot_ms for use in usage.uses.values()]]
            case "launched":
                return usage.launched(job, step["slots"], step["own"])
            case "stopped":
                return usage.stopped(job, step["slots"])
            case "held":
                return usage.held(job)
            case "unheld":
                return usage.unheld(job)
            case "may_hold":
                return usage.may_hold(job)
            case "room":
                return [
                    usage.room(job, is_safe),
                    usage.at_ceiling(job, step["slots"], is_safe),
                    usage.gives_up(job, step["slots"], is_safe),
                    usage.claim(job, step["slots"], {}, is_safe),
                    usage.admitted(job),
                    usage.position(job),
                ]
            case "order":
                assert usage.shares is not None, "its tree has floors or weights"
                standings = {queue: usage.shares.standing(queue) for queue in step["queues"]}
                below = [queue for queue in step["queues"] if usage.shares.below(queue)]
                return [sorted(step["queues"], key=standings.__getitem__), below]
            case "parts":
                assert usage.shares is not None, "its tree has floors or weights"
                wanted = [Wanted(*each) for each in step["wanted"]]
                parts = usage.shares.parts(wanted, {int(p): n for p, n in step["open"].items()})
                return [parts.get(queue, -1) for queue in step["queues"]]
            case "ceded":
                assert usage.shares is not None, "its tree has floors or weights"
                return usage.shares.ceded(
                    step["holder"],
                    step["asker"],
                    step["slots"],
                    step["asks"],
                    step["taken"],
                    at_once=step.get("at_once", False),
                )
            case "cedes":
                assert usage.shares is not None, "its tree has floors or weights"
                moved = [(queue, slots) for queue, slots in step["moved"]]
                return usage.shares.cedes(step["holder"], step["asker"], step["slots"], step["taken"], moved)
            case "preempt":
                assert usage.preemption is not None, "a queue of its tree has a floor"
                wanted = {(queue, profile): slots for queue, profile, slots in step["wanted"]}
                running = [FloorVictim(*each) for each in step["running"]]
                due_ms = usage.preemption.next_ms()
                found = usage.preemption.look(wanted, running, step["now_ms"])
                return [due_ms, [list(each) for each in found]]
            case "place":
                return usage.tree.place(step["user"], step["name"], step["class"], step.get("groups", ()))
            case "max_priority":
                return usage.tree.max_priority(step["queue"], step["user"], step["groups"])
            case "uses":
                return [
                    [use.running, use.held, use.peak, use.jobs, use.waiting, use.refused]
                    for use in usage.uses.values()
                ]
        raise AssertionError(f"unknown operation {step['op']!r}")


def _tree(document: Mapping[str, Any] | None) -> QueueTree:
    """Without a document: no queues."""
    return NO_QUEUES if document is None else parse_queues(json.dumps(document)) or NO_QUEUES
