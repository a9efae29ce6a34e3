"""The figures in the documentation are those that were measured, and the cheap ones are measured again."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import figures
import numpy as np
import pytest

from benchmarks.papers.runs import Scale
from benchmarks.papers.slot_reservation import fair_pools, numeric, testbeds
from benchmarks.papers.slot_reservation.deadlines import _RULES, _TIMES, stages_under
from benchmarks.papers.thesis.evictions.offline_optimum import small_instances
from spark_sched.policies.eviction import named_rule
from spark_sched_lab.energy.topology import Topology, types_by_ratio
from spark_sched_lab.evictions import simulate_priorities, thesis_servers
from spark_sched_lab.evictions.workloads import workload
from spark_sched_lab.whatif import Question, answer, read_log

ROOT = Path(__file__).parents[2]
REPRODUCE = "docs/results/reproduce.md"


def drawn_stages_that_reach_the_barrier() -> Iterator[str]:
    shares = [
        numeric._checked_stages(tasks=tasks, alpha=1.6, isolation=0.9, stages=20_000, seed=1)["effective"]
        for tasks in (20, 200)
    ]
    yield "reservations that hold at P = 0.9, N = 20; 200 | | {:.3f}; {:.3f};".format(*shares)


def both_forms_of_equation_3() -> Iterator[str]:
    integral, closed = numeric._equation_3_integral(7.0, 1.6), numeric._equation_3_closed_form(7.0, 1.6)
    yield f"printed integral; closed form | printed as equal | {integral:.3f}; {closed:.3f} |"


def copies_by_the_papers_formula() -> Iterator[str]:
    for tasks, row in ((20, "N = 20: formula; event simulation"), (200, "the same, N = 200")):
        found = numeric._formula(tasks=tasks, alpha=1.6, runs=10_000, seed=1)
        yield f"{row} | “over 50 %” | {found['mean']:.3f} ({found['low']:.3f} to {found['high']:.3f});"


def a_job_in_a_fair_pool() -> Iterator[str]:
    seeds = [100 * seed + draw for seed in (1, 2, 3) for draw in range(10)]
    alone, stock, held = (
        [fair_pools.under_fair(width=4, seed=seed, arm=arm) for seed in seeds]
        for arm in ("alone", "stock", "reservation")
    )
    jct = [np.array([run["jct_ms"]["job-1"] for run in arm]) for arm in (alone, stock, held)]
    shares = [100.0 * np.mean([run["share"] for run in arm]) for arm in (stock, held)]
    yield (
        f"the paper's case | {np.mean(jct[1] / jct[0]):.2f} → {np.mean(jct[2] / jct[0]):.2f} | "
        "{:.0f} → {:.0f} % | ".format(*shares)
        + f"{np.mean(jct[2] / jct[1]):.2f} ("
    )


def kmeans_beside_svm() -> Iterator[str]:
    seeds = testbeds._seeds(Scale(quick=False, seeds=(1, 2)))
    slowdowns = [
        np.mean(
            [
                testbeds._two(seed, "priority", pace)()["kmeans"]
                / testbeds._two(seed, None, pace)()["kmeans"]
                for seed in seeds
            ]
        )
        for pace in testbeds._PACES
    ]
    yield f"| “3.9 × slowdown” | {'; '.join(f'{slowdown:.2f}' for slowdown in slowdowns)} |"


def running_tasks_of_kmeans() -> Iterator[str]:
    runs = [np.array(run()["running"][:-1]) for run in testbeds._runs_5(Scale(quick=False, seeds=(1, 2)))]
    yield "alone; without; with reservation | plot only | {:.1f}; {:.1f}; {:.1f} |".format(
        *map(np.mean, runs)
    )
    full = [100.0 * np.mean(run == 20) for run in runs]
    yield "with all 20 tasks running | plot only | {:.0f} %; {:.0f} %; {:.0f} % |".format(*full)


def isolation_of_fixed_deadlines() -> Iterator[str]:
    seeds = range(1_000, 1_020)
    found = [stages_under(times=times, settings=_RULES["fixed, 3s"], seeds=seeds) for times in _TIMES[:2]]
    cells = [f"{each['attained']:.2f} ({each['held_idle']:.2f})" for each in found]
    yield f"| fixed, 3s | {' | '.join(cells)} |"


def deadlines_missed_in_the_simulator() -> Iterator[str]:
    live = benchmark("three_sigma_live")
    kinds = live.recurring(np.random.default_rng(0))
    runs = [live.one_run(kinds, 10.0, np.random.default_rng([0, run])) for run in range(14)]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        live.write_history(history := Path(folder) / "history.db", kinds, 1, np.random.default_rng(0))
        for arm in ("fifo", "fair"):
            missed.append(10.0 * np.mean([live.simulated_missed(jobs, arm, 8, history) for jobs in runs]))
    yield "simulator, which may be preempted: FIFO {:.1f} % (80 to 90), FAIR {:.1f} (".format(*missed)


def deadlines_of_first_stages() -> Iterator[str]:
    first = benchmark("first_stages")
    shares = [first.first_stages("Pareto 1.6", level, 1_000, 0, 20)["attained"] for level in (0.4, 0.9)]
    yield "attained at P = 0.4 and 0.9: {:.2f} and {:.2f} in new applications".format(*shares)


@functools.cache
def replayed(log: Path) -> dict[str, Any]:
    return answer(read_log(log), Question())


def replays_of_the_recorded_logs() -> Iterator[str]:
    near = 0
    logs = sorted((ROOT / "tests/replay/logs").glob("*.zstd"))
    for log in logs:
        scheduler, _, seed = log.stem.rpartition("-")
        name = {"stock-fifo": "stock FIFO", "stock-fair": "stock FAIR", "reserved": "`reservation`"}[
            scheduler
        ]
        found = replayed(log)["replay"]
        near += round(found["within_10_percent"] * found["jobs"])
        yield (
            f"| {name} | {seed} | {found['jobs']} | {100 * found['within_10_percent']:.0f} % | "
            f"{100 * found['within_5_percent']:.0f} % | {100 * found['median_error']:.1f} % | "
            f"{100 * found['worst']['error']:.1f} % |"
        )
    yield f"| together | | {17 * len(logs)} | {100 * near / (17 * len(logs)):.0f} % |"


def share_of_recorded_jobs_near() -> Iterator[str]:
    *_, together = replays_of_the_recorded_logs()
    jobs, percent = re.findall(r"\d+(?: %)?", together)
    yield f"| **{percent}** of {jobs} |"


def slots_held_in_replays() -> Iterator[str]:
    arms = [replayed(ROOT / f"tests/replay/logs/reserved-{seed}.zstd")["arms"][0] for seed in (1, 2)]
    held = [f"{arm['held_idle_slot_s']:.1f} of" for arm in arms]
    yield f"is reproduced, too: {held[0]} 81.0 slot-seconds for seed 1, and {held[1]} 37.6 for seed 2"


def ends_forecast_in_recorded_runs() -> Iterator[str]:
    eta = benchmark("eta")
    eta.recorded(scores := eta.Scores(), sorted((ROOT / "tests/replay/logs").glob("*.zstd")))
    for moment, row in (
        ("submission", "at submission, while the job waits"),
        ("first task", "at the first task"),
        ("random moment", "the latest one at a random moment of the job's life"),
    ):
        corrected, plain = (
            eta.coverage(scores.below[arm, "recorded", moment]) for arm in ("corrected", "uncorrected")
        )
        inside = f"{100 * corrected['inside']:.1f} % ({100 * plain['inside']:.1f})"
        yield f"| {row} | {inside} of {corrected['forecasts']} |"


def evictions_of_most_and_least_recent_tasks() -> Iterator[str]:
    tasks, servers = workload("W-A-generated", 1), thesis_servers("SC2", memory=False)
    mrs, lrs = (
        simulate_priorities(tasks, servers, named_rule(rule), seed=1).summary() for rule in ("mrs", "lrs")
    )
    lower = [100.0 * (1.0 - mrs[name] / lrs[name]) for name in ("WE", "V")]
    yield (
        f"| `W-A-generated`, 1 | {lower[0]:.0f} % | {lower[1]:.1f} % | {mrs['NE']:,}; {lrs['NE']:,} | "
        f"{mrs['max_evictions']}; {lrs['max_evictions']} |"
    )


def rules_beside_the_optimum() -> Iterator[str]:
    runs = [small_instances(seed, 5) for seed in range(1, 6)]
    for rule, row in (("mrs", "| `mrs`, `mrs5-keep`"), ("priced", "| `priced`"), ("lrs", "| `lrs`")):
        ratios = np.concatenate([run[rule] for run in runs])
        yield f"{row} | {ratios.mean():.3f} ("
        yield f"| {ratios.max():.2f} | {100 * np.mean(ratios < 1 + 1e-9):.0f} % |"


def paths_of_data_centres() -> Iterator[str]:
    topologies = [
        Topology(8, 16, max(4, servers * 512 // 1250), types_by_ratio(servers))
        for servers in (125, 1_250, 12_500)
    ]
    small, large, largest = (topology.paths for topology in topologies)
    yield f"its {small / 1e6:.1f} million, {large / 1e6:.0f} million and {largest / 1e9:.1f} billion paths"


def benchmark(name: str):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


#: Each computes values of a figure as its command does, and yields them as its page shows them.
CHECKS: dict[Callable[[], Iterator[str]], str] = {
    drawn_stages_that_reach_the_barrier: REPRODUCE,
    both_forms_of_equation_3: REPRODUCE,
    copies_by_the_papers_formula: REPRODUCE,
    a_job_in_a_fair_pool: REPRODUCE,
    kmeans_beside_svm: REPRODUCE,
    running_tasks_of_kmeans: REPRODUCE,
    isolation_of_fixed_deadlines: REPRODUCE,
    deadlines_missed_in_the_simulator: "benchmarks/README.md",
    deadlines_of_first_stages: "benchmarks/README.md",
    replays_of_the_recorded_logs: "docs/results/whatif.md",
    share_of_recorded_jobs_near: "README.md",
    slots_held_in_replays: "docs/results/whatif.md",
    ends_forecast_in_recorded_runs: "docs/results/prediction.md",
    evictions_of_most_and_least_recent_tasks: "docs/results/evictions.md",
    rules_beside_the_optimum: "docs/results/evictions.md",
    paths_of_data_centres: "docs/results/energy.md",
}


def one_line(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


def contradicted(check: Callable[[], Iterator[str]], root: Path) -> list[str]:
    """One sentence for each recomputed value that the page does not show."""
    records, _ = figures.recorded(root)
    page = root / CHECKS[check]
    dated = {record.date for record in records.values() if record.page == CHECKS[check]}
    return [
        f"{CHECKS[check]} (measured {min(dated)} to {max(dated)}) has no “{value}” ({check.__name__})"
        for value in check()
        if value not in one_line(page)
    ]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The pages with figures, and their records."""
    for path in [*figures.pages(ROOT), ROOT / figures.RECORDS]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def replace_in(page: Path, old: str, new: str) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(old) == 1
    page.write_text(text.replace(old, new), encoding="utf-8")


def test_every_figure_is_the_one_that_was_recorded_with_its_date() -> None:
    assert figures.differences(ROOT) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_cheap_figure_is_what_its_command_still_gives(check) -> None:
    assert contradicted(check, ROOT) == []


def test_every_figure_has_a_command_whose_inputs_exist() -> None:
    records, inputs = figures.recorded(ROOT)
    assert [
        str(record) for record in records.values() if not (record.command and record.date and record.version)
    ] == []
    commands = {record.command for record in records.values()} - {figures.NONE}
    assert [command for command in sorted(commands) if not figures.inputs_of(command, inputs)] == []
    assert [path for paths in inputs.values() for path in paths if not (ROOT / path).exists()] == []


def test_the_page_of_dates_is_what_the_records_generate() -> None:
    page = (ROOT / figures.DATES).read_text(encoding="utf-8")
    assert page == figures.dates_page(ROOT), f"{figures.DATES} is out of date: run `{figures.REGENERATE}`"


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in figures.pages(ROOT)])
def test_a_value_that_is_changed_by_hand_is_seen(copied, page) -> None:
    text = (copied / page).read_text(encoding="utf-8")
    *_, last = re.finditer(r"^\|.* [\d.,]*\d(?= \|)", text, re.MULTILINE)
    changed = str((int(text[last.end() - 1]) + 1) % 10)
    (copied / page).write_text(text[: last.end() - 1] + changed + text[last.end() :], encoding="utf-8")
    [sentence] = figures.differences(copied)
    [record] = [each for each in figures.recorded(copied)[0].values() if sentence.startswith(str(each))]
    assert f"has other numbers than those of {record.date} (version {record.version}" in sentence
    assert (record.page, record.command in sentence) == (page, True)


def test_each_record_that_is_changed_by_hand_is_seen(copied) -> None:
    path = copied / figures.RECORDS
    text = path.read_text(encoding="utf-8")
    records, _ = figures.recorded(copied)
    path.write_text(re.sub(r'numbers = "\w+"', 'numbers = "0000000000"', text), encoding="utf-8")
    assert [sentence.partition(" has other numbers")[0] for sentence in figures.differences(copied)] == [
        str(record) for record in records.values()
    ]


def test_a_cheap_value_that_is_changed_on_its_page_and_recorded_is_seen(copied) -> None:
    replace_in(copied / REPRODUCE, "printed as equal | 0.262; 0.307 |", "printed as equal | 0.252; 0.307 |")
    [sentence] = contradicted(both_forms_of_equation_3, copied)
    assert sentence.startswith(REPRODUCE)
    assert "0.262; 0.307" in sentence


def test_a_date_that_is_changed_by_hand_is_seen(copied) -> None:
    page = copied / "benchmarks/README.md"
    text = re.sub(r"\(\d{4}-\d\d-\d\d\)", "(2001-02-03)", page.read_text(encoding="utf-8"), count=1)
    page.write_text(text, encoding="utf-8")
    [sentence] = figures.differences(copied)
    assert "states 2001-02-03, and 2" in sentence


def test_a_new_figure_needs_a_record_and_a_removed_one_has_none(copied) -> None:
    page = copied / "docs/results/ab.md"
    page.write_text(
        page.read_text("utf-8") + "\n## New\n\n`spark-sched demo` takes 17 s.\n", encoding="utf-8"
    )
    [sentence] = figures.differences(copied)
    assert sentence.startswith("docs/results/ab.md, “New”: `spark-sched demo` has no date and version")
    (copied / "docs/results/simulator.md").unlink()
    gone = [each for each in figures.differences(copied) if "is no longer on its page" in each]
    assert len(gone) == 7


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_figure_has_the_date_and_version_of_the_commit_that_brought_its_numbers(copied) -> None:
    def git(*arguments: str, at: str = "2030-01-01") -> str:
        environment = {
            **os.environ,
            "GIT_AUTHOR_DATE": f"{at}T00:00:00Z",
            "GIT_COMMITTER_DATE": f"{at}T00:00:00Z",
        }
        own = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *own, *arguments], cwd=copied, env=environment, check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    page = copied / "docs/results/ab.md"
    page.write_text(
        "# Here\n\n`spark-sched demo` takes 17 s.\n\n## There\n\nIt takes 5 s\nand 6 s.\n", "utf-8"
    )
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    first = git("rev-parse", "HEAD")
    assert figures.changed_since(copied, first, ["docs"]) is False
    figures.record(copied)
    before, _ = figures.recorded(copied)
    replace_in(page, "5 s", "4 s")
    git("commit", "-q", "-a", "-m", "second", at="2030-02-02")
    second = git("rev-parse", "HEAD")
    replace_in(page, "4 s\nand", "4 s and")
    git("commit", "-q", "-a", "-m", "third", at="2030-03-03")

    figures.record(copied)
    after, _ = figures.recorded(copied)
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {("docs/results/ab.md", "There")}
    [figure] = (after[key] for key in changed)
    assert (figure.date, figure.version) == ("2030-02-02", second[:8])
    assert figures.differences(copied) == []
    assert figures.changed_since(copied, first, ["docs"]) is True
    assert figures.changed_since(copied, first, ["README.md"]) is False
    assert figures.changed_since(copied, "0" * 8, ["docs"]) is None
