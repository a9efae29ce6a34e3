"""Event logs that a real Spark wrote with each of its compression codecs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched_lab.traces.lines import compression, lines
from spark_sched_lab.traces.read_report import ReadReport

pytestmark = pytest.mark.integration

CODECS = ("none", "lz4", "snappy", "lzf", "zstd")
_PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

for codec in sys.argv[2:]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.eventLog.enabled", "true")
    # What Spark 3.5 does not do by default.
    builder = builder.config("spark.eventLog.rolling.enabled", "true")
    builder = builder.config("spark.eventLog.dir", f"file://{sys.argv[1]}/{codec}")
    builder = builder.config("spark.eventLog.compress", str(codec != "none").lower())
    builder = builder.config("spark.eventLog.compression.codec", codec if codec != "none" else "zstd")
    Path(sys.argv[1], codec).mkdir()
    session = builder.getOrCreate()
    session.range(0, 40, 1, 40).selectExpr("sum(id)").collect()
    session.stop()
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codecs")
    subprocess.run([sys.executable, "-c", _PROGRAM, folder, *CODECS], check=True, timeout=600)
    return folder


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_of_each_codec_is_charged_whole(logs, codec):
    (part,) = (logs / codec).rglob("events_1_*")
    assert compression(part) == ("plain" if codec == "none" else codec)
    report = ReadReport()
    kinds = [json.loads(line)["Event"] for _, line in lines(part, report)]
    assert (report.bad_rows, kinds[-1]) == (0, "SparkListenerApplicationEnd")
    ended = kinds.count("SparkListenerTaskEnd")
    assert ended == 41
    document = json.loads(CliRunner().invoke(app, ["usage", str(logs / codec), "--json"]).stdout)
    assert (document["attempts"], document["unread_lines"], document["missing"]) == (ended, 0, {})
