"""``spark-sched recommend``: statistics worked out by hand, settings that follow, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.sizing import (
    Advice,
    LoggedApplication,
    Ran,
    measure,
    read_application,
    recommend,
)
from spark_sched_lab.traces.jobs import Executed
from spark_sched_lab.usage import ChargedAttempt, Hold, Owner, Presence, Usage
from tests.unit.spark_sched_lab.whatif.whatif_logs import Log

SHARED = Path(__file__).parents[5] / "shared" / "data" / "spark_eventlogs"
STANDALONE = {"spark.master": "spark://host:7077"}


def attempt(start_ms: int, end_ms: int, job: str = "a", index: int = 0, **changed: Any) -> ChargedAttempt:
    known = {"stage": f"{job}.0", "executor": "1", "outcome": "success"} | changed
    return ChargedAttempt(job=job, index=index, start_ms=start_ms, end_ms=end_ms, **known)


def application(
    attempts: list[ChargedAttempt], *, slots: int = 4, job_class: str = "", **changed: Any
) -> LoggedApplication:
    names = {one.job for one in attempts}
    end_ms = max(one.end_ms for one in attempts)
    usage = Usage(
        [Presence("1", slots, 0, end_ms)], {name: Owner(name, "u", job_class) for name in names}, attempts
    )
    known: dict[str, Any] = {
        "properties": STANDALONE,
        "ran": {name: Ran(0.0) for name in names},
        "shapes": {(slots, slots): 1},
    }
    return LoggedApplication(Path("log"), usage, "app", **(known | changed))


def cpu(share: float, tasks: int = 10, **changed: Any) -> Ran:
    """Tasks of one second that used this share of a core."""
    return Ran(0.0, executed=(Executed(1.0, share),) * tasks, **changed)


def advised(*applications: LoggedApplication, by: str = "name", chebyshev: float = 2.0) -> Advice:
    return recommend(applications, measure(applications, (by,)), chebyshev)  # type: ignore[arg-type]


def reasons(advice: Advice) -> dict[str, str]:
    return {one.setting: one.reason for one in advice.settings}


# ---- statistics ----


def test_busy_slots_count_while_any_is_busy():
    # One slot for 2 s, three for 2 s, none for 4 s, then one for 4 s: mean 12/8, squares 24/8.
    tasks = [
        attempt(0, 4_000),
        attempt(2_000, 4_000, index=1),
        attempt(2_000, 4_000, index=2),
        attempt(8_000, 12_000),
    ]
    busy = measure([application(tasks)]).busy
    assert (busy.seconds, busy.mean, busy.most) == (8.0, 1.5, 3)
    assert busy.deviation == pytest.approx(0.75**0.5)
    assert busy.bound(1.5) == pytest.approx(1.5 + 1.5 * 0.75**0.5)
    assert busy.bound(3.0) == 3.0
    assert busy.full_share == 0.0


def test_no_more_slots_are_busy_than_the_executors_have():
    # The second task's launch is logged before the end of the first one.
    busy = measure([application([attempt(0, 1_010), attempt(1_000, 2_000, index=1)], slots=1)]).busy
    assert (busy.mean, busy.deviation, busy.most, busy.full_share) == (1.0, 0.0, 1, 1.0)


def test_runs_of_one_application_are_put_together_each_on_its_own_clock():
    once = application([attempt(0, 1_000)])
    twice = application([attempt(500, 1_500), attempt(500, 1_500, index=1)])
    found = measure([once, twice])
    assert (found.busy.seconds, found.busy.mean, found.busy.deviation) == (2.0, 1.5, 0.5)
    assert [(group.jobs, group.demand_s) for group in found.groups] == [(2, 1.5)]


def test_cpu_use_weighs_every_second_alike():
    executed = (Executed(1.0, 1.0), Executed(3.0, 0.6))  # mean 1.6 / 4
    tasks = [attempt(0, 4_000)]
    use = measure([application(tasks, ran={"a": Ran(0.0, executed=executed)})]).groups[0].cpu
    assert use is not None
    assert (use.tasks, use.mean_demand_s, use.mean) == (2, 0.8, pytest.approx(0.4))
    assert use.deviation == pytest.approx(((0.6**2 + 3 * 0.2**2) / 4) ** 0.5)


# ---- settings ----


@pytest.mark.parametrize(
    ("share", "cores", "task_cpus"),
    [(0.25, "16", None), (0.5, "8", None), (0.9, "4", None), (1.4, "4", None), (1.9, "4", "2")],
)
def test_slots_of_an_executor_follow_the_cpu_use_of_its_tasks(share, cores, task_cpus):
    properties = advised(application([attempt(0, 1_000)], ran={"a": cpu(share)})).properties
    assert (properties["spark.executor.cores"], properties.get("spark.task.cpus")) == (cores, task_cpus)


def test_tasks_that_sleep_get_no_more_than_four_times_the_slots_and_the_reason_says_so():
    found = advised(application([attempt(0, 1_000)], ran={"a": cpu(0.01)}))
    assert found.properties["spark.executor.cores"] == "16"
    assert "400 slots by CPU alone" in reasons(found)["spark.executor.cores"]
    assert "at most 4 times as many" in reasons(found)["spark.executor.cores"]


def test_more_cpus_per_task_than_it_used_are_taken_back():
    properties = {**STANDALONE, "spark.task.cpus": "2"}
    found = advised(
        application(
            [attempt(0, 1_000)], ran={"a": cpu(0.9)}, properties=properties, shapes={(4, 2): 1}, slots=2
        )
    )
    assert found.properties["spark.task.cpus"] == "1"
    assert "used 0.90 ± 0.00 cores" in reasons(found)["spark.task.cpus"]


def test_deviation_and_class_decide_on_the_slots():
    ran = {"a": Ran(0.0, executed=(Executed(1.0, 0.2), Executed(1.0, 0.6)))}  # 0.4 ± 0.2, at most 0.6
    tasks = [attempt(0, 1_000)]
    of = {name: advised(application(tasks, ran=ran, job_class=name)) for name in ("slo", "best_effort", "")}
    cores = {name: advice.properties["spark.executor.cores"] for name, advice in of.items()}
    assert cores == {"slo": "8", "best_effort": "12", "": "8"}


@pytest.mark.parametrize(
    ("properties", "setting", "value"),
    [
        (STANDALONE, "spark.cores.max", "8"),
        ({"spark.master": "spark-sched:spark://host:7077"}, "spark.cores.max", "8"),
        ({"spark.master": "yarn"}, "spark.executor.instances", "2"),
        (
            {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"},
            "spark.dynamicAllocation.maxExecutors",
            "2",
        ),
        ({"spark.master": "local[8]"}, "spark.master", "local[5]"),
    ],
)
def test_executors_are_as_many_as_the_bound_needs(properties, setting, value):
    # Five slots are busy, on two executors of four slots.
    tasks = [attempt(0, 1_000, index=number) for number in range(5)]
    found = advised(application(tasks, slots=8, shapes={(4, 4): 2}, properties=properties))
    assert found.properties == {setting: value}
    assert "5.0 ± 0.0 slots were busy" in reasons(found)[setting]
    assert "at least 75% of this time" in reasons(found)[setting]


def test_a_pod_asks_for_the_cores_that_its_tasks_use():
    kubernetes = {"spark.master": "k8s://https://host"}
    found = advised(application([attempt(0, 1_000)], ran={"a": cpu(0.5)}, properties=kubernetes))
    assert found.properties == {
        "spark.executor.cores": "8",
        "spark.kubernetes.executor.request.cores": "4",
        "spark.executor.instances": "1",
    }


def test_priorities_are_a_factor_of_ten_of_demand_apart():
    tasks = [
        attempt(0, 100_000, "long"),
        attempt(100_000, 105_000, "middle"),
        attempt(105_000, 105_900, "short"),
    ]
    ran = {"long": Ran(0.0), "middle": Ran(99.0), "short": Ran(100.0)}
    found = advised(application(tasks, slots=1, ran=ran, shapes={(1, 1): 1}))
    marks = {one.group: one.value for one in found.settings if one.setting == "spark.sched.job.priority"}
    assert marks == {("middle",): "1", ("short",): "2"}
    assert "spark.sched.job.priority" not in found.properties


# ---- what is left out ----


def left_out(found: Advice) -> str:
    return "\n".join(found.left_out)


def test_without_cpu_times_the_slots_of_executors_are_left_out():
    found = advised(application([attempt(0, 1_000)]))
    assert "the log shows no CPU time of any task" in left_out(found)
    assert found.properties == {"spark.cores.max": "4"}


def test_cpu_times_of_few_tasks_do_not_stand_for_all():
    tasks = [attempt(0, 1_000, index=number) for number in range(4)]
    found = advised(application(tasks, ran={"a": cpu(0.2, 3, unseen=1)}))
    assert "no CPU time of 1 of 4 attempts" in left_out(found)
    assert "spark.executor.cores" not in found.properties


def test_slots_that_gpus_limit_do_not_follow_from_cpu_use():
    found = advised(application([attempt(0, 1_000)], ran={"a": cpu(0.2)}, shapes={(4, 2): 1}))
    assert "other resources than cores" in left_out(found)


@pytest.mark.parametrize(
    ("tasks", "ran", "says"),
    [
        ([attempt(0, 9)], {"a": Ran(0.0)}, "one group of jobs"),
        ([attempt(0, 9_000), attempt(0, 90, "b")], {"a": Ran(0.0), "b": Ran(0.0)}, "never all busy"),
        ([attempt(0, 9_000), attempt(0, 90, "b")], {}, "no waits"),
    ],
)
def test_priorities_that_nothing_supports_are_left_out(tasks, ran, says):
    found = advised(application(tasks, ran=ran))
    assert says in left_out(found)
    assert not [one for one in found.settings if one.group is not None]


def test_a_planners_record_has_holds_but_no_executors_to_size():
    usage = Usage([Presence("1", 2, 0, 1_000)], {}, [attempt(0, 1_000)], [Hold("a", "1", 0, 500)])
    only = LoggedApplication(Path("log"), usage)
    found = advised(only)
    assert not found.properties
    assert "executors and slots: not recorded (the log has no Spark properties" in left_out(found)
    assert measure([only]).statement.total_ms("held") == 500


# ---- logs ----


def logged(path: Path, share: float | None = 0.5, name: str = "map", **properties: str) -> Path:
    """One job of two tasks of two seconds on one executor of four cores."""
    log = Log(**({"spark.master": "yarn"} | properties)).executor(0, "1", 4)
    log.job(0, 100, 2_200, [(100, 2_100), (100, 2_100)])
    for event in log.events:
        if event["Event"] == "SparkListenerTaskEnd" and share is not None:
            event["Task Metrics"] = {"Executor Run Time": 1_900, "Executor CPU Time": int(share * 1.9e9)}
        if event["Event"] == "SparkListenerStageSubmitted":
            event["Stage Info"]["RDD Info"] = [{"Name": "MapPartitionsRDD", "Scope": f'{{"name":"{name}"}}'}]
    return log.write(path)


def test_an_event_logs_cpu_times_are_read(tmp_path):
    found = read_application(logged(tmp_path / "log"))
    assert found.ran["0"].executed == (Executed(1.9, 0.95),) * 2
    assert (found.ran["0"].unseen, found.shapes) == (0, {(4, 4): 1})


@pytest.mark.parametrize("name", ["BatchEvalPython", "MapInPandas", "MapInArrow", "GpuFilter"])
def test_the_cpu_time_of_a_thread_that_waits_for_another_processor_does_not_count(tmp_path, name):
    found = read_application(logged(tmp_path / "log", name=name))
    assert (found.ran["0"].executed, found.ran["0"].unseen) == ((), 2)


def test_a_log_without_metrics_has_no_cpu_times(tmp_path):
    found = read_application(logged(tmp_path / "log", share=None))
    assert (found.ran["0"].executed, found.ran["0"].unseen) == ((), 2)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared event logs are absent")
def test_recorded_applications_are_sized_within_what_they_had():
    sized = 0
    for log in sorted(path for path in SHARED.rglob("*.gz")):
        try:
            found = read_application(log)
        except BadInputError:
            continue
        if not found.usage.attempts or not found.shapes:
            continue
        statistics = measure([found])
        offered = sum(there.slots for there in found.usage.executors)
        assert 0 < statistics.busy.bound(2.0) <= offered
        settings = recommend([found], statistics)
        assert settings.properties or settings.left_out
        sized += 1
    assert sized >= 5


# ---- command ----


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["recommend", *map(str, arguments)])


def test_the_command_prints_a_table_reasons_and_properties(tmp_path):
    result = call(logged(tmp_path / "log"))
    assert result.exit_code == 0, result.output
    assert "stage 0" in result.stdout
    snippet = result.stdout.split("# spark-defaults.conf\n")[1]
    assert snippet == "spark.executor.cores 8\nspark.executor.instances 1\n"
    assert "held idle: not recorded" in result.stdout


def test_the_document_has_statistics_settings_and_what_is_left_out(tmp_path):
    document = json.loads(call(logged(tmp_path / "log"), "--by", "user", "--json").stdout)
    assert document["properties"] == {"spark.executor.cores": "8", "spark.executor.instances": "1"}
    assert document["groups"][0]["user"] == "anna"
    assert document["groups"][0]["cpu_per_run_time"]["mean"] == pytest.approx(0.5)
    assert document["busy_slots"]["mean"] == 2.0
    assert document["held_share"] is None
    assert document["left_out"] == ["spark.sched.job.priority: there is one group of jobs"]


def test_logs_without_a_task_in_a_folder_are_left_out(tmp_path):
    logged(tmp_path / "a")
    Log().write(tmp_path / "b")
    result = call(tmp_path)
    assert result.exit_code == 0, result.output
    assert "1 of 2 logs have no task" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--by", "usr"), "did you mean 'user'"),
        (("--deviations", "1"), "--deviations is 1 but must be above 1"),
        (("--deviations", "nan"), "--deviations is nan but must be above 1"),
        (("--fast",), "No such option"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(tmp_path, arguments, says):
    result = call(logged(tmp_path / "log"), *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_logs_that_cannot_be_used_are_refused_in_one_sentence(tmp_path):
    (tmp_path / "text").write_text("hello\n")
    Log().write(tmp_path / "idle")
    (tmp_path / "none").mkdir()
    for path, says in (
        ("absent", "does not exist"),
        ("text", "no known trace format"),
        ("idle", "has no task"),
        ("none", "contains no Spark event log"),
    ):
        result = call(tmp_path / path)
        assert result.exit_code == 2, path
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert "Missing argument" in call().stderr
