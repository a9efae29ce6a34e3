"""Tasks sampled from Google's tables: those that the tables cut off run on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.evictions.censoring import completed_durations
from spark_sched_lab.evictions.google import TABLE_5_2, arrived_tasks

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL = range(6)


def rng():
    return np.random.default_rng(3)


def tables(folder, *events):
    """``task_events`` with rows of ``(second, kind, job[, CPU request])``, and a part that is not contiguous
    with it."""
    (folder / "task_events").mkdir()
    lines = []
    for at_s, kind, job, cpus in sorted((*event, 0.1)[:4] for event in events):
        lines.append(f"{at_s * 1_000_000},,{job},0,7,{kind},u,0,0,{cpus},0.2,0,0\n")
    (folder / "task_events" / "part-00000-of-00500.csv").write_text("".join(lines))
    (folder / "task_events" / "part-00002-of-00500.csv").write_text("not contiguous\n")
    return folder


def test_tasks_as_requested_and_as_used(tmp_path):
    found = arrived_tasks(
        tables(
            tmp_path,
            (1000, SUBMIT, 0), (1005, SCHEDULE, 0), (1105, FINISH, 0),
            (1010, SUBMIT, 1, 0.3), (1015, SCHEDULE, 1, 0.3), (1315, KILL, 1, 0.3),
        )
    )  # fmt: skip
    assert found.by_request(rng()).demand == pytest.approx([10.0, 90.0])
    scale = TABLE_5_2[0].cpu_usage / 0.2  # the mean over tasks, not over time
    assert found.by_usage(rng()).demand == pytest.approx([10.0 * scale, 90.0 * scale])
    assert found.by_usage(rng()).arrival_s.tolist() == [0.0, 10.0]


def test_demands_have_the_means_of_table_5_2_and_class_2_counts_as_class_4(tmp_path):
    found = arrived_tasks(
        tables(
            tmp_path,
            (1000, SUBMIT, 0), (1005, SCHEDULE, 0), (1105, FINISH, 0),
            (1010, SUBMIT, 1, 0.3), (1015, SCHEDULE, 1, 0.3), (1315, KILL, 1, 0.3),
            (1020, SUBMIT, 2), (1025, SCHEDULE, 2), (1325, KILL, 2),
        )
    )  # fmt: skip
    table = replace(found, priority=np.array([0, 2, 4])).by_demand(rng())
    assert table.priority.tolist() == [0, 4, 4]
    mean = TABLE_5_2[4].cpu_demand
    assert table.demand == pytest.approx([TABLE_5_2[0].cpu_demand, 1.5 * mean, 0.5 * mean])
    many = replace(found, **{name: np.repeat(getattr(found, name), 2_000) for name in found.__annotations__})
    assert many.by_demand(rng()).memory.mean() == pytest.approx(TABLE_5_2[0].memory_usage, rel=0.05)


def test_the_last_attempt_counts_and_an_eviction_does_not_end_a_task(tmp_path):
    found = arrived_tasks(
        tables(
            tmp_path,
            (1000, SUBMIT, 0), (1000, SCHEDULE, 0), (1900, FAIL, 0),
            (1901, SUBMIT, 0), (1902, SCHEDULE, 0), (1952, FINISH, 0),
            (1001, SUBMIT, 1), (1001, SCHEDULE, 1), (1031, EVICT, 1), (1032, SUBMIT, 1), (1040, KILL, 1),
        )
    )  # fmt: skip
    assert found.duration_s.tolist() == [50.0, 30.0]
    assert found.ended.tolist() == [True, False]


def test_running_tasks_are_kept_and_tasks_from_before_the_tables_are_not(tmp_path):
    found = arrived_tasks(
        tables(
            tmp_path,
            (0, SUBMIT, 0), (0, SCHEDULE, 0), (1500, EVICT, 0), (1501, SUBMIT, 0), (1502, SCHEDULE, 0),
            (1600, FINISH, 0),
            (1000, SUBMIT, 1), (1010, SCHEDULE, 1), (1020, FINISH, 1),
            (1000, SUBMIT, 2), (1100, SCHEDULE, 2),
            (1000, SUBMIT, 3),
            (2000, SUBMIT, 4), (2000, SCHEDULE, 4), (2100, FINISH, 4),
        )
    )  # fmt: skip
    assert list(zip(found.arrival_s, found.duration_s, found.ended, strict=True)) == [
        (1000.0, 10.0, True),
        (1000.0, 1000.0, False),
        (2000.0, 100.0, True),
    ]


def test_tables_in_which_no_task_ends_are_refused(tmp_path):
    with pytest.raises(BadInputError, match="no task that arrived and finished"):
        arrived_tasks(tables(tmp_path, (1000, SUBMIT, 0), (1100, SCHEDULE, 0), (1200, SUBMIT, 1)))


def test_durations_that_are_cut_off_are_as_long_as_those_of_the_group_that_are_longer():
    duration_s = np.array([10.0, 20.0, 40.0, 15.0, 5.0, 7.0])
    ended = np.array([True, True, True, False, True, False])
    group = np.array([0, 0, 0, 0, 9, 9])
    draws = np.array([completed_durations(rng, duration_s, ended, group) for rng in map(seeded, range(400))])
    assert draws[:, [0, 1, 2, 4]].tolist() == [[10.0, 20.0, 40.0, 5.0]] * 400
    # Of group 0, 20 and 40 s are as likely; of group 9 none is longer.
    assert set(draws[:, 3]) == {20.0, 40.0}
    assert (draws[:, 3] == 20.0).mean() == pytest.approx(0.5, abs=0.08)
    assert set(draws[:, 5]) == {7.0}


def test_cut_off_durations_have_the_mean_of_all():
    random = seeded(1)
    true_s = random.exponential(100.0, 20_000)
    bound_s = random.uniform(0.0, 400.0, 20_000)
    ended = true_s <= bound_s
    found = completed_durations(random, np.minimum(true_s, bound_s), ended, np.zeros(20_000))
    assert true_s[ended].mean() < 80.0  # the short ones
    assert found.mean() == pytest.approx(true_s.mean(), rel=0.03)
    assert np.all(found >= np.minimum(true_s, bound_s))


def seeded(seed):
    return np.random.default_rng(seed)
