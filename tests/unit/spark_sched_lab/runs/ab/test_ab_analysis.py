"""Verdicts of A/B tests on runs whose truth is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.reports.machine import basis
from spark_sched_lab.runs.ab.analysis import (
    blocks_for_a_winner,
    build_document,
    narrow_enough,
    order_agreement,
    whole_blocks,
)
from spark_sched_lab.runs.ab.command import tell_if_too_short
from spark_sched_lab.runs.ab.cost import add_command, cost_of
from spark_sched_lab.runs.ab.page import render_report, table
from spark_sched_lab.runs.ab.run import run_blocks
from spark_sched_lab.runs.ab.schedule import block_runs
from spark_sched_lab.runs.ab.store import Record, open_store
from spark_sched_lab.runs.ab.suite import ALONE, parse_suite

LEVELS = (0.0, 0.5, 1.0)


def suite(blocks=16, looks=1, precision=0.1, background=True):
    arms = "".join(f'[[arm]]\nname = "P = {p}"\nisolation = {p}\n' for p in LEVELS)
    return parse_suite(
        f"[runs]\nblocks = {blocks}\nlooks = {looks}\nprecision = {precision}\n"
        + "[background]\n" * background
        + '[[workload]]\nname = "kmeans"\n[[workload]]\nname = "svm"\n'
        '[[arm]]\nname = "stock"\nscheduler = "fair"\n' + arms,
        "suite.toml",
        "levels",
    )


class Known:
    """Runs with known effects of the settings and noise, on a machine that drifts from block to block."""

    def __init__(self, effects=None, noise=0.05, seed=0):
        self._effects = {ALONE: 0.5, "P = 0.0": 0.95, "P = 0.5": 0.65, "P = 1.0": 0.6} | (effects or {})
        self._noise = noise
        self._rng = np.random.default_rng(seed)

    def run(self, key):
        slow = (1.0 + key.block) * (2.0 if key.workload == "svm" else 1.0)
        factor = self._effects.get(key.setting, 1.0) * float(np.exp(self._noise * self._rng.normal()))
        jct_s = 10.0 * slow * factor
        idle = {"P = 0.5": 0.02, "P = 1.0": 0.10}.get(key.setting, 0.0) * 16 * jct_s
        return Record(
            key.block,
            key.workload,
            key.setting,
            1,
            jct_s,
            held_idle_slot_s=idle,
            background_jct_s=None if key.setting == ALONE else 5.0 * slow,
            values=(float(key.block),),
        )


def records_of(plan, runner, blocks=None):
    return {key: runner.run(key) for b in range(blocks or plan.runs.blocks) for key in block_runs(plan, b)}


def document_of(plan, runner, blocks=None):
    return build_document(plan, records_of(plan, runner, blocks), basis() | {"on": "a test"})


def row_of(document, arm, workload=None):
    return next(r for r in document["rows"] if (r["arm"], r["workload"]) == (arm, workload))


@pytest.mark.parametrize("blocks", range(1, 8))
def test_a_test_with_too_few_blocks_says_how_many_more_name_a_winner(blocks):
    plan = suite(looks=4)
    verdict = document_of(plan, Known(noise=0.001), blocks)["verdict"]
    least = blocks_for_a_winner(plan)
    assert least == 8  # four looks and three arms: an interval at 1 - 0.05 / 12
    assert verdict["kind"] == "too_few"
    assert verdict["blocks_needed"] == least
    assert f"least {least - blocks} more block" in verdict["text"]
    assert document_of(plan, Known(noise=0.001), least)["verdict"]["kind"] == "winner"


def test_a_suite_that_can_name_no_winner_says_so_at_the_start():
    told = []
    tell_if_too_short(suite(blocks=7, looks=1), told.append)
    assert told == []
    tell_if_too_short(suite(blocks=5, looks=1), told.append)
    assert told == ["runs.blocks is 5, but no winner can be named before block 6: raise it if you want one"]


def test_the_winner_is_named_with_those_that_are_not_distinguishable():
    found = document_of(suite(), Known({"P = 0.5": 0.601}))
    verdict = found["verdict"]
    assert verdict["kind"] == "winner"
    assert {verdict["winner"], *verdict["equal_to_winner"]} == {"P = 0.5", "P = 1.0"}
    assert verdict["null"]["low"] < 1.0 < verdict["null"]["high"]
    assert found["monotone"] is True
    assert row_of(found, "P = 1.0")["jct_ratio"]["mean"] == pytest.approx(0.6, rel=0.05)
    assert row_of(found, "P = 1.0")["slowdown"]["mean"] == pytest.approx(1.2, rel=0.05)
    assert row_of(found, "P = 1.0", "svm")["utilization_loss"]["mean"] == pytest.approx(0.10)
    assert row_of(found, "P = 0.0")["background_jct_ratio"]["mean"] == pytest.approx(1.0)
    assert row_of(found, "P = 1.0")["jct_ratio"]["effect"] < -5


def test_the_recommended_level_keeps_fewest_slots_idle_among_those_almost_as_fast():
    found = document_of(suite(), Known({"P = 0.5": 0.62}))
    assert (found["recommended"]["isolation"], found["recommended"]["fastest"]) == (0.5, "P = 1.0")
    # 25 % slower is more than the suite's 10 %.
    assert document_of(suite(), Known({"P = 0.5": 0.75}))["recommended"]["isolation"] == 1.0


def test_without_evidence_for_a_lower_level_the_fastest_is_recommended():
    found = document_of(suite(blocks=8), Known({"P = 0.5": 0.63}, noise=0.3, seed=1))
    assert found["recommended"]["arm"] == found["recommended"]["fastest"]


def test_interference_names_no_winner_and_recommends_nothing():
    found = document_of(suite(), Known({"stock (again)": 1.2}))
    assert found["verdict"]["kind"] == "interference"
    assert "The null arm differs" in found["verdict"]["text"]
    assert found["verdict"]["winner"] is None
    assert found["recommended"] is None


def test_equal_arms_have_no_winner_and_the_missing_blocks_are_said():
    same = dict.fromkeys(["P = 0.0", "P = 0.5", "P = 1.0"], 1.0)
    found = document_of(suite(blocks=12), Known(same, noise=0.3, seed=2))
    assert found["verdict"]["kind"] == "no_difference"
    assert found["verdict"]["blocks_needed"] > 12
    assert "more blocks" in found["verdict"]["text"]


def test_a_baseline_that_is_faster_than_all_wins():
    worse = dict.fromkeys(["P = 0.0", "P = 0.5", "P = 1.0"], 1.4)
    assert document_of(suite(), Known(worse))["verdict"]["winner"] == "stock"


def test_a_curve_that_rises_with_isolation_is_not_monotone():
    found = document_of(suite(), Known({"P = 0.0": 0.5, "P = 1.0": 0.9}))
    assert found["monotone"] is False
    assert (found["monotone_jct"], found["monotone_idle"]) == (False, True)
    said = "The curve over P is not monotone: a higher P is shown to be slower than a lower one."
    assert said in render_report(found)


def test_a_curve_on_which_a_higher_isolation_keeps_fewer_slots_idle_is_not_monotone():
    class LessIdle(Known):
        def run(self, key):
            run = super().run(key)
            return replace(run, held_idle_slot_s=0.01 * 16 * run.jct_s) if key.setting == "P = 1.0" else run

    found = document_of(suite(), LessIdle())
    assert (found["monotone"], found["monotone_jct"], found["monotone_idle"]) == (False, True, False)
    assert "not monotone: a higher P is shown to keep fewer slots idle." in render_report(found)


def test_copies_have_intervals_per_run():
    class Copying(Known):
        def run(self, key):
            won = int(self._rng.integers(0, 3)) if key.setting == "P = 1.0" else 0
            return replace(
                super().run(key), copies_launched=2 * won, copies_won=won, copies_wasted_s=0.5 * won
            )

    found = document_of(suite(), Copying())
    copies = row_of(found, "P = 1.0")["copies"]
    won = copies["won_per_run"]
    assert won["mean"] == pytest.approx(copies["won"] / 32)  # 16 blocks of two workloads
    assert won["low"] < won["mean"] < won["high"]
    assert copies["wasted_s_per_run"]["mean"] == pytest.approx(0.5 * won["mean"])
    assert f"{won['mean']:.1f} ({won['low']:.1f} – {won['high']:.1f}) won, " in render_report(found)
    assert row_of(found, "stock")["copies"]["won_per_run"]["high"] == 0.0


def test_few_blocks_give_means_and_no_winner():
    found = document_of(suite(), Known(), blocks=2)
    assert (found["blocks"], found["verdict"]["kind"]) == (2, "too_few")
    assert row_of(found, "P = 1.0")["jct_ratio"]["low"] is None
    assert found["recommended"] is None
    assert "too few" in render_report(found)
    assert found["monotone"] is None


def test_only_whole_blocks_count():
    plan = suite()
    records = records_of(plan, Known(), 3)
    records.pop(block_runs(plan, 1)[4])
    assert whole_blocks(plan, records) == 1
    found = build_document(plan, records, basis() | {"on": "a test"})
    assert (found["blocks"], found["runs"], found["runs_stored"]) == (1, 12, 35)
    nothing = build_document(plan, {}, basis() | {"on": "a test"})
    assert nothing["verdict"]["kind"] == "no_runs"
    assert "No block is complete" in render_report(nothing)


def test_different_results_are_seen():
    plan = suite(blocks=1)
    records = records_of(plan, Known())
    assert build_document(plan, records, {})["results_equal"] is True
    key = block_runs(plan, 0)[3]
    records[key] = replace(records[key], values=(3.0,))
    assert build_document(plan, records, {})["results_equal"] is False


@pytest.mark.parametrize(
    ("noise", "ends"),
    [
        pytest.param(0.02, 9, id="little noise: at the first look"),
        pytest.param(0.6, 36, id="much noise: at the end"),
    ],
)
def test_a_test_stops_at_the_first_look_with_narrow_intervals(tmp_path, noise, ends):
    plan = parse_suite(suite(blocks=36, looks=3).text.replace("looks", "first_look = 9\nlooks"), "suite.toml")
    with open_store(tmp_path, plan, {"on": "a test"}) as store:
        runner = Known(noise=noise)
        assert run_blocks(plan, store, lambda: runner, lambda *_: None) == ends
        assert len(store.records) == ends * 12
        # Another start neither runs more nor comes to another end.
        assert run_blocks(plan, store, lambda: pytest.fail("nothing is missing"), lambda *_: None) == ends
        assert narrow_enough(plan, store.records, ends) == (ends == 9)


def test_a_test_does_not_stop_before_a_winner_could_be_named():
    plan = parse_suite(suite(blocks=36, looks=3).text.replace("looks", "first_look = 5\nlooks"), "suite.toml")
    assert not narrow_enough(plan, records_of(plan, Known(noise=0.001), 5), 5)


def test_the_page_has_a_forest_and_a_trade_off_for_each_workload_and_all_together():
    found = document_of(suite(), Known())
    page = render_report(json.loads(json.dumps(found)))
    assert page.count("<svg ") == 2 * 3
    for word in (
        "P = 0.5",
        "stock (again)",
        "isolation level P",
        "slots kept idle",
        "kmeans",
        "wild bootstrap",
        "monotone within its intervals",
    ):
        assert word in page
    assert {len(row) for row in table(found)} == {8}


def test_the_page_says_what_a_rented_cluster_cost_per_arm_and_that_the_rest_adds_up(tmp_path):
    plan = suite(blocks=2)
    runs = records_of(plan, Known(noise=0.0))
    add_command(tmp_path, 3.6, 1000.0, {"master": 1, "worker": 2})  # 0.001 dollars per second
    page = render_report(document_of(plan, Known(noise=0.0)) | {"cost": cost_of(tmp_path, runs)})
    # Blocks 1 and 2, kmeans and svm: 10 s x (1 + 2) x (1 + 2) under the baseline.
    assert "<tr><td>stock</td><td>0.025</td><td>0.0900</td></tr>" in page
    assert "<tr><td>all</td><td>0.278</td><td>1.0000</td></tr>" in page
    assert "1.00 dollars at 3.6000 per hour (1 master, 2 worker)." in page
    assert "<h2>Cost</h2>" not in render_report(document_of(plan, Known()))


def test_without_a_background_there_is_no_slowdown_and_the_trade_off_shows_ratios():
    found = document_of(suite(background=False), Known())
    assert ALONE not in {row["arm"] for row in found["rows"]}
    assert row_of(found, "P = 1.0")["slowdown"] is None
    assert "JCT / baseline" in render_report(found)


def test_the_same_runs_give_the_same_document():
    assert document_of(suite(), Known()) == document_of(suite(), Known())


def test_orders_of_arms_agree_as_kendalls_tau_says():
    first = document_of(suite(), Known())
    assert order_agreement(first, document_of(suite(), Known(seed=3))) == pytest.approx(1.0)
    turned = document_of(suite(), Known({"P = 0.0": 0.6, "P = 1.0": 0.95}))
    # Of the six pairs of four arms, three are in the other order.
    assert order_agreement(first, turned) == pytest.approx(0.0)
    other = document_of(suite(blocks=16), Known()) | {"rows": []}
    with pytest.raises(BadInputError, match="cannot be compared"):
        order_agreement(first, other)
