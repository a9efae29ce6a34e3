"""Causes of evictions (thesis, chapter 5) on generated tables with known answers."""

from __future__ import annotations

import gzip
import json

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.traces.evictions import EvictionAnalysis, EvictionTables, summary

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL = range(6)


def task(at_s, kind, job, machine=1, priority=0, cpus=0.1, memory=0.2, disk=0.01):
    where = machine if kind != SUBMIT else ""
    return f"{round(at_s * 1e6)},,{job},0,{where},{kind},u,0,{priority},{cpus},{memory},{disk},0"


def usage(start_s, end_s, job, cpus=0.05, memory=0.1, disk=0.001, machine=1, mean=0.05):
    where = [round(start_s * 1e6), round(end_s * 1e6), job, 0, machine]
    cells = [*where, cpus, mean, *[0] * 3, memory, 0, disk]
    return ",".join(map(str, cells + [0] * 6))


def removed(at_s, machine=1):
    return f"{round(at_s * 1e6)},{machine},1,p,0.5,0.5"


@pytest.fixture
def tables(tmp_path):
    def make(tasks, machines=None, used=None):
        for name, rows in (("task_events", tasks), ("machine_events", machines), ("task_usage", used)):
            if rows is not None:
                (tmp_path / name).mkdir(exist_ok=True)
                with gzip.open(tmp_path / name / "part-00000-of-00500.csv.gz", "wt") as file:
                    file.write("".join(f"{row}\n" for row in rows))
        return tmp_path

    return make


def analysed(path, **options):
    source = EvictionTables(path)
    found = EvictionAnalysis(usage=source.has("task_usage"), machines=source.has("machine_events"), **options)
    found.feed(source.rows())
    found.finish()
    return summary(found)


def shares(document):
    return {(row["cause"], row["tolerance_s"]): row["evictions"] for row in document["causes"]}


def run_and_evict(job, at_s, **more):
    return [task(at_s - 50, SUBMIT, job, **more), task(at_s - 40, SCHEDULE, job, **more)], task(
        at_s, EVICT, job, **more
    )


@pytest.mark.parametrize(
    ("gap_s", "within"),
    [
        pytest.param(0.0, {1, 5, 10, 20, 30}, id="at the same instant"),
        pytest.param(1.0, {1, 5, 10, 20, 30}, id="exactly at the tolerance"),
        pytest.param(7.5, {10, 20, 30}, id="between two tolerances"),
        pytest.param(30.5, set(), id="too late"),
    ],
)
def test_a_higher_priority_start_on_the_machine_within_the_tolerance_is_a_cause(tables, gap_s, within):
    before, evicted = run_and_evict(1, 1000)
    path = tables([*before, evicted, task(1000 + gap_s, SCHEDULE, 2, priority=4)])
    found = shares(analysed(path))
    assert {s for s in (1, 5, 10, 20, 30) if found["higher-priority task", s]} == within


@pytest.mark.parametrize(
    "evictor",
    [
        pytest.param(task(1000.5, SCHEDULE, 2, priority=0), id="equal priority"),
        pytest.param(task(1000.5, SCHEDULE, 2, priority=9, machine=2), id="another machine"),
        pytest.param(task(999.5, SCHEDULE, 2, priority=9), id="before the eviction"),
    ],
)
def test_what_is_no_evictor(tables, evictor):
    before, evicted = run_and_evict(1, 1000)
    rows = sorted([*before, evicted, evictor], key=lambda row: int(row.split(",")[0]))
    assert shares(analysed(tables(rows)))["higher-priority task", 30] == 0


def test_an_evictor_that_stands_before_the_eviction_of_the_same_instant_counts(tables):
    before, evicted = run_and_evict(1, 1000)
    path = tables([*before, task(1000, SCHEDULE, 2, priority=4), evicted])
    document = analysed(path)
    assert shares(document)["higher-priority task", 1] == 1
    assert document["pairs"] == [{"evictor": 4, "evicted": 0, "evictions": 1, "share": 1.0}]


def test_evictions_after_a_removal_are_machine_failures_within_the_tolerance(tables):
    before, evicted = run_and_evict(1, 1000)
    more, later = run_and_evict(2, 1000, machine=2)
    path = tables([*before, *more, evicted, later], machines=[removed(980), removed(1000, 2)])
    found = shares(analysed(path))
    assert [found["machine failure", s] for s in (0, 15, 30, 45)] == [1, 1, 2, 2]


def test_a_machine_that_came_back_did_not_cause_the_eviction(tables):
    before, evicted = run_and_evict(1, 1000)
    path = tables([*before, evicted], machines=[removed(980), f"{990 * 10**6},1,0,p,0.5,0.5"])
    assert shares(analysed(path))["machine failure", 45] == 0


def test_memory_and_disk_excess_are_told_apart_and_may_come_with_another_cause(tables):
    memory, evicted_1 = run_and_evict(1, 1000)
    disk, evicted_2 = run_and_evict(2, 1000, machine=2)
    neither, evicted_3 = run_and_evict(3, 1000, machine=3)
    path = tables(
        [*memory, *disk, *neither, evicted_1, evicted_2, evicted_3, task(1001, SCHEDULE, 4, priority=9)],
        used=[
            usage(960, 1000, 1, memory=0.3),
            usage(960, 1000, 2, disk=0.02),
            usage(960, 1000, 3),
        ],
    )
    document = analysed(path)
    found = shares(document)
    assert found["memory excess", 0] == 1
    assert found["disk excess", 0] == 1
    assert found["higher-priority task", 1] == 1
    # The first has two causes, of which one came a second later; the third has none.
    assert document["evictions_with_several_causes"] == pytest.approx(1 / 3)
    assert document["evictions_without_cause"] == pytest.approx(1 / 3)


def test_usage_of_an_earlier_attempt_does_not_count(tables):
    before, evicted = run_and_evict(1, 1000)
    again = [task(1010, SUBMIT, 1), task(1020, SCHEDULE, 1), task(1100, EVICT, 1)]
    path = tables([*before, evicted, *again], used=[usage(960, 1000, 1, memory=0.3), usage(1020, 1100, 1)])
    assert shares(analysed(path))["memory excess", 0] == 1


def test_without_a_usage_table_excess_is_unknown_and_not_zero(tables):
    before, evicted = run_and_evict(1, 1000)
    document = analysed(tables([*before, evicted]))
    found = shares(document)
    assert found["memory excess", 0] is None
    assert found["machine failure", 0] is None
    assert document["usage_table"] is False


def test_table_5_2_by_priority(tables):
    first, evicted = run_and_evict(1, 1000)
    rows = [
        *first,
        evicted,
        task(1000, SUBMIT, 1),
        task(1001, SCHEDULE, 1),
        task(1100, EVICT, 1),
        task(1100, SCHEDULE, 1),
        task(1150, SUBMIT, 2),
        task(1200, FINISH, 1),
    ]
    document = analysed(tables(rows))
    (row,) = document["classes"]
    assert (row["tasks"], row["evictions"], row["evicted_tasks"], row["max_evictions"]) == (2, 2, 1, 2)
    assert row["interarrival_s"] == pytest.approx(200.0)
    assert row["cpu_demand_s"] == pytest.approx(10.0)  # 0.1 of a machine for 100 s
    assert document["evicted_tasks_evicted_again"] == 1.0
    assert document["evicted_tasks_that_finished"] == 1.0
    assert document["arrivals_per_hour"] == {"0": [2]}


def test_demand_comes_from_usage_where_there_is_such_a_table(tables):
    rows = [task(1000, SUBMIT, 1), task(1000, SCHEDULE, 1), task(1100, FINISH, 1)]
    used = [usage(1000, 1050, 1, cpus=0.02, mean=0.01), usage(1050, 1100, 1, cpus=0.04, mean=0.03)]
    (row,) = analysed(tables(rows, used=used))["classes"]
    assert row["cpu_demand_s"] == pytest.approx(3.0)
    assert row["memory_demand_s"] == pytest.approx(2.0), "of the mean usage, not of the maximum of 0.1"
    assert row["memory_usage"] == pytest.approx(0.02)


def test_tasks_that_fail_or_are_killed_have_a_demand_too(tables):
    rows = [
        *[task(1000, SUBMIT, job) for job in (1, 2, 3, 4, 5)],
        *[task(1010, SCHEDULE, job) for job in (1, 2, 3, 4)],
        task(1110, FINISH, 1),  # 100 s
        task(1310, KILL, 2),  # 300 s
        # Its last attempt failed after 500 s; it is killed while it waits for another one.
        task(1510, FAIL, 3), task(1511, SUBMIT, 3), task(1600, KILL, 3),
        # Its last attempt was evicted: how long it would have run is unknown.
        task(1020, FAIL, 4), task(1021, SUBMIT, 4), task(1030, SCHEDULE, 4), task(1040, EVICT, 4),
        task(1050, KILL, 4),
        task(1050, KILL, 5),  # it never ran
    ]  # fmt: skip
    (row,) = analysed(tables(sorted(rows, key=lambda text: int(text.split(",")[0]))))["classes"]
    assert row["cpu_demand_s"] == pytest.approx(0.1 * (100 + 300 + 500) / 3)
    assert (row["cpu_usage"], row["memory_usage"]) == pytest.approx((0.1, 0.2))


def test_usage_is_a_mean_over_tasks_however_long_they_ran(tables):
    rows = [
        *(
            task(1000, kind, job, cpus=c, memory=m)
            for job, c, m in ((1, 0.1, 0.4), (2, 0.3, 0.2))
            for kind in (SUBMIT, SCHEDULE)
        ),
        task(1010, FINISH, 1, cpus=0.1, memory=0.4),
        task(1090, FINISH, 2, cpus=0.3, memory=0.2),
    ]
    (row,) = analysed(tables(rows))["classes"]
    assert (row["cpu_usage"], row["memory_usage"]) == pytest.approx((0.2, 0.3))
    assert (row["cpu_demand_s"], row["memory_demand_s"]) == pytest.approx((14.0, 11.0))


def test_bad_rows_are_left_out_and_counted(tables):
    before, evicted = run_and_evict(1, 1000)
    source = EvictionTables(tables([*before, "rubbish", evicted, task(10, EVICT, 1)]))
    found = EvictionAnalysis(usage=False, machines=False)
    found.feed(source.rows())
    assert found.evictions == 1
    assert source.report.bad_rows == 2  # no columns; back in time


def test_a_folder_without_task_events_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="has no task_events"):
        EvictionTables(tmp_path)


def test_a_table_without_a_usable_row_is_refused(tables):
    with pytest.raises(BadInputError, match="no usable row of task_events"):
        analysed(tables(["rubbish"]))


def test_the_command_prints_tables_or_json(tables):
    before, evicted = run_and_evict(1, 1000)
    path = str(tables([*before, evicted, task(1001, SCHEDULE, 2, priority=4)]))

    def call(*more):
        return CliRunner().invoke(app, ["trace", "evictions", path, *more], catch_exceptions=False)

    printed = call()
    assert printed.exit_code == 0
    assert "no usage table" in printed.stdout
    assert "0.00 % of the evictions have several causes and 0.00 % none" in " ".join(printed.stdout.split())
    document = json.loads(call("--json", "--tolerance", "2").stdout)
    assert [r["tolerance_s"] for r in document["causes"] if r["cause"] == "higher-priority task"] == [2]


@pytest.mark.shared
def test_most_evictions_of_the_real_trace_have_an_evictor(shared, tmp_path):
    source = shared / "data" / "google2011" / "task_events" / "part-00012-of-00500.csv.gz"
    if not source.exists():
        pytest.skip(f"{source} is not there")
    (tmp_path / "task_events").mkdir()
    (tmp_path / "task_events" / source.name).symlink_to(source)
    document = analysed(tmp_path)
    found = {s: n / document["evictions"] for (cause, s), n in shares(document).items() if n}
    assert document["evictions"] > 10_000
    assert 0.90 < found[1] <= found[30] < 0.98  # table 5.1: 93.7 % to 95.4 %
