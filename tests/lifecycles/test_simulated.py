"""Random lifecycles of jobs under every policy, before a cluster that runs nothing.

``SPARK_SCHED_LIFECYCLES`` is how many each policy gets and ``SPARK_SCHED_LIFECYCLES_SEED`` what they are
drawn from; a policy has the other kind of cluster with the next seed. A failure names its seed, and says what
the scheduler knew and what its threads did then. The simulator's ledger replays what the ledger of each
round did.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from ledger_replay import lines_of, replay

from spark_sched.policies import available
from tests.lifecycles import program

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_random_lifecycles_end_well_under_every_policy(tmp_path: Path) -> None:
    seed = int(os.environ.get("SPARK_SCHED_LIFECYCLES_SEED", "1"))
    count = int(os.environ.get("SPARK_SCHED_LIFECYCLES", "20"))
    rounds = program.run(seed, count, available(), ledger_steps=tmp_path)
    for each in rounds:
        where = f"{each['policy']} on a {each['like']} cluster, seed {each['seed']}"
        assert not each["failures"], f"{where}:\n" + "\n".join(each["failures"])
        assert each["lifecycles"] == count, where
        assert each["counters"]["invariant_violations"] == 0, where
        assert each["outcomes"].get("result given twice", 0) == 0, where
    assert {each["policy"] for each in rounds} == set(available())
    assert {each["like"] for each in rounds} == {"local", "cluster"}
    # A round of few lifecycles may be spared.
    assert sum(each["planners_killed"] for each in rounds) > 0
    assert sum(each["executors_lost"] for each in rounds) > 0
    assert sum(each["executors_decommissioned"] for each in rounds) > 0
    done = Counter[str]()
    for each in rounds:
        done.update(each["outcomes"])
    assert done["steered: hold"] > 0
    assert done["steered: policy"] > 0
    assert done["tags changed"] > 0
    assert done["plan accepted"] > 0
    _assert_the_simulators_ledger_does_the_same(tmp_path, len(rounds))


def _assert_the_simulators_ledger_does_the_same(recordings: Path, count: int) -> None:
    files = sorted(recordings.iterdir())
    assert len(files) == count
    steps = Counter[str]()
    for path in files:
        found = replay(lines_of(path))
        assert found.difference is None, f"{path.name}: {found.difference}"
        steps += found.steps
    assert min(steps[op] for op in ("may_launch", "task_ended", "rule_changed", "expire")) > 100, steps
