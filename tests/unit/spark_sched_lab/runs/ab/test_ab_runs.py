"""A/B tests without Spark: which runs there are, how they are stored, and how a test continues."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.ab.command import report
from spark_sched_lab.runs.ab.run import run_blocks
from spark_sched_lab.runs.ab.schedule import RunKey, block_runs, run_seed
from spark_sched_lab.runs.ab.simulated import SimulatedRunner
from spark_sched_lab.runs.ab.store import BASIS_FILE, RUNS_FILE, Record, open_store, read_results
from spark_sched_lab.runs.ab.suite import parse_suite
from tests.integration.processes import until

TEXT = """
name = "small"
seed = 5
baseline = "stock"
[cluster]
workers = 1
slots = 4
[runs]
blocks = 4
looks = 1
[background]
source = "sleep"
jobs = 3
[[workload]]
name = "sleep"
sleepms = 100
stages = 2
tasks = 3
[[workload]]
name = "kmeans"
[[arm]]
name = "stock"
scheduler = "fair"
[[arm]]
name = "P = 1"
isolation = 1
"""
HERE = {"on": "a test"}
#: Runs the suite with runs that take a moment, up to one that never ends: in a process that is then killed.
SLOW_RUNS = """
import sys, time
from pathlib import Path
from tests.unit.spark_sched_lab.runs.ab.test_ab_runs import HERE, TEXT, Counting
from spark_sched_lab.runs.ab.run import run_blocks
from spark_sched_lab.runs.ab.store import open_store
from spark_sched_lab.runs.ab.suite import parse_suite

class Slow(Counting):
    def run(self, key):
        time.sleep(0.1 if len(self.ran) < 20 else 3600)
        return super().run(key)

suite = parse_suite(TEXT, "suite.toml")
with open_store(Path(sys.argv[1]), suite, HERE) as store:
    run_blocks(suite, store, Slow, lambda *_: None)
"""


class Counting:
    """A runner that remembers what it ran; ``limit`` runs at most, then it is interrupted."""

    def __init__(self, limit=1_000):
        self.ran = []
        self._limit = limit

    def run(self, key):
        if len(self.ran) == self._limit:
            raise KeyboardInterrupt
        self.ran.append(key)
        return Record(key.block, key.workload, key.setting, 0, jct_s=1.0 + len(key.setting), values=(1.0,))


def suite(text=TEXT):
    return parse_suite(text, "suite.toml")


def quiet(*_):
    pass


def all_keys():
    return [key for block in range(4) for key in block_runs(suite(), block)]


def test_a_block_has_every_workload_and_setting_once_in_random_order():
    small = suite()
    blocks = [block_runs(small, block) for block in range(20)]
    assert small.settings == ("alone", "stock", "P = 1", "stock (again)")
    for number, keys in enumerate(blocks):
        assert len(keys) == len(set(keys)) == 8
        assert {key.block for key in keys} == {number}
    orders = {tuple((key.workload, key.setting) for key in keys) for keys in blocks}
    assert len(orders) > 15
    assert blocks[7] == block_runs(small, 7)  # a restart finds the same order
    first = [keys[0].setting for keys in blocks]
    assert set(first) == set(small.settings)


def test_all_settings_of_a_block_and_workload_share_their_input_and_no_others():
    small = suite()
    seeds = {}
    for key in all_keys():
        seeds.setdefault((key.block, key.workload), set()).add(run_seed(small, key))
    assert all(len(found) == 1 for found in seeds.values())
    assert len({seed for found in seeds.values() for seed in found}) == len(seeds)


def test_an_interrupted_test_continues_without_loss_or_repetition(tmp_path):
    first, second, third = Counting(limit=11), Counting(), Counting()
    with pytest.raises(KeyboardInterrupt), open_store(tmp_path, suite(), HERE) as store:
        run_blocks(suite(), store, lambda: first, quiet)
    with open_store(tmp_path, suite(), HERE) as store:
        assert run_blocks(suite(), store, lambda: second, quiet) == 4
    assert first.ran + second.ran == all_keys()
    with open_store(tmp_path, suite(), HERE) as store:
        run_blocks(suite(), store, lambda: pytest.fail("nothing is missing"), quiet)
    assert third.ran == []


def test_a_killed_test_continues_without_loss_or_repetition(tmp_path):
    runs = tmp_path / "out" / RUNS_FILE
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_RUNS, str(tmp_path / "out")], cwd=Path(__file__).parents[5]
    )
    try:
        assert until(lambda: runs.exists() and runs.read_bytes().count(b"\n") >= 3)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = runs.read_bytes()
    done = before.count(b"\n")
    assert 3 <= done < 32
    rest = Counting()
    with open_store(tmp_path / "out", suite(), HERE) as store:
        run_blocks(suite(), store, lambda: rest, quiet)
    assert runs.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert rest.ran == all_keys()[done:]
    rows = [json.loads(line) for line in runs.read_text().splitlines()]
    assert [RunKey(row["block"], row["workload"], row["setting"]) for row in rows] == all_keys()


@pytest.mark.parametrize("torn", [b'{"block": 0, "wor', b"{", b"\xff\x00"], ids=["half", "a byte", "rubbish"])
def test_a_torn_last_line_is_cut_off_and_its_run_repeated(tmp_path, torn):
    with pytest.raises(KeyboardInterrupt), open_store(tmp_path, suite(), HERE) as store:
        run_blocks(suite(), store, lambda: Counting(limit=5), quiet)
    with (tmp_path / RUNS_FILE).open("ab") as file:
        file.write(torn)
    assert len(read_results(tmp_path)[2]) == 5  # a report may look at any time
    rest = Counting()
    with open_store(tmp_path, suite(), HERE) as store:
        run_blocks(suite(), store, lambda: rest, quiet)
    assert rest.ran == all_keys()[5:]
    assert len((tmp_path / RUNS_FILE).read_text().splitlines()) == 32


def test_a_wrong_line_in_the_middle_is_named(tmp_path):
    with pytest.raises(KeyboardInterrupt), open_store(tmp_path, suite(), HERE) as store:
        run_blocks(suite(), store, lambda: Counting(limit=3), quiet)
    lines = (tmp_path / RUNS_FILE).read_text().splitlines()
    (tmp_path / RUNS_FILE).write_text("\n".join([lines[0], "{}", lines[2]]) + "\n")
    with pytest.raises(BadInputError, match="line 2 of .*runs.jsonl"), open_store(tmp_path, suite(), HERE):
        pass


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jct_s", 0),
        ("jct_s", "x"),
        ("jct_s", float("nan")),
        ("block", "1"),
        ("copies_won", None),
        ("block", -1),
        ("seed", "q"),
        ("background_makespan_s", "x"),
        ("values", "abc"),
        ("values", [None]),
    ],
)
def test_a_run_that_no_report_could_count_is_named(tmp_path, field, value):
    with pytest.raises(KeyboardInterrupt), open_store(tmp_path, suite(), HERE) as store:
        run_blocks(suite(), store, lambda: Counting(limit=3), quiet)
    lines = (tmp_path / RUNS_FILE).read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | {field: value})
    (tmp_path / RUNS_FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInputError, match="line 2 of .*runs.jsonl"):
        read_results(tmp_path)
    lines[1] = "[" * 100_000
    (tmp_path / RUNS_FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInputError, match="line 2 of .*runs.jsonl"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000], ids=["nothing", "a list", "no keys", "too deep"]
)
def test_a_folder_that_does_not_say_where_its_runs_took_place_is_refused(tmp_path, text):
    with open_store(tmp_path, suite(), HERE):
        pass
    (tmp_path / BASIS_FILE).write_text(text)
    with pytest.raises(BadInputError, match=r"basis\.json' does not say where"):
        read_results(tmp_path)
    with pytest.raises(BadInputError, match="does not say where"), open_store(tmp_path, suite(), HERE):
        pass


def test_a_folder_whose_machine_is_not_known_yet_has_a_report(tmp_path):
    # As after the first command on EC2, if it was interrupted before the master had results.
    with open_store(tmp_path, suite(), HERE):
        pass
    assert report(tmp_path)["verdict"]["kind"] == "no_runs"
    assert "0 runs on a test." in (tmp_path / "report.html").read_text()


def test_a_folder_of_another_suite_or_another_place_is_refused(tmp_path):
    with open_store(tmp_path, suite(), HERE):
        pass
    other = suite(TEXT.replace("seed = 5", "seed = 6"))
    with pytest.raises(BadInputError, match="another suite"), open_store(tmp_path, other, HERE):
        pass
    place = {"on": "a cluster"}
    with pytest.raises(BadInputError, match="on a test, not on a"), open_store(tmp_path, suite(), place):
        pass


def test_a_folder_that_another_process_uses_is_refused(tmp_path):
    with (
        open_store(tmp_path, suite(), HERE),
        pytest.raises(BadInputError, match="another run uses"),
        open_store(tmp_path, suite(), HERE),
    ):
        pass


@pytest.mark.parametrize("name", [".lock", "runs.jsonl"])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path, name):
    with open_store(tmp_path, suite(), HERE):
        pass
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with (
        pytest.raises(BadInputError, match=r"cannot be written \(Is a directory\)"),
        open_store(tmp_path, suite(), HERE),
    ):
        pass


def test_a_folder_without_a_test_is_refused(tmp_path):
    with pytest.raises(BadInputError, match=r"has no suite\.toml"):
        read_results(tmp_path)


def test_the_simulator_gives_every_setting_the_same_work_and_isolation_its_effect():
    small = suite()
    runner = SimulatedRunner(small)
    done = {key: runner.run(key) for key in block_runs(small, 0)}
    for workload in ("sleep", "kmeans"):
        alone, stock, ours, again = (done[RunKey(0, workload, name)] for name in small.settings)
        assert alone.jct_s <= ours.jct_s < stock.jct_s
        assert again.jct_s == pytest.approx(stock.jct_s, rel=0.2)
        assert alone.background_jct_s is None
        assert ours.held_idle_slot_s > stock.held_idle_slot_s == 0.0
        assert runner.run(ours.key) == ours
