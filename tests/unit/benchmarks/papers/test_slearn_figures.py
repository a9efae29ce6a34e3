"""SLearn's tables and figures in miniature, and job sizes scored on traces written out."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.papers.figures import document
from benchmarks.papers.registry import choose, load
from benchmarks.papers.runs import Scale, execute
from benchmarks.papers.slearn import arm_runs, common, scheduling
from benchmarks.papers.slearn.workload import TraceSpec, generated, learning, trained
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched_lab.accuracy.tasks import MeasuredJob, covs, evaluate_tasks, score, summary
from spark_sched_lab.simulator import ClusterSpec, simulate, uniform_nodes


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Scale:
    monkeypatch.setattr(common, "jobs_of", lambda scale, dag: 40)
    return Scale(quick=True, seeds=(1,))


NAMES = [f"table{n}" for n in range(4, 10)] + [f"fig{n}" for n in range(1, 10)]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_made_of_its_runs_and_stands_beside_the_papers_values(tiny: Scale, name: str):
    paper = load("slearn")
    (spec,) = choose(paper, [name])
    figure = spec.build(tiny, execute(spec.runs(tiny)))
    told = json.loads(json.dumps(document("slearn", [figure]), allow_nan=False))["figures"][0]
    assert told["id"] == name
    assert figure.rows
    assert len({value["name"] for value in told["values"]}) == len(told["values"])
    if name not in ("fig1", "fig3", "fig4", "fig7"):
        assert any(value["ours"] is not None and value["paper"] is not None for value in told["values"])
    assert bool(figure.charts) == (name in ("fig2", "fig4", "fig5", "fig8", "fig9", "table6", "table9"))
    ours = {value["ours"] for value in told["values"]}
    for chart in figure.charts:
        assert {number for _, number in chart.series["ours"]} <= ours


@pytest.mark.parametrize(
    ("name", "papers"),
    [
        ("fig5", {"2sigma_fifo_p50": 8.45, "2sigma_gs-oracle_p50": 0.73, "google2019_3sigma-gs_p50": 1.07}),
        ("fig6", {"slearn_below_0.04": 36.58, "both_above_1.90_lower_under_slearn": 83.08}),
        ("fig8", {"bin_1_earlier": 82.46, "bin_4_average": 1.38}),
        ("table6", {"google2019_adaptive_p50_error": 51.8, "2sigma_10_pct_p50": 0.91}),
    ],
)
def test_numbers_that_only_the_papers_text_or_tables_have_stand_beside_ours(
    tiny: Scale, name: str, papers: dict[str, float]
):
    (spec,) = choose(load("slearn"), [name])
    values = {value.name: value for value in spec.build(tiny, execute(spec.runs(tiny))).values}
    assert {each: values[each].paper for each in papers} == papers
    measured = [values[each].ours for each in papers if not each.endswith("adaptive_p50_error")]
    assert None not in measured


def test_figures_name_the_number_of_jobs_that_ran():
    quick, whole = (Scale(quick=each, seeds=(1,)) for each in (True, False))
    told = [scheduling._notes(quick), scheduling._notes(whole), scheduling._notes(whole, dag=True)]
    assert [each.split(" jobs ")[0] for each in told] == [f"150 slots, {n}" for n in (200, 1250, 900)]


def test_the_paper_has_tables_4_to_9_and_figures_1_to_9():
    ids = {figure.id for figure in load("slearn").figures}
    assert ids == set(NAMES)


def test_a_workload_begins_at_0_with_the_jobs_after_its_history():
    workload = generated(TraceSpec("google2011"), 1, jobs=20)
    assert (len(workload.history), len(workload.jobs)) == (40, 20)
    specs = workload.specs()
    assert specs[0].submit_ms == 0
    assert [spec.submit_ms for spec in specs] == sorted(spec.submit_ms for spec in specs)
    assert workload.history[-1].submit_s <= workload.jobs[0].submit_s
    assert trained(workload).predictor.jobs == 40


def job(number: int, *times: float, name: str = "n") -> MeasuredJob:
    attributes = JobAttributes(submit_s=float(number), user="u", name=name)
    return MeasuredJob(f"j{number}", float(number), (times,), ((),), (attributes,))


def test_covs_are_those_of_table_4_reckoned_by_hand():
    history = [job(0, 10.0), job(1, 30.0), job(2, 5.0, name="m"), job(3, 5.0, name="m")]
    found = covs(history, [job(4, 8.0, 12.0, 10.0)], 1.0)
    # By name: means 10 and 30, 20 on average, 10 apart from it.
    assert found["over_time"] == pytest.approx([0.5])
    assert found["over_space"] == pytest.approx([np.std([8, 12, 10]) / 10 / math.sqrt(0.09)])
    assert covs(history, [job(4, 8.0, 12.0, 10.0)], 2.5 / 86_400.0)["over_time"] == pytest.approx([0.0])


def test_the_sizes_of_equal_tasks_are_known_by_one_pilot_and_those_of_equal_runs_by_history():
    rng = np.random.default_rng(0)
    history = [job(n, *[5.0] * 4) for n in range(20)]
    new = [job(20 + n, *[500.0] * 4) for n in range(5)]
    told = summary(score(history, new, rng, learns=False))
    assert told["slearn"]["error_pct"]["p90"] == 0.0
    assert told["slearn"]["right_queue_pct"] == 100.0
    assert told["3sigma"]["error_pct"]["p50"] == pytest.approx(99.0, abs=0.5)
    told = summary(score(history, [job(30, *[5.0] * 4)], rng, learns=False))
    assert told["3sigma"]["error_pct"]["p90"] == pytest.approx(0.0, abs=1.0)


def test_only_a_history_that_learns_follows():
    jobs = [job(20 + n, *[500.0] * 4) for n in range(30)]
    history = [job(n, *[5.0] * 4) for n in range(3)]
    still, follows = (
        summary(score(history, jobs, np.random.default_rng(0), learns=learns))["point-est"]["error_pct"][
            "p50"
        ]
        for learns in (False, True)
    )
    assert still > 90.0
    assert follows < 10.0


def test_an_evaluation_scores_the_second_half_and_stages_by_themselves():
    chain = [
        MeasuredJob(f"c{n}", float(n), ((1.0,) * 4, (3.0,) * 5), ((), (0,)), (JobAttributes(name="c"),) * 2)
        for n in range(10)
    ]
    told = evaluate_tasks(chain, seeds=(1, 2))
    assert told is not None
    assert (told["jobs"], told["scored"], told["runs"]) == (5, 5, 2)
    assert told["stages"]["scored"] == 10
    assert told["stages"]["predictors"]["slearn"]["error_pct"]["p90"] == 0.0
    assert evaluate_tasks([job(n, 1.0) for n in range(9)]) is None


@pytest.mark.parametrize("like", ["2sigma", "google2011", "google2019"])
def test_generated_traces_vary_as_table_4_says(like: str):
    """Few enough jobs for the margin of a third: P50 over time and over space."""
    papers = {"2sigma": (1.00, 0.18), "google2011": (0.20, 0.04), "google2019": (1.35, 0.70)}[like]
    workload = generated(TraceSpec(like), 3, jobs=800)
    found = covs(workload.history, workload.jobs, 1e6)
    assert np.median(found["over_time"]) == pytest.approx(papers[0], rel=0.34)
    assert np.median(found["over_space"]) == pytest.approx(papers[1], rel=0.34)


def test_a_history_that_learns_is_empty_at_first_and_knows_the_jobs_at_the_end() -> None:
    workload = generated(TraceSpec("2sigma"), 1, 40)
    frozen, learns = trained(workload), learning(workload)
    assert learns.predictor.jobs == 0
    assert frozen.predictor.jobs > 0
    before = frozen.predictor.jobs
    for history in (frozen, learns):
        policy = arm_runs.policy_of("3sigma-gs-learns")
        assert policy.name == "3sigma-gs"
        cluster = ClusterSpec(uniform_nodes(arm_runs.SLOTS, 1))
        simulate(cluster, workload.specs(), policy, predictor=TaskTimePredictor(None, history))
    assert frozen.predictor.jobs == before
    assert learns.predictor.jobs > 0


def test_the_papers_queues_begin_at_1000_slot_seconds_whatever_the_jobs() -> None:
    for arm in ("slearn", "slearn-3", "slearn/4", "gs-las", "slearn-bayes", "3sigma-gs"):
        adapted = arm_runs.policy_of(arm)._adapted  # type: ignore[attr-defined]
        assert (adapted.queues.first_ms, adapted.scale) == (1e6, None)
