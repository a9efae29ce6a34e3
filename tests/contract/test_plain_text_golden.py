"""Texts of strangers for people: `plain_text.py` and `PlainText.scala` must make the same of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sched.plain_text import MOST, bounded, plain, short

DOCUMENT = json.loads(
    (Path(__file__).parents[2] / "protocol" / "golden" / "text" / "plain.json").read_text("utf-8")
)


def _cases(part: str) -> list[Any]:
    return [pytest.param(case, id=case["title"]) for case in DOCUMENT[part]]


@pytest.mark.parametrize("case", _cases("plain"))
def test_a_text_is_shown_as_in_the_driver(case: dict[str, str]) -> None:
    assert plain(case["text"]) == case["plain"]
    assert plain(case["plain"]) == case["plain"]


@pytest.mark.parametrize("case", _cases("long"))
def test_a_text_is_shortened_as_in_the_driver(case: dict[str, str]) -> None:
    assert bounded(case["text"]) == case["bounded"]
    assert short(case["text"]) == case["short"]
    assert max(len(bounded(case["text"])), len(short(case["text"]))) <= MOST
