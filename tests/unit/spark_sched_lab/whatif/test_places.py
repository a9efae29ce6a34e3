"""Which places tasks preferred, and what others cost, as learned from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_sched_lab.simulator import LocalityWaits
from spark_sched_lab.whatif import Question, answer, read_log
from spark_sched_lab.whatif.overheads import Launch
from spark_sched_lab.whatif.recorded import RecordedAttempt
from spark_sched_lab.whatif.replayed import build_model
from spark_sched_lab.whatif.revivals import revived_at_ms
from tests.unit.spark_sched_lab.whatif.whatif_logs import T0, Log

Task = tuple[int, int, str, str]  # launch, finish, executor, locality
_NEAR, _NODE, _ANY = "PROCESS_LOCAL", "NODE_LOCAL", "ANY"


def rdd(number: int, partitions: int, *parents: int, cached: bool = False) -> dict[str, Any]:
    level = {"Use Disk": False, "Use Memory": cached, "Deserialized": cached, "Replication": 1}
    return {
        "RDD ID": number,
        "Name": "r",
        "Parent IDs": list(parents),
        "Storage Level": level,
        "Number of Partitions": partitions,
    }


def add_job(log: Log, number: int, begin: int, tasks: list[Task], rdds: list[dict[str, Any]]) -> None:
    """A Spark job of one stage over these RDDs, its own first."""
    info = {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Stage Name": "pass",
        "Number of Tasks": len(tasks),
        "Parent IDs": [],
        "RDD Info": rdds,
        "Submission Time": T0 + begin,
    }
    end = max(task[1] for task in tasks)
    log.add(
        "SparkListenerJobStart", **{"Job ID": number, "Submission Time": T0 + begin, "Stage Infos": [info]}
    )
    log.add("SparkListenerStageSubmitted", **{"Stage Info": info})
    for index, (launch, finish, executor, locality) in enumerate(tasks):
        place = {"Executor ID": executor, "Locality": locality}
        times = {"Launch Time": T0 + launch, "Finish Time": T0 + finish}
        log.add(
            "SparkListenerTaskEnd",
            **{
                "Stage ID": number,
                "Stage Attempt ID": 0,
                "Task End Reason": {"Reason": "Success"},
                "Task Info": {"Index": index, "Attempt": 0, **times, **place},
            },
        )
    done = {**info, "Completion Time": T0 + end}
    log.add("SparkListenerStageCompleted", **{"Stage Info": done})
    result = {"Result": "JobSucceeded"}
    log.add("SparkListenerJobEnd", **{"Job ID": number, "Completion Time": T0 + end, "Job Result": result})


def two_hosts(**properties: str) -> Log:
    """Executors 1 and 2, a slot each, on hosts of their own."""
    return Log(**properties).executor(0, "1", 1).executor(0, "2", 1)


CACHED = [rdd(1, 4, 0, cached=True), rdd(0, 4)]
READ = [rdd(2, 4, 1), *CACHED]


def cached_application(log: Log | None = None) -> Log:
    """Three of four partitions are cached on executor 1: the second pass takes as long as three tasks."""
    log = log or two_hosts()
    first = [(100, 200, "1", _NEAR), (100, 600, "2", _NEAR), (200, 300, "1", _NEAR), (300, 400, "1", _NEAR)]
    add_job(log, 0, 100, first, CACHED)
    second = [
        (1_000, 1_900, "1", _NEAR),
        (1_000, 1_900, "2", _NEAR),
        (1_900, 2_800, "1", _NEAR),
        (2_800, 3_700, "1", _NEAR),
    ]
    add_job(log, 1, 1_000, second, READ)
    return log


def specs(path: Path) -> list[Any]:
    model = build_model(read_log(path))
    return [job for first in model.jobs for job in first.and_followers()]


def test_tasks_wait_for_the_executor_that_caches_their_input(tmp_path: Path) -> None:
    path = cached_application().write(tmp_path / "log")
    second = specs(path)[1].stages[0]
    assert [set(names) for names in second.delay.cached] == [{"1"}, {"2"}, {"1"}, {"1"}]
    document = answer(read_log(path), Question())
    jobs = document["arms"][0]["jobs"]
    # On any idle slot, two waves of 0.9 s.
    assert [job["real_jct_s"] for job in jobs] == [0.5, 2.7]
    assert [job["jct_s"] for job in jobs] == [0.5, pytest.approx(2.7, abs=0.02)]


def test_process_local_tasks_of_rdds_that_nobody_caches_prefer_no_place(tmp_path: Path) -> None:
    log = two_hosts()
    for number, begin in ((0, 100), (1, 1_000)):
        add_job(log, number, begin, [(begin, begin + 100, "1", _NEAR)] * 1, [rdd(number, 1)])
    assert [job.stages[0].delay.cached for job in specs(log.write(tmp_path / "log"))] == [(), ()]


def test_a_partition_that_was_computed_again_elsewhere_had_lost_its_block(tmp_path: Path) -> None:
    log = cached_application()
    third = [(4_000, 4_100, "2", _NEAR), *[(4_000 + n, 4_100 + n, "1", _NEAR) for n in (0, 100, 200)]]
    add_job(log, 2, 4_000, third, READ)
    fourth = [(5_000, 5_100, "2", _NEAR), (5_000, 5_100, "2", _NEAR), *[(5_000, 5_100, "1", _NEAR)] * 2]
    add_job(log, 3, 5_000, fourth, READ)
    found = specs(log.write(tmp_path / "log"))
    # The second partition's block was on executor 2, and the task on executor 1 computed it again.
    assert [set(names) for names in found[2].stages[0].delay.cached] == [set(), set(), {"1"}, {"1"}]
    assert set(found[3].stages[0].delay.cached[0]) == {"2"}


def test_updates_of_blocks_say_where_they_are(tmp_path: Path) -> None:
    log = two_hosts()
    memory = {"Use Disk": False, "Use Memory": True, "Deserialized": True, "Replication": 1}
    for partition, executor in enumerate("2211"):
        where = {"Executor ID": executor, "Host": f"h{executor}", "Port": 1}
        update = {"Block Manager ID": where, "Block ID": f"rdd_1_{partition}", "Storage Level": memory}
        log.add("SparkListenerBlockUpdated", **{"Block Updated Info": update})
    add_job(log, 0, 100, [(100, 200, "1", _ANY)] * 4, READ)
    log.add("SparkListenerUnpersistRDD", **{"RDD ID": 1})
    add_job(log, 1, 1_000, [(1_000, 1_100, "1", _NEAR)] * 4, READ)
    found = specs(log.write(tmp_path / "log"))
    assert [set(names) for names in found[0].stages[0].delay.cached] == [{"2"}, {"2"}, {"1"}, {"1"}]
    assert not found[1].stages[0].delay.cached


def test_what_tasks_take_away_from_their_block_is_learned_and_said(tmp_path: Path) -> None:
    log = cached_application()
    for number in (2, 3):
        at = 3_000 * number
        near = [(at, at + 900, "1", _NEAR), (at, at + 900, "2", _NEAR), (at + 900, at + 1_800, "1", _NEAR)]
        # After the wait of 3 s another executor takes 1.5 times as long.
        add_job(log, number, at, [*near, (at + 900, at + 2_250, "2", _ANY)], READ)
    near = [(9_000, 9_900, executor, _NEAR) for executor in "121"]
    add_job(log, 4, 9_000, [*near, (9_000, 10_350, "2", _ANY)], READ)
    path = log.write(tmp_path / "log")
    document = answer(read_log(path), Question())
    model = document["model"]
    assert (model["cached_tasks"], model["away_tasks"]) == (16, 3)
    assert model["away_factor"] == pytest.approx(1.5)
    assert specs(path)[2].stages[0].delay.away == pytest.approx(1.5)
    assert any("3 of them ran on other executors and took 1.50 times" in line for line in document["answer"])


def test_without_tasks_away_from_their_block_the_report_says_what_it_assumes(tmp_path: Path) -> None:
    document = answer(read_log(cached_application().write(tmp_path / "log")), Question())
    assert document["model"]["away_factor"] is None
    assert any("none of them ran on other executors, so a replay assumes" in w for w in document["answer"])


def test_tasks_that_ran_away_from_hosts_at_once_wait_for_nothing(tmp_path: Path) -> None:
    """Their data are on hosts without executors. One that waited prefers a host that was busy."""
    log = two_hosts()
    add_job(log, 0, 0, [(10, 8_000, "1", _NODE)], [rdd(0, 1)])
    at_once = [(20, 500, "2", _ANY), (500, 4_000, "2", _ANY)]
    add_job(log, 1, 20, [*at_once, (4_000, 4_100, "2", _ANY)], [rdd(1, 3)])
    found = specs(log.write(tmp_path / "log"))
    assert [set(names) for names in found[0].stages[0].near] == [{"1"}]
    assert [set(names) for names in found[1].stages[0].near] == [set(), set(), {"1"}]


@pytest.mark.parametrize(
    ("properties", "version", "waits"),
    [
        ({}, "4.1.0", LocalityWaits(3_000, 3_000, 3_000, False, 1_000)),
        (
            {
                "spark.locality.wait": "2s",
                "spark.locality.wait.process": "0",
                "spark.locality.wait.rack": "5s",
            },
            "4.1.0",
            LocalityWaits(0, 2_000, 5_000, False, 1_000),
        ),
        (
            {
                "spark.locality.wait.legacyResetOnTaskLaunch": "true",
                "spark.scheduler.revive.interval": "500ms",
            },
            "3.5.1",
            LocalityWaits(3_000, 3_000, 3_000, True, 500),
        ),
        ({}, "3.0.3", LocalityWaits(3_000, 3_000, 3_000, True, 1_000)),
    ],
)
def test_settings_of_delay_scheduling_are_the_applications(
    tmp_path: Path, properties: dict[str, str], version: str, waits: LocalityWaits
) -> None:
    log = two_hosts(**properties)
    log.events[0]["Spark Version"] = version
    add_job(log, 0, 100, [(100, 200, "1", _NEAR)], [rdd(0, 1)])
    assert read_log(log.write(tmp_path / "log")).waits == waits


def test_when_all_free_slots_are_offered_is_learned() -> None:
    """Two tasks start on a free slot, at no end and no submission: both 250 ms after a whole second."""

    def launch(start: int, end: int, executor: str = "1") -> Launch:
        return Launch(RecordedAttempt(0, start, end, executor, "finished", False, _ANY), 0, 1_000)

    launches = [launch(1_010, 9_000), launch(4_250, 4_300, "2"), launch(6_251, 6_300, "2")]
    assert revived_at_ms(launches, {"1": 1, "2": 1}, 1_000) == 250
    assert revived_at_ms(launches[:1], {"1": 1, "2": 1}, 1_000) is None
