"""A planner in an environment without the extra ``history``."""

from __future__ import annotations

import io
import sys

import pytest

from spark_sched.config import keys, validate
from spark_sched.errors import BadInputError
from spark_sched.planner import process
from spark_sched.planner.log import make_log


def test_a_history_that_cannot_be_kept_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    settings = validate({keys.HISTORY_PATH.name: str(tmp_path / "history.db")})
    with pytest.raises(BadInputError, match=r"pip install 'spark-sched\[history\]', or leave it unset"):
        process._history(settings, make_log(io.StringIO()), "session-1")


def test_without_a_history_nothing_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert process._history(validate({}), make_log(io.StringIO()), "session-1") is None
