"""What doctor says of settings before it starts anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spark_sched.cli import doctor
from spark_sched.cli.doctor import _nameless

ACLS = {"spark.acls.enable": "true", "spark.modify.acls": "ada"}


def test_acls_without_authentication_are_named_with_the_remedy():
    finding = _nameless(ACLS)
    assert finding is not None
    assert (finding.check, finding.state) == ("authentication", "warning")
    assert "spark.ui.filters" in finding.found
    assert finding.remedy == "set spark.ui.filters, or set spark.sched.steering.enabled=false"


@pytest.mark.parametrize(
    "more",
    [
        {"spark.acls.enable": "false"},
        {"spark.ui.filters": "org.example.Authentication"},
        {"spark.modify.acls": "*"},
        {"spark.sched.steering.enabled": "false"},
        {"spark.ui.killEnabled": "false"},
        {"spark.master": "yarn"},
        {"spark.master": "spark-sched:yarn"},
    ],
    ids=str,
)
def test_nothing_is_said_where_there_is_a_filter_or_nothing_to_guard(more):
    assert _nameless(ACLS | more) is None


def test_no_module_beside_the_doctors_job_hides_one_of_pythons_own():
    """Spark runs the file by its path, so that Python searches its folder before all others."""
    beside = {path.stem for path in Path(doctor.__file__).parent.iterdir()}
    assert "_doctor_job" in beside
    assert beside & sys.stdlib_module_names == set()
