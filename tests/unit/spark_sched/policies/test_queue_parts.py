"""The part of the slots that a tenants' queue gets, as UWFQ takes it."""

from __future__ import annotations

import pytest

from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched.policies.simple.queue_parts import QueueParts
from spark_sched.state import JobMarks

TREE = QueueTree(
    (
        QueueSpec("a", weight=1.0),
        QueueSpec("b", weight=3.0, ceiling=Amount(percent=50.0)),
        QueueSpec("b.x", floor=Amount(6)),
        QueueSpec("b.y"),
    ),
    (PlacementRule("b.x", user="x*"), PlacementRule("b.y", job_class="y")),
    "a",
)


def marks(user: str | None, job_class: str | None = None) -> JobMarks:
    return JobMarks("job", user, 0, None, None, job_class, True, True)


def test_jobs_are_placed_by_the_rules_of_the_tree() -> None:
    parts = QueueParts(TREE)
    assert [parts.queue_of(each) for each in (marks("xu"), marks("u", "y"), marks(None))] == [
        "b.x",
        "b.y",
        "a",
    ]


@pytest.mark.parametrize(
    ("queue", "present", "slots"),
    [
        ("a", [], 16.0),
        ("a", ["a"], 16.0),
        # b has no more than half although its weight is three quarters.
        ("a", ["b.x"], 8.0),
        ("b.x", ["a"], 8.0),
        # Six of the eight are promised to x.
        ("b.x", ["b.y", "a"], 6.0),
        ("b.y", ["b.x", "a"], 2.0),
        ("b.y", ["b.x"], 2.0),
    ],
)
def test_slots_are_divided_from_the_top_down_among_queues_that_have_jobs(
    queue: str, present: list[str], slots: float
) -> None:
    assert QueueParts(TREE).slots_of(queue, present, 16) == pytest.approx(slots)


def test_queues_without_floors_and_weights_divide_nothing() -> None:
    tree = QueueTree(
        (QueueSpec("a", ceiling=Amount(2)), QueueSpec("b")), (PlacementRule("b", user="u"),), "a"
    )
    for parts in (QueueParts(tree), QueueParts(None)):
        assert not parts.divide
        assert parts.queue_of(marks("u")) == ""
        assert parts.slots_of("", ["", "a"], 7) == 7.0
