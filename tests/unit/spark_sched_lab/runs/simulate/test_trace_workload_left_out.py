"""What a simulated trace lacks is stated."""

from __future__ import annotations

import json

from click.testing import CliRunner

from spark_sched.cli.app import app

EXPERIMENT = """
name = "skipped"
seeds = [1]
[cluster]
nodes = 1
slots = 2
[[workload]]
name = "w"
trace = "log.swf"
[[arm]]
policy = "fifo"
"""


def test_rows_that_the_reader_skipped_are_among_what_was_left_out(tmp_path):
    ran = "1 0 0 10 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1 -1\n"
    unknown = "2 1 0 -1 1 -1 -1 1 -1 -1 5 1 1 1 1 -1 -1 -1\n"
    (tmp_path / "log.swf").write_text("; Version: 2.2\n; MaxProcs: 2\n" + ran + unknown)
    (tmp_path / "a.toml").write_text(EXPERIMENT)
    result = CliRunner().invoke(app, ["simulate", "--json", str(tmp_path / "a.toml")])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["left_out"] == {"jobs without run time or processors": 1}
