"""The framework of reproductions: names, kept runs, documents, pages; and the command around it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from benchmarks.papers import registry, runs
from benchmarks.papers.command import reproduce
from benchmarks.papers.figures import Chart, Figure, FigureSpec, Paper, Value
from benchmarks.papers.report import headline, words
from benchmarks.papers.runs import RunSpec, Scale, Store, execute, run_of
from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from tests.integration.processes import processes_naming, until


def square(*, number: int) -> int:
    """A run's function: at the top level of a module, arguments and result JSON values."""
    return number * number


def fail(*, number: int) -> int:
    """A run that is stopped."""
    raise KeyboardInterrupt


def figure(identity: str, numbers: list[int]) -> FigureSpec:
    def runs(scale: Scale) -> list[RunSpec]:
        return [run_of(square, number=number + 100 * scale.quick) for number in numbers]

    def build(scale: Scale, results: object) -> Figure:
        found = [results[run] for run in runs(scale)]  # type: ignore[index]
        values = [Value("largest", "", 9.0, max(found), (1.0, 2.0), len(scale.seeds))]
        charts = [
            Chart("squares", "n", "n²", {"ours": list(zip(numbers, found, strict=True))}),
            Chart("bars", "", "n²", {"a": [("x", 1.0)], "b": [("x", 2.0)]}, "bars", {"paper": 1.5}),
        ]
        rows = [{"n": n, "n²": value} for n, value in zip(numbers, found, strict=True)]
        return Figure(rows, values, "One.\n\nTwo.", charts)

    return FigureSpec(identity, "Squares <of> numbers", runs, build)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """A later paper, plugged in as one would be: a module and a line."""
    module = ModuleType("toy_paper")
    paper = Paper("toy", "A toy", (figure("fig1", [1, 2]), figure("fig2", [2, 3]), figure("tab12", [4])))
    module.PAPER = paper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_paper", module)
    monkeypatch.setattr(registry, "PAPERS", {**registry.PAPERS, "toy": "toy_paper"})
    return paper


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *arguments], prog_name="spark-sched", catch_exceptions=False)


# ---- names ----


@pytest.mark.parametrize("name", ["fig2", "2", "Fig2", "figure 2", "FIG. 2"])
def test_a_figure_answers_to_its_number(toy: Paper, name: str) -> None:
    assert [chosen.id for chosen in registry.choose(toy, [name])] == ["fig2"]


def test_figures_come_in_the_papers_order_and_all_where_none_is_named(toy: Paper) -> None:
    assert [chosen.id for chosen in registry.choose(toy, ["tab12", "1", "fig1"])] == ["fig1", "tab12"]
    assert len(registry.choose(toy, [])) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["slot-reservatoin"], "PAPER is 'slot-reservatoin' (did you mean 'slot-reservation'?) but must be"),
        (["nothing"], "PAPER is 'nothing' but must be one of slearn, slot-reservation"),
        (["slot-reservation", "fig9"], "FIGURE is 'fig9' (did you mean"),
        (
            ["slot-reservation", "x"],
            "FIGURE is 'x' but slot-reservation has fig1, fig4, fig5, fig8, fig10, fig12, fig13, fig14, ",
        ),
        (["slot-reservation", "--runs", "0"], "'--runs'"),
        ([], "Missing argument 'PAPER'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_status_2(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    found = call(*arguments, *(["--out", str(tmp_path / "out")] if arguments else []))
    assert found.exit_code == 2
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1
    assert sentence in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="--out is .*file/out' but that folder cannot be made"):
        reproduce("slot-reservation", ("fig8",), out=tmp_path / "file" / "out")


# ---- runs ----


def test_a_run_that_two_figures_need_is_done_once(toy: Paper) -> None:
    done: list[tuple[str, bool]] = []
    runs = [run for spec in toy.figures for run in spec.runs(Scale(False, (1,)))]
    results = execute(runs, done=lambda run, kept: done.append((run.arguments, kept)))
    assert sorted(results.values()) == [1, 4, 9, 16]
    assert len(done) == 4


def test_what_was_done_before_a_stop_is_taken_up_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = [run_of(square, 2.0, number=3), run_of(fail, 1.0, number=0)]
    with pytest.raises(KeyboardInterrupt):
        execute(first, store=store)
    kept: list[bool] = []
    execute(first[:1], store=Store(tmp_path), done=lambda run, known: kept.append(known))
    assert kept == [True]


def test_a_result_of_other_code_or_a_torn_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(square, number=3)
    store = Store(tmp_path)
    store.put(run, 9)
    assert store.get(run) == 9
    next(tmp_path.rglob("*.json")).write_text('{"function": "x')
    assert store.get(run) is None
    store.put(run, 9)
    monkeypatch.setattr(runs, "code_digest", lambda: "other")
    assert Store(tmp_path).get(run) is None


def test_several_processes_give_what_one_gives() -> None:
    # Of the package itself, since a fresh process does not know this file.
    from benchmarks.papers.slot_reservation.numeric import _formula

    runs = [run_of(_formula, tasks=n, alpha=1.6, runs=50, seed=1) for n in (4, 5, 6)]
    assert execute(runs, workers=2) == execute(runs)


WAITING = """
import time
from pathlib import Path
from benchmarks.papers.runs import execute, run_of

def wait(*, number):
    Path(f"begun-{number}").touch()
    time.sleep(3600)

if __name__ == "__main__":
    import waiting  # runs have their module's name
    execute([run_of(waiting.wait, number=n) for n in (1, 2)], workers=2)
"""


def test_processes_end_with_the_command_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    command = subprocess.Popen([sys.executable, "waiting.py"], cwd=tmp_path)
    try:
        assert until(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
    finally:
        command.kill()
        command.wait()
    assert until(lambda: not processes_naming(str(tmp_path)))


# ---- documents ----


def test_the_document_has_the_promised_names_and_nothing_else(toy: Paper, tmp_path: Path) -> None:
    _, found = reproduce("toy", ("1",), out=tmp_path)
    assert found == {
        "paper": "toy",
        "figures": [
            {
                "id": "fig1",
                "title": "Squares <of> numbers",
                "rows": [{"n": 1, "n²": 1}, {"n": 2, "n²": 4}],
                "values": [
                    {"name": "largest", "unit": "", "paper": 9.0, "ours": 4, "ci95": [1.0, 2.0], "runs": 3}
                ],
                "notes": "One.\n\nTwo.",
            }
        ],
    }
    assert json.loads((tmp_path / "results.json").read_text()) == found


def test_the_page_shows_everything_and_needs_nothing_from_elsewhere(toy: Paper, tmp_path: Path) -> None:
    reproduce("toy", quick=True, out=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg ") == 6
    assert "Squares &lt;of&gt; numbers" in page
    assert "Quick: fewer seeds and shorter horizons" in page
    for outside in ("src=", "@import", "<link", "<script", 'href="http'):
        assert outside not in page


def test_json_is_one_document_on_standard_output_and_writes_nothing(
    toy: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = call("toy", "fig2", "--json", "--workers", "1")
    assert found.exit_code == 0
    assert [one["id"] for one in json.loads(found.stdout)["figures"]] == ["fig2"]
    assert not list(tmp_path.iterdir())


def test_without_json_there_are_tables_and_a_report(
    toy: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = call("toy", "--workers", "1", "--runs", "2")
    assert found.exit_code == 0
    assert "fig1: Squares <of> numbers" in found.stdout
    assert "report: spark-sched-reproduce/report.html" in found.stdout
    assert (tmp_path / "spark-sched-reproduce" / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        ((), "Seeds 1, 2, 3."),
        (("--runs", "2", "--first-seed", "51"), "Seeds 51, 52."),
        (("--quick", "--first-seed", "7"), "Seed 7."),
    ],
)
def test_the_report_says_which_seeds_were_run(
    toy: Paper, tmp_path: Path, options: tuple[str, ...], seeds: str
) -> None:
    assert call("toy", "--out", str(tmp_path), "--workers", "1", *options).exit_code == 0
    assert seeds in (tmp_path / "report.html").read_text()


def test_a_stop_leaves_no_report(toy: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = FigureSpec("fig1", "x", lambda scale: [run_of(fail, number=1)], toy.figures[0].make)
    monkeypatch.setattr(sys.modules["toy_paper"], "PAPER", Paper("toy", "A toy", (stopped,)))
    found = call("toy", "--out", str(tmp_path), "--workers", "1")
    assert found.exit_code == 130
    assert "interrupted, finished runs are kept" in found.stderr
    assert not list(tmp_path.glob("*.html")) + list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("paper", registry.PAPERS)
def test_help_names_every_figure(paper: str) -> None:
    words = CliRunner().invoke(app, ["reproduce", "--help"]).output.split()
    assert paper in words
    assert {figure.id for figure in registry.load(paper).figures} <= set(words)


def test_values_have_names_and_a_headline_for_people():
    assert words("mean_reduction_n_20_alpha_1_6") == "mean reduction n 20 alpha 1.6"
    values = (
        Value("near", "%", 50.0, 45.0),
        Value("far", "%", 50.0, 5.0),
        Value("bound", "%", 50.0, 50.0, text="over 50 %"),
        Value("ours alone", "", None, 1.0),
    )
    assert headline([Figure((), values, "")]) == (
        "1 of 2 values that the paper states are reproduced within 20%."
    )
    assert headline([]) == ""
