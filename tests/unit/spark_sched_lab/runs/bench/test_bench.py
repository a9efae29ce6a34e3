"""Suites of workloads: files, arrivals, simulated runs, and the summary."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.engine.run import simulate
from spark_sched_lab.runs.bench.run import bench_document, run_simulated
from spark_sched_lab.runs.bench.suite import mark_of, parse_bench, plan_jobs, read_bench
from spark_sched_lab.runs.workloads.programs import PROGRAMS
from spark_sched_lab.runs.workloads.tpcds import run_generate_tpcds, statements
from spark_sched_lab.runs.workloads.tpch import QUERIES, queries, run_generate_tpch

CONF = Path(__file__).parents[5] / "conf" / "bench"
SLEEP = '[[suite.workload]]\nname = "sleep"\nsleepms = [1000, 2000]\ntasks = 4\nuser = "ana"\n'


def parse(text):
    return parse_bench(text, "bench.toml")


def bench(lines="", scheduler="", workload=SLEEP):
    return parse(f"[cluster]\nworkers = 1\nslots = 4\n{scheduler}\n[[suite]]\n{lines}\n{workload}")


def simulated(found):
    return run_simulated(found, lambda *_: None)


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.stem)
def test_the_suites_that_ship_are_valid(path):
    assert read_bench(path).suites


def test_a_suite_repeats_its_whole_matrix():
    planned = plan_jobs(bench("repeat = 2"), 0)
    assert [(job.repetition, job.job.parameters["sleepms"]) for job in planned] == [
        (0, 1000),
        (0, 2000),
        (1, 1000),
        (1, 2000),
    ]
    assert len({job.seed for job in planned}) == 4
    assert [job.arrival_s for job in planned] == [0.0] * 4


def test_poisson_arrivals_have_their_mean_gap_and_follow_the_seed():
    found = bench('mode = "poisson"\ngap = "2s"\nrepeat = 500')
    arrivals = [job.arrival_s for job in plan_jobs(found, 0)]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0.0
    assert arrivals[-1] / 999 == pytest.approx(2.0, rel=0.1)
    assert arrivals == [job.arrival_s for job in plan_jobs(found, 0)]


def test_jobs_in_sequence_wait_for_one_another_and_parallel_ones_compete():
    (after,) = simulated(bench())
    assert [(row["began_s"], row["jct_s"]) for row in after] == [(0.0, 1.0), (1.0, 2.0)]
    (beside,) = simulated(bench('mode = "parallel"'))
    assert [row["began_s"] for row in beside] == [0.0, 0.0]
    assert sorted(row["jct_s"] for row in beside)[-1] == 3.0  # four slots for eight tasks


def test_jobs_side_by_side_arrive_at_their_start():
    (rows,) = simulated(
        bench('mode = "parallel"', workload=SLEEP.replace("[1000, 2000]", "1000") + "start_s = 1.5\n")
    )
    assert [(row["began_s"], row["jct_s"]) for row in rows] == [(1.5, 1.0)]


def test_iterations_side_by_side_with_others_follow_one_another():
    often = SLEEP.replace("[1000, 2000]", "1000").replace("tasks = 4", "tasks = 2")
    found = bench('mode = "parallel"', workload=often + "iterations = 3\nstart_s = 0.5\n" + often)
    planned = plan_jobs(found, 0)
    assert [(job.arrival_s, job.after) for job in planned] == [
        (0.0, False),
        (0.5, False),
        (0.5, True),
        (0.5, True),
    ]
    assert len({job.seed for job in planned}) == 4
    (rows,) = simulated(found)
    assert [(row["began_s"], row["jct_s"]) for row in rows] == [
        (0.0, 1.0),
        (0.5, 1.0),
        (1.5, 1.0),
        (2.5, 1.0),
    ]


@pytest.mark.parametrize(
    ("lines", "deadlines_s"),
    [
        pytest.param("", [30.0, 31.0], id="in sequence"),
        pytest.param('mode = "parallel"', [30.0, 30.0], id="side by side"),
    ],
)
def test_the_simulator_knows_deadlines_from_each_jobs_submission(monkeypatch, lines, deadlines_s):
    results = []

    def kept(*arguments, **named):
        results.append(simulate(*arguments, **named))
        return results[-1]

    monkeypatch.setattr("spark_sched_lab.runs.bench.run.simulate", kept)
    simulated(bench(lines, scheduler='[scheduler]\npolicy = "3sigma"\ndeadline = "30s"\n'))
    assert [row["deadline_ms"] / 1000 for row in results[0].rows()] == deadlines_s


def test_sparks_fair_mode_has_a_pool_for_each_user_in_the_simulator_as_well():
    def job(user, label):
        row = f'[[suite.workload]]\nname = "sleep"\nuser = "{user}"\nlabel = "{label}"\n'
        return row + "tasks = 40\nsleepms = 1000\n"

    def times(*users):
        jobs = "".join(job(user, str(n)) for n, user in enumerate(users))
        (rows,) = simulated(
            bench('mode = "parallel"', scheduler='[scheduler]\nscheduler = "fair"\n', workload=jobs)
        )
        return [row["jct_s"] for row in rows]

    assert times("ana", "ana") == [10.0, 20.0]  # FIFO inside a pool
    assert times("ana", "ben") == [20.0, 20.0]


def test_marks_come_from_the_scheduler_unless_the_table_says_otherwise():
    found = bench(
        scheduler='[scheduler]\npolicy = "fair"\nisolation = 0.3\npriority = 4\ncopies = "never"\n',
        workload=SLEEP + "priority = 7\n",
    )
    mark = mark_of(found.scheduler, found.suites[0].jobs[0])
    assert mark == {
        "name": "sleep sleepms=1000",
        "priority": 7,
        "isolation": 0.3,
        "copies": "never",
        "deadline": None,
        "user": "ana",
    }
    assert found.scheduler.policy == "fair"
    stock = bench(scheduler='[scheduler]\nscheduler = "fair"\n')
    assert mark_of(stock.scheduler, stock.suites[0].jobs[0]) is None


def test_a_policy_that_tunes_levels_gets_jobs_without_one():
    lines = '[scheduler]\npolicy = "tuned-reservation"\n'
    goal = '[scheduler.settings]\n"spark.sched.policy.tuned-reservation.loss" = 0.001\n'
    found = bench("repeat = 12", scheduler=lines + goal, workload=SLEEP.replace("[1000, 2000]", "1000"))
    mark = mark_of(found.scheduler, found.suites[0].jobs[0])
    assert mark is not None
    assert mark["isolation"] is None
    fixed = bench(scheduler=lines + "isolation = 0.3\n")
    mark = mark_of(fixed.scheduler, fixed.suites[0].jobs[0])
    assert mark is not None
    assert mark["isolation"] == 0.3


def test_the_document_sums_up_by_workload_and_user():
    found = bench('mode = "parallel"\nrepeat = 2\ndescription = "two"')
    document = bench_document(found, simulated(found), {"on": "a test"})
    (suite,) = document["suites"]
    assert (suite["description"], suite["mode"], len(suite["jobs"])) == ("two", "parallel", 4)
    assert [row["jobs"] for row in suite["workloads"]] == [2, 2]
    assert [(row["user"], row["jobs"]) for row in suite["users"]] == [("ana", 4)]
    assert suite["makespan_s"] == pytest.approx(6.0, abs=0.01)
    assert document["failures"] == 0


def test_a_failed_job_is_counted_and_left_out_of_the_means():
    found = bench()
    (rows,) = simulated(found)
    rows[1]["error"] = "out of memory"
    document = bench_document(found, [rows], {})
    assert document["failures"] == 1
    second = document["suites"][0]["workloads"][1]
    assert (second["jobs"], second["failed"], second["jct_mean_s"]) == (0, 1, None)
    json.loads(json.dumps(document, allow_nan=False))


REFUSED = {
    "an arrival in a sequence": (
        lambda: bench(workload=SLEEP + "start_s = 2\n"),
        'sets start_s, which is read only with mode = "parallel"',
    ),
    "iterations in a sequence": (
        lambda: bench(workload=SLEEP + "iterations = 2\n"),
        'sets iterations, which is read only with mode = "parallel"',
    ),
    "an unknown workload": (
        lambda: bench(workload='[[suite.workload]]\nname = "pi"\n'),
        "unknown workload 'pi'",
    ),
    "no runs": (lambda: bench("repeat = 0"), r"suite\[0\].repeat is 0 but must be a whole number from 1"),
    "no suite": (lambda: parse("seed = 1\n"), "suite is missing"),
    "no workload": (lambda: bench(workload=""), r"suite\[0\] has no workload"),
    "an unknown mode": (lambda: bench('mode = "paralel"'), r"did you mean 'parallel'\?"),
    "a gap that nothing reads": (lambda: bench('gap = "2s"'), 'gap is read only with mode = "poisson"'),
    "a required parameter": (
        lambda: bench(workload='[[suite.workload]]\nname = "sql"\nquery = "select 1"\n'),
        r"workload\[0\].input is missing",
    ),
    "a wrong save mode": (
        lambda: bench(
            workload='[[suite.workload]]\nname = "data-generation-kmeans"\nrows = 1\ncols = 1\noutput = "x"\n'
            'save-mode = "overwrites"\n'
        ),
        r"did you mean 'overwrite'\?",
    ),
    "a mark that stock Spark does not read": (
        lambda: bench(scheduler='[scheduler]\nscheduler = "fair"\n', workload=SLEEP + "priority = 3\n"),
        "sets priority, which Spark's own FAIR scheduler does not read",
    ),
    "a policy's option that nothing reads": (
        lambda: bench(scheduler='[scheduler]\nscheduler = "fifo"\npolicy = "uwfq"\n'),
        "sets policy, which Spark's own FIFO scheduler does not read",
    ),
    "an arrival that never comes": (
        lambda: bench('mode = "parallel"', workload=SLEEP + "start_s = inf\n"),
        "start_s is inf but must be a number from 0 to 10000000, and finite",
    ),
    "a priority that the JVM has not": (
        lambda: bench(workload=SLEEP + "priority = -3000000000\n"),
        "priority is -3000000000 but must be a whole number from -2147483648 to 2147483647",
    ),
    "an isolation above 1": (lambda: bench(workload=SLEEP + "isolation = 2.0\n"), "must be from 0 to 1"),
    "a mark of a job that its policy does not read": (
        lambda: bench(scheduler='[scheduler]\npolicy = "uwfq"\n', workload=SLEEP + "priority = 3\n"),
        "'sleep sleepms=1000' sets priority, which the policy 'uwfq' does not read",
    ),
    "a workload of unknown duration in the simulator": (
        lambda: simulated(bench(workload='[[suite.workload]]\nname = "sparkpi"\n')),
        "the workload 'sparkpi' cannot be simulated",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_suite_is_refused_by_name(case):
    build, sentence = REFUSED[case]
    with pytest.raises(BadInputError, match=sentence):
        build()


def test_sparkbenchs_other_name_for_a_workload_is_known():
    assert PROGRAMS["lr-bml"] is PROGRAMS["logistic-regression"]


def test_the_command_simulates_a_suite_and_writes_one_document(tmp_path):
    out = tmp_path / "results.json"
    arguments = ["bench", str(CONF / "users.toml"), "--simulate", "--json", "--out", str(out)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document == json.loads(out.read_text())
    assert [row["user"] for row in document["suites"][0]["users"]] == ["ana", "ben"]
    shown = CliRunner().invoke(app, arguments[:3], catch_exceptions=False)
    assert "ana" in shown.stdout
    assert "long" in shown.stdout


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        pytest.param("missing/results.json", "does not exist: create it", id="no folder"),
        pytest.param("suite.toml/results.json", "does not exist: create it", id="inside a file"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_jobs_run(tmp_path, monkeypatch, place, sentence):
    monkeypatch.setattr("spark_sched_lab.runs.bench.run.run_simulated", lambda *_: pytest.fail("it ran"))
    (tmp_path / "suite.toml").write_text("[[suite]]\n" + SLEEP)
    done = CliRunner().invoke(
        app, ["bench", str(tmp_path / "suite.toml"), "--simulate", "--out", str(tmp_path / place)]
    )
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_results_are_printed_even_if_their_file_cannot_be_written_in_the_end(tmp_path, monkeypatch):
    def full(*_):
        raise BadInputError("no space left")

    monkeypatch.setattr("spark_sched.files.write_whole", full)
    arguments = ["bench", str(CONF / "users.toml"), "--simulate", "--json", "--out", str(tmp_path / "r.json")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert json.loads(done.stdout)["suites"]


def test_the_command_refuses_what_cannot_be_simulated(tmp_path):
    done = CliRunner().invoke(app, ["bench", str(CONF / "sparkbench.toml"), "--simulate"])
    assert done.exit_code == 2
    assert "cannot be simulated" in done.stderr


def test_tpch_has_22_queries_and_refuses_a_23rd():
    assert len(queries()) == QUERIES == 22
    assert all(text.startswith(("select", "with")) and ";" not in text for text in queries())
    table = '[[suite.workload]]\nname = "tpch"\ninput = "x"\nquery = [22, 23]\n'
    with pytest.raises(BadInputError, match="query is 23 but must be 1 to 22"):
        bench(workload=table)


def test_tpch_data_without_its_generator_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("spark_sched_lab.runs.workloads.tpch.generator", lambda: None)
    given = {"scale": 0.1, "output": str(tmp_path / "new"), "save-mode": "errorifexists"}
    with pytest.raises(RuntimeError, match=r"pip install 'spark-sched\[tpc\]'"):
        run_generate_tpch(None, given, 0)


def test_tpcds_data_come_from_its_generator_and_queries_from_the_users_files(monkeypatch, tmp_path):
    given = {"scale": 0.5, "output": str(tmp_path / "new"), "save-mode": "errorifexists"}
    monkeypatch.setattr("spark_sched_lab.runs.workloads.tpch.generator", lambda: None)
    with pytest.raises(RuntimeError, match=r"pip install 'spark-sched\[tpc\]'"):
        run_generate_tpcds(None, given, 0)
    program = tmp_path / "program"
    program.write_text(
        '#!/bin/sh\nmkdir -p "${5#--output-dir=}"; echo "$1 $2 $3 $4" > "${5#--output-dir=}/asked"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr("spark_sched_lab.runs.workloads.tpch.generator", lambda: str(program))
    assert run_generate_tpcds(None, given, 0) == (24.0,)
    with pytest.raises(RuntimeError, match="exists: set save-mode to overwrite or ignore"):
        run_generate_tpcds(None, {**given, "save-mode": "error"}, 0)
    assert (tmp_path / "new" / "asked").read_text() == "tpcds parquet -s 0.5\n"
    with pytest.raises(RuntimeError, match="exists: set save-mode to overwrite or ignore"):
        run_generate_tpcds(None, given, 0)
    assert statements("-- one\nselect ';' as a;\n\nselect 2 as b -- two\n;\n") == [
        "select ';' as a",
        "select 2 as b -- two",
    ]


def parameters_of(lines):
    (job,) = bench(workload="[[suite.workload]]\n" + lines).suites[0].jobs
    return job.parameters


def test_defaults_are_sparkbenchs_where_data_is_given():
    names = ("k", "maxiterations", "seed")
    on_data = parameters_of('name = "kmeans"\ninput = "x.parquet"\n')
    assert [on_data[name] for name in names] == [2, 2, 127]
    slow = parameters_of('name = "kmeans"\n')
    assert [slow[name] for name in names] == [4, 6, None]
    once = parameters_of('name = "kmeans"\ninput = "x.parquet"\nmaxiterations = 1\nseed = 5\n')
    assert [once[name] for name in names] == [2, 1, 5]
    assert parameters_of('name = "cachetest"\ninput = "x.parquet"\n')["sleepms"] == 1000
    query = parameters_of('name = "sql"\ninput = "x"\nquery = "select 1"\noutput = "y"\npartitions = 4\n')
    assert query["partitions"] == 4
    with pytest.raises(BadInputError, match="maxiterations is 1 but must be 2 or more without an input"):
        parameters_of('name = "svm"\nmaxiterations = 1\n')
