"""Experiment files: what they may say, and the sentence for what they may not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.runs.simulate.experiment import read_experiment

EXAMPLES = sorted((Path(__file__).parents[5] / "conf" / "experiments").glob("*.toml"))

SMALL = """
seeds = [1, 2]

[cluster]
nodes = 3
slots = 2

[[workload]]
class = "front"
priority = 5
jobs = 4
gap = "5s"
slack = 0.2
stages = [{ tasks = 4, mean = "2s", alpha = 1.6 }, { tasks = 2, mean = "1s" }]

[[workload]]
generator = "pareto"
parameters = { jobs = 3, tasks = 8 }

[[arm]]
policy = "fifo"

[[arm]]
policy = "reservation"
predictor = "history"
plan_every = "200ms"
settings = { "spark.sched.reservation.isolation" = 0.9 }
"""

FAIR_BY_USER = 'seeds = [1]\nsettings = { "spark.sched.policy.fair.poolBy" = "user" }'


def write(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_experiment_runs_as_it_is(path: Path) -> None:
    experiment = read_experiment(path)
    left_out: Counter[str] = Counter()
    jobs = experiment.jobs(experiment.seeds[0], left_out)[:40]
    assert not left_out
    for arm in experiment.arms:
        result = experiment.run(arm, experiment.seeds[0], jobs)
        assert len(result.jobs["job"]) == 40
        assert result.unfinished == 0


def test_every_arm_gets_the_same_jobs_for_a_seed_and_others_for_another(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, SMALL))
    first = experiment.jobs(1)
    assert [job.submit_ms for job in first] == sorted(job.submit_ms for job in first)
    assert first == experiment.jobs(1)
    assert first != experiment.jobs(2)
    assert {job.job_class for job in first} == {"front", None}
    assert all(job.deadline_ms for job in first if job.job_class == "front")


def test_json_is_one_document_with_a_row_per_arm_and_class_and_the_same_bytes_again(tmp_path: Path) -> None:
    path = str(write(tmp_path, SMALL))
    first, second = simulate(path, "--json", "--jobs", "2"), simulate(path, "--json", "--jobs", "2")
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert [arm["arm"] for arm in document["arms"]] == ["fifo", "reservation"]
    for arm in document["arms"]:
        assert [row["class"] for row in arm["classes"]] == ["front", "priority 0", "all"]
        assert [run["seed"] for run in arm["runs"]] == [1, 2]
        assert arm["classes"][2]["jobs"] == 7
        assert len(arm["runs"][0]["jobs"]) == 2


def test_results_are_written_as_parquet_and_json(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = simulate(str(write(tmp_path, SMALL)), "--out", str(out), "--arm", "fifo", "--seed", "7")
    assert found.exit_code == 0, found.output
    names = sorted(path.name for path in out.iterdir())
    assert names == ["jobs.parquet", "report.html", "results.json", "tasks.parquet"]
    jobs, tasks = pq.read_table(out / "jobs.parquet"), pq.read_table(out / "tasks.parquet")
    assert set(jobs["arm"].to_pylist()) == {"fifo"}
    assert jobs.num_rows == 7
    assert tasks.num_rows == sum(jobs["tasks"].to_pylist())
    assert json.loads((out / "results.json").read_text())["arms"][0]["runs"][0]["seed"] == 7
    assert "fifo" in found.stdout


def test_a_trace_is_simulated_from_its_file(tmp_path: Path) -> None:
    made = CliRunner().invoke(
        app, ["trace", "generate", "pareto", str(tmp_path / "p.parquet"), "--seed", "3"]
    )
    assert made.exit_code == 0, made.output
    text = '[cluster]\nnodes = 40\n[[workload]]\ntrace = "p.parquet"\nlimit = 5\n[[arm]]\npolicy = "fifo"\n'
    jobs = read_experiment(write(tmp_path, text)).jobs(0)
    assert len(jobs) == 5
    assert jobs[0].submit_ms == 0
    assert [stage.parents for stage in jobs[0].stages] == [(), (0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'policy = "fifo"',
            'policy = "fito"',
            r"arm\[0\]\.policy is 'fito' but must be one of .*did you mean 'fifo'",
        ),
        (
            'policy = "fifo"',
            'policy = "fifo"\npartitioning = { task_runtime = "0s" }',
            r"arm\[0\]\.partitioning\.task_runtime is '0s' but must be a time of at least 1ms, in quotes",
        ),
        ("nodes = 3", "nodes = 0", r"cluster\.nodes is 0 but must be a whole number from 1"),
        ("nodes = 3", "nodes = 4611686018427387904", r"cluster\.nodes is \d+ but must be at most 1,000,000"),
        ("nodes = 3", "node = 3", r"cluster\.nodes is missing but must be a whole number from 1"),
        ("slots = 2", "slot = 2", r"unknown key cluster\.slot \(did you mean 'slots'\?\): use one of"),
        ("slots = 2", "slots = true", r"cluster\.slots is True but must be a whole number"),
        ('gap = "5s"', "gap = 5", r"workload\[0\]\.gap is 5 but must be a time such as 100ms"),
        (
            "alpha = 1.6",
            "alpha = 1",
            r"workload\[0\]\.stages\[0\]\.alpha is 1\.0 but must be a number from 1\.01",
        ),
        ('"pareto"', '"paretto"', r"workload\[1\]\.generator is 'paretto' but must be one of .*'pareto'"),
        (
            "tasks = 8",
            "task = 8",
            r"workload\[1\]\.parameters\.task is 8 but pareto has no such parameter: use jobs,",
        ),
        (
            '"history"',
            '"historic"',
            r"arm\[1\]\.predictor is 'historic' but must be one of none, history, 3sigma, oracle",
        ),
        ("= 0.9", "= 1.9", r"arm\[1\]\.settings: spark\.sched\.reservation\.isolation is '1\.9' but must be"),
        ("reservation.isolation", "reservation.isolatoin", r"unknown setting \S+isolatoin \(did you mean"),
        ("seeds = [1, 2]", 'seeds = ["a"]', r"seeds is \['a'\] but must be a list of whole numbers"),
        ("seeds = [1, 2]", f'seeds = "{"x" * 300}"', r"seeds is 'x{99}… but must be a list"),
        ("seeds = [1, 2]", "seeds = [1, 2", r"is not a TOML file .*: fix that line"),
        (
            'generator = "pareto"',
            'trace = "gone.parquet"',
            r"trace is '.*gone\.parquet' but must be the path",
        ),
        ('generator = "pareto"\n', "", r"workload\[1\] has no source but must have one of trace, generator"),
        (
            "priority = 5",
            "priority = 5\nisolation = 1.5",
            r"workload\[0\]\.isolation is 1\.5 but must be a number from 0",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence_and_exit_status_2(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(BadInputError, match=sentence):
        read_experiment(path).jobs(0)
    found = simulate(str(path), "--out", str(tmp_path / "out"))
    assert found.exit_code == 2
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


def test_a_missing_file_and_an_unknown_arm_are_named(tmp_path: Path) -> None:
    assert "cannot be read" in simulate(str(tmp_path / "none.toml")).stderr
    assert "is a folder but must be an experiment's TOML file" in simulate(str(tmp_path)).stderr
    for content in (b'{"Event":"SparkListenerLogStart"}\n', b"\x28\xb5\x2f\xfd"):
        (tmp_path / "app-1.zstd").write_bytes(content)
        said = simulate(str(tmp_path / "app-1.zstd")).stderr
        assert "app-1.zstd is not an experiment's TOML file: `spark-sched whatif` replays a log" in said
    found = simulate(str(write(tmp_path, SMALL)), "--arm", "fifa")
    assert found.exit_code == 2
    assert "--arm is 'fifa' (did you mean 'fifo'?) but must be one of fifo, reservation" in found.stderr


def test_an_option_that_no_arm_reads_is_refused_by_name(tmp_path: Path) -> None:
    shared = SMALL.replace("seeds = [1, 2]", FAIR_BY_USER)
    own = SMALL.replace(
        '"spark.sched.reservation.isolation" = 0.9', '"spark.sched.policy.fair.poolBy" = "user"'
    )
    for text in (shared, own):
        with pytest.raises(BadInputError, match=r"policy\.fair\.poolBy is 'user' but does nothing under "):
            read_experiment(write(tmp_path, text))


def test_an_option_that_all_arms_share_is_read_by_its_policy_alone(tmp_path: Path) -> None:
    text = SMALL.replace("seeds = [1, 2]", FAIR_BY_USER)
    arms = read_experiment(write(tmp_path, text + '[[arm]]\npolicy = "fair"\n')).arms
    assert [dict(arm.settings) for arm in arms if arm.policy != "reservation"] == [
        {},
        {"spark.sched.policy.fair.poolBy": "user"},
    ]


def test_an_arm_with_partitioning_has_more_and_shorter_tasks(tmp_path: Path) -> None:
    split = '[[arm]]\nname = "split"\npolicy = "fifo"\n'
    split += 'partitioning = { task_runtime = "500ms", overhead = "10ms", most_tasks = 9 }\n'
    experiment = read_experiment(write(tmp_path, SMALL + split))
    whole, _, parts = experiment.arms
    jobs = experiment.jobs(1)
    assert whole.partitioning is None
    tasks = [len(experiment.run(arm, 1, jobs, keep_tasks=True).tasks["job"]) for arm in (whole, parts)]
    assert tasks[0] == sum(stage.tasks for job in jobs for stage in job.stages)
    assert parts.partitioning is not None
    assert tasks[1] == sum(parts.partitioning.stage(stage).tasks for job in jobs for stage in job.stages)
    assert tasks[1] > tasks[0]
