"""Figures of the thesis' chapters 3 and 4: small runs, and every figure made of results that are given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.papers.runs import RunSpec, Scale
from benchmarks.papers.thesis import PAPER, chapter_3, chapter_4
from benchmarks.papers.thesis.energy_runs import chapter_4 as gems_run
from benchmarks.papers.thesis.energy_runs import large, small

FIGURES = {figure.id: figure for figure in (*chapter_3.FIGURES, *chapter_4.FIGURES)}


def made_up(run: RunSpec) -> dict[str, Any]:
    """Results of which ratios are known: GEMS takes 0.8 and BEPS 0.6 of the others' energy."""
    told = json.loads(run.arguments)
    least = told.get("variant") == "gems" or told.get("scheduler") == "BEPS-memory"
    energy = {"gems": 0.8, "BEPS-memory": 0.6}[told.get("variant") or told["scheduler"]] if least else 1.0
    counts = dict.fromkeys(("span_s", "tasks", "wakes", "queued", "unconnected", "most_on_servers"), 1.0)
    means = dict.fromkeys(("wait_s", "response_s", "held_load", "cpu_use", "memory_use"), 0.5)
    return {
        **counts, **means, "total_kwh": energy, "server_kwh": energy, "network_kwh": energy,
        "always_on_kwh": 1.0, "on_servers": 500.0, "on_switches": 20.0, "most_on_switches": 30.0,
        "slots": 10, "proven": 9, "gap": 0.01, "beps": 1.02, "series": [[0, 1], [150, 9], [300, 2]],
    }  # fmt: skip


@pytest.mark.parametrize("identity", FIGURES)
@pytest.mark.parametrize("quick", [True, False])
def test_a_figure_sets_its_values_beside_the_thesis(identity: str, quick: bool) -> None:
    scale = Scale(quick, (1, 2, 3))
    spec = FIGURES[identity]
    figure = spec.build(scale, {run: made_up(run) for run in spec.runs(scale)})
    assert figure.rows
    assert figure.notes
    names = [value.name for value in figure.values]
    assert len(names) == len(set(names))
    assert all(value.ours is not None for value in figure.values)
    ours = {value.name: value.ours for value in figure.values}
    texts = {str(row["value"]): row["thesis"] for row in figure.rows if "thesis" in row}
    if identity in ("fig3.5", "fig3.6"):
        base = "mtec" if identity == "fig3.5" else "rrs"
        assert texts[f"beps_memory_batch_over_{base}"] == "our variant, not in the thesis"
    if identity == "fig3.5":
        assert texts["beps_memory_over_mtec"] == "very close to 1"
        assert ours["beps_memory_over_mtec_in_the_same_slots"] == pytest.approx(1.02)
    if identity == "fig3.6":
        assert ours["beps_memory_over_rrs"] == pytest.approx(0.6)
        assert ours["saving_over_always_on"] == pytest.approx(40.0)
        assert ours["servers_asleep"] == pytest.approx(60.0)
        assert ours["load_held"] == pytest.approx(50.0)
    if identity in ("table4.2", "fig4.2"):
        assert ours["e_total_saving_against_noSleep_4h"] == pytest.approx(20.0)
        told = {value.name: value.paper for value in figure.values}
        # 1 - 806/1258 and 1 - 128/198 of table 4.2.
        assert told["e_total_saving_against_noSleep_4h"] == 35.9
        assert told["t_response_saving_against_noSleep_4h"] == 35.4
    if identity == "fig4.3":
        assert ours["burst_to_peak_gems"] == 30.0


def test_the_paper_has_these_figures() -> None:
    assert set(FIGURES) <= {figure.id for figure in PAPER.figures}


def test_runs_are_repeatable_and_paired() -> None:
    found = [small(3, 240, "BEPS-memory"), small(3, 240, "BEPS-memory"), small(3, 240, "RRS")]
    assert found[0] == found[1]
    assert found[0]["tasks"] == found[2]["tasks"]
    assert found[0]["total_kwh"] < found[2]["total_kwh"]
    planned = small(3, 240, "MTEC", 2.0)
    assert planned["slots"] > 0
    assert 0.0 <= planned["gap"] < 1.0
    assert 1.0 <= planned["beps"] < 2.0
    warm = large(3, 60, "BEPS-memory", 60)
    assert warm["span_s"] == 60.0
    assert warm["always_on_kwh"] > warm["total_kwh"]
    assert large(3, 60, "BEPS-memory", 60, load=0.15)["held_load"] < warm["held_load"]


def test_a_run_without_tasks_has_no_gap() -> None:
    found = small(1, 60, "MTEC")
    assert (found["slots"], found["gap"]) == (0, 0.0)


def test_a_snapshot_is_ten_minutes_of_servers() -> None:
    series = gems_run(3, 120, "gems", "shared", 60)["series"]
    assert [at for at, _ in series] == list(range(0, 600, 5))
    assert max(on for _, on in series) > 0
