"""Texts of strangers where people see them: errors, tables, pages, sheets."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from spark_sched.errors import BadInputError
from spark_sched.plain_text import MOST, bounded, cell, plain
from spark_sched.planner.log import make_log
from spark_sched.terminal import group_table
from spark_sched_lab.reports.pages import _plain

#: Escapes, a line of its own, an override of direction, and markup that rich would refuse or obey.
HOSTILE = "x\x1b]0;t\x07\nerror: forged\u202e[/]"


@given(st.text())
def test_nothing_controls_a_terminal_or_hides(text):
    shown = plain(text)
    assert len(shown) == len(text)
    assert not any(unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs") for char in shown)
    assert not any(unicodedata.bidirectional(char) in ("LRO", "RLO", "LRI", "RLI", "PDI") for char in shown)


@given(st.text(), st.text())
def test_shortened_texts_differ_where_the_texts_do(one, other):
    long = "x" * MOST
    assert (bounded(long + one) == bounded(long + other)) == (one == other)


def test_a_text_of_a_half_character_is_shortened_too():
    assert 250 < len(bounded("\ud800" * 1000)) <= MOST
    assert plain("a\ud800") == "a\ufffd"


def test_an_error_is_one_line_whatever_it_quotes():
    assert str(BadInputError(f"job is {HOSTILE}")) == "job is x\ufffd]0;t\ufffd error: forged\ufffd[/]"


def test_a_cell_of_a_table_is_text_and_no_markup():
    table = group_table(f"usage of {HOSTILE}", ["name"], ["slot-seconds"])
    table.add_row(HOSTILE, "1.0")
    out = io.StringIO()
    Console(file=out, width=100).print(table)
    assert out.getvalue().count("x\ufffd]0;t\ufffd error: forged\ufffd[/]") == 2


def test_a_planners_line_is_one_line_without_escapes():
    out = io.StringIO()
    make_log(out).warning("job %s", HOSTILE)
    assert out.getvalue() == "WARNING job x\ufffd]0;t\ufffd | error: forged\ufffd[/]\n"


def test_a_page_keeps_its_lines_and_nothing_else_that_is_hidden():
    assert _plain("a\nb\x1bc\u202e") == "a\nb\ufffdc\ufffd"
    assert _plain(3) == 3


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-1e", "-"]
)
def test_what_a_sheet_takes_for_a_formula_becomes_text(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-5", "+5.25", "-1e-3", "-.5", "report", "a=b", "", "'=1"])
def test_numbers_and_other_texts_stay(text):
    assert cell(text) == text
