"""``--queues FILE`` of the commands that simulate, and its conflicts with a setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_sched.cli.common import with_queues
from spark_sched.config import keys
from spark_sched.errors import BadInputError
from spark_sched_lab.cli import simulate, whatif
from spark_sched_lab.cli.ab import _in_queues
from spark_sched_lab.runs.paired.arms import Arm

ROOT = Path(__file__).parents[4]
QUEUES = """
default = "all"
[queues.all]
ceiling = "25 %"
"""


@pytest.fixture
def queues(tmp_path: Path) -> Path:
    path = tmp_path / "queues.toml"
    path.write_text(QUEUES)
    return path


def test_whatif_replays_a_log_with_and_without_the_queues(queues: Path) -> None:
    log = ROOT / "tests" / "replay" / "logs" / "stock-fifo-1.zstd"
    ran = CliRunner().invoke(whatif.command, [str(log), "--queues", str(queues), "--json"])
    as_it_ran, with_queues_ = json.loads(ran.stdout)["logs"][0]["arms"]
    assert as_it_ran["queues"] == []
    (row,) = with_queues_["queues"]
    assert (row["queue"], row["ceiling_slots"], row["peak_slots"]) == ("all", 2, 2)
    assert with_queues_["jct_mean_s"] > as_it_ran["jct_mean_s"]


def test_simulate_puts_every_arm_into_the_queues(queues: Path) -> None:
    experiment = ROOT / "conf" / "experiments" / "baselines.toml"
    arguments = [str(experiment), "--queues", str(queues), "--seed", "1", "--arm", "fifo", "--json"]
    ran = CliRunner().invoke(simulate.command, arguments)
    document = json.loads(ran.stdout)
    (row,) = document["arms"][0]["runs"][0]["queues"]
    assert row["peak_slots"] == row["ceiling_slots"] == document["slots"] // 4


def test_an_ab_arm_of_stock_spark_has_no_queues(queues: Path) -> None:
    stock, ours = Arm("stock", "fifo"), Arm("ours", "spark_sched")
    assert _in_queues(stock, queues) == stock
    assert keys.QUEUES.name in dict(_in_queues(ours, queues).properties)


def test_queues_are_given_once(queues: Path) -> None:
    given = with_queues({}, queues)
    assert with_queues(given, None) == given
    with pytest.raises(BadInputError, match=r"--queues is .* but spark\.sched\.queues is set, too"):
        with_queues(given, queues)
