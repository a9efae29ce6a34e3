"""The JVM side reads the same keys with the same defaults and ranges."""

from __future__ import annotations

import re
from pathlib import Path

from spark_sched.config import ALL, JOB_PREFIX

_SCALA = Path(__file__).parents[4] / "jvm-bridge" / "core" / "src" / "main" / "scala"
_KEY = re.compile(r'Key\("(spark\.sched\.[A-Za-z.]+)", "([^"]*)"\)')
_FIELDS = re.compile(r"val All: Seq\[String\] =\s*Seq\(([^)]*)\)")


def _source(name: str) -> str:
    (path,) = _SCALA.rglob(name)
    return path.read_text()


def test_names_and_defaults_of_the_application_keys_are_equal():
    jvm = dict(_KEY.findall(_source("Settings.scala")))
    assert jvm == {key.name: key.default for key in ALL if key.kind == "application"}


def test_names_of_the_job_marks_are_equal():
    found = _FIELDS.search(_source("MarkFields.scala"))
    assert found is not None
    jvm = set(re.findall(r'"(\w+)"', found[1]))
    assert jvm == {key.name.removeprefix(JOB_PREFIX) for key in ALL if key.kind == "job"}
