"""How the tests are dealt to the processes of pytest-xdist: what stays together, and what starts first."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

#: The longest first: one that starts last keeps one process busy while the others have nothing left to do.
LONGEST_FIRST = (
    "integration/test_yarn.py",
    "integration/test_chaos.py",
    "integration/test_kubernetes.py",
    "integration/test_equivalence.py::test_doctests",
    "integration/test_tpch.py",
    "integration/test_demo.py",
    "integration/test_lines.py",
    "integration/test_packages.py",
    "integration/test_lifecycles.py",
    "integration/test_memory.py",
    "integration/test_equivalence.py::test_example",
    "lifecycles/",
    "integration/test_replay.py",
    "integration/test_docs_commands.py",
    "integration/test_ab.py",
    "integration/test_evictions.py",
    "integration/test_bench.py",
    "integration/test_no_hang.py::test_nobody_waits",
    "integration/test_reservation.py",
    "integration/test_standalone.py",
    "integration/test_spread.py",
    "integration/test_batch.py",
    "integration/test_attach.py",
    # Its planner needs the compiled loops, which are being compiled while the first tests run.
    "integration/test_plans.py",
    "theory/",
    "integration/",
    "contract/",
    "properties/",
)
#: Files whose tests share nothing with each other that takes long to make.
DIVIDED = {
    "tests/integration/test_attach.py",
    "tests/integration/test_batch.py",
    "tests/integration/test_cluster.py",
    "tests/integration/test_docs_commands.py",
    "tests/integration/test_equivalence.py",
    "tests/integration/test_lines.py",
    "tests/integration/test_no_hang.py",
    "tests/theory/test_queues.py",
    "tests/theory/test_slot_reservation_figures.py",
}
#: Files whose tests share a session or a cluster with those of another file.
JOINED = {
    "tests/integration/test_spread.py": "tests/integration/test_standalone.py",
    "tests/integration/test_workloads.py": "tests/integration/test_session.py",
}


class UnitScheduling(LoadFileScheduling):
    """The unit that one process runs is a file, or a single test of a divided one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file in DIVIDED else JOINED.get(file, file)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by how long their units take; those that share a Spark application follow one another."""
    places: dict[object, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_application(item) or item, place)
    items.sort(key=lambda item: (_rank(item.nodeid), places[_application(item) or item]))


def _rank(nodeid: str) -> int:
    test = nodeid.removeprefix("tests/")
    ranks = (rank for rank, prefix in enumerate(LONGEST_FIRST) if test.startswith(prefix))
    return next(ranks, len(LONGEST_FIRST))


def _application(item: pytest.Item) -> tuple[str, ...] | None:
    mark = item.get_closest_marker("application")
    return mark.args if mark else None
