"""What a plain installation lacks: each command names the extra that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

#: Calls the commands in a process that has no package of any extra.
PROGRAM = """
import json, sys
for name in (
    "boto3", "botocore", "highspy", "jinja2", "matplotlib", "numba", "psutil", "psycopg", "pulp", "pyarrow",
    "pyhocon", "pyspark", "scipy", "sqlalchemy",
):
    sys.modules[name] = None
from click.testing import CliRunner
from spark_sched.cli.app import app

said = {}
for command in json.load(sys.stdin):
    done = CliRunner().invoke(app, command.split())
    said[command] = [done.exit_code, done.stderr]
print(json.dumps(said))
"""
LOG = "tests/replay/logs/stock-fair-1.zstd"
EXTRAS = {
    f"whatif {LOG}": "traces",
    f"usage {LOG}": "traces",
    f"recommend {LOG}": "traces",
    f"trace stats {LOG}": "traces",
    f"predict eval {LOG}": "traces",
    "reproduce thesis": "report",
    "ab run conf/ab/demo.toml": "report",
    "ec2 down": "ec2",
    "demo": "demo",
    "bench conf/bench/users.toml": "spark",
    "conf --set spark.sched.history.path=x": "history",
}


@pytest.fixture(scope="module")
def said(root, tmp_path_factory):
    """What each command says."""
    folder = tmp_path_factory.mktemp("empty")
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=root,
        input=json.dumps([*EXTRAS]),
        env=environment | {"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", EXTRAS)
def test_a_command_names_the_extra_that_it_lacks(said, command):
    status, text = said[command]
    assert status == 2
    assert f"pip install 'spark-sched[{EXTRAS[command]}]'" in text.splitlines()[-1]
