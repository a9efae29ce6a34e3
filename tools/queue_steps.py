"""Steps of tenants' queues written as data, played on the simulator's books; the Scala suite has the same
player."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spark_sched.config.queues import parse_queues
from spark_sched_lab.enforce.queue_books import QueueBooks


class Steps:
    """Plays steps. ``safe`` of a step names the holders whose slots are safe from the job."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        queues = parse_queues(json.dumps(tree))
        assert queues is not None, "a sequence has queues"
        self.tree = queues
        self.books = QueueBooks(queues)

    def run(self, step: Mapping[str, Any]) -> Any:
        """What the step answers; None: nothing."""
        books, job = self.books, step.get("job", "")

        def is_safe(holder: str) -> bool:
            return holder in step["safe"]

        match step["op"]:
            case "capacity":
                books.capacity(step["slots"])
                return [books.ceiling(spec.path) for spec in self.tree.queues]
            case "entered":
                return books.entered(job, step["queue"], step["priority"], step["arrival"], step["now_ms"])
            case "ranked":
                return books.ranked(job, step["priority"])
            case "left":
                return books.left(job)
            case "overdue":
                return [books.next_due_ms(), books.overdue(step["now_ms"])]
            case "launched":
                return books.launched(job, step["slots"], step["own"])
            case "stopped":
                return books.stopped(job, step["slots"])
            case "held":
                return books.held(job)
            case "unheld":
                return books.unheld(job)
            case "may_hold":
                return books.may_hold(job)
            case "room":
                return [
                    books.room(job, is_safe),
                    books.at_ceiling(job, step["slots"], is_safe),
                    books.gives_up(job, step["slots"], is_safe),
                    books.claim(job, step["slots"], {}, is_safe),
                    books.admitted(job),
                    books.position(job),
                ]
            case "place":
                return self.tree.place(step["user"], step["name"], step["class"])
            case "uses":
                return [
                    [use.running, use.held, use.peak, use.jobs, use.waiting, use.refused]
                    for use in books.uses.values()
                ]
        raise AssertionError(f"unknown operation {step['op']!r}")
