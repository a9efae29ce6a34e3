"""Names in reports' pages are text: no element and no attribute comes from one, and none stops a page."""

from __future__ import annotations

import functools
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from matplotlib.figure import Figure

from spark_sched_lab.reports.pages import render_page
from spark_sched_lab.reports.plots import as_svg, bars_svg, curves_svg, plain
from spark_sched_lab.runs.ab.page import render_report as ab_page
from spark_sched_lab.runs.demo.report import render_report as demo_page
from spark_sched_lab.runs.demo.timeline import Span, Timeline
from tests.unit.spark_sched_lab.runs.ab import test_ab_analysis
from tests.unit.spark_sched_lab.runs.demo import test_report

PARTS = (
    "<pwn>",
    '"><img src=x onerror=pwn()>',
    "'><pwn a='",
    "</text></svg><script>pwn()</script>",
    "</style><pwn>",
    "</title><pwn>",
    "<!--",
    "-->",
    "]]>",
    "<![CDATA[",
    "&lt;pwn&gt;",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "`<pwn>`",
    "$\\pwn{$",
    "\\$",
    "$",
    "_",
    "javascript:pwn()",
    "\x00",
    "\x1b[31m",
    "\n",
    "\u202e",
    "\ud800",
)
NAMES = st.lists(st.sampled_from(PARTS) | st.text(max_size=5), min_size=1, max_size=4).map("".join)


class Structure(HTMLParser):
    """The elements with their attributes' names, the attributes' values, and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[tuple[str, tuple[str, ...]]] = set()
        self.values: list[str] = []
        self.others: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, tuple(sorted(name for name, _ in attrs))))
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)


def renamed(value: Any, names: dict[str, str]) -> Any:
    """A document with these names changed, as keys and as values."""
    if isinstance(value, dict):
        return {renamed(key, names): renamed(each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


@functools.cache
def ab_document() -> Any:
    return test_ab_analysis.document_of(test_ab_analysis.suite(blocks=6), test_ab_analysis.Known())


def ab(name: str) -> str:
    arms = ("levels", "stock", "P = 0.5", "kmeans", "svm")
    return ab_page(renamed(ab_document(), {arm: f"{name}{n}" for n, arm in enumerate(arms)}))


def demo(name: str) -> str:
    document = renamed(test_report.document(), {"kmeans": f"{name}1", "svm": f"{name}2"})
    spans = (Span("0", 0, 500, "held"), Span("0", 500, 900, "foreground"))
    timeline = Timeline(0, 1000, {"0": name}, {"0": 1}, spans)
    return demo_page(document, {name: [(name, timeline)]})


def texts(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "lead": name,
        "heads": ["arm", name],
        "rows": [[name, name]],
        "total_heads": [name],
        "totals": [[name]],
        "left_out": {name: 1},
        "bin_s": "1",
        "slots": "1",
        "seed": 1,
    }


def simulated(name: str) -> str:
    curves = {name: [(1.0, 0.5), (100.0, 1.0)], f"{name}2": [(2.0, 0.2), (20.0, 1.0)]}
    return render_page(
        "simulate.html.j2",
        **texts(name),
        distributions=[curves_svg(curves, "JCT, s", name, name, log_x=True)],
        utilization=bars_svg({name: [(name, 1.0), (f"{name}2", 2.0)]}, name, name, name, {name: 1.0}),
    )


@functools.cache
def harmless(page_of: Any) -> Structure:
    return Structure(page_of("plain"))


def check(found: Structure, like: Structure) -> None:
    assert {tag for tag, _ in found.elements} <= {tag for tag, _ in like.elements} | {"code"}
    attributes = {attribute for _, names in like.elements for attribute in names}
    assert {attribute for _, names in found.elements for attribute in names} <= attributes
    assert not [attribute for attribute in attributes if attribute.startswith("on")]
    assert not [value for value in (*found.values, *found.others) if "pwn" in value]


@pytest.mark.parametrize("page_of", [ab, demo, simulated], ids=["ab", "demo", "simulate"])
@pytest.mark.parametrize("name", ["".join(PARTS), "$\\pwn{$"])
def test_no_element_and_no_attribute_of_a_page_comes_from_a_name(page_of, name):
    check(Structure(page_of(name)), harmless(page_of))


def template(name: str) -> str:
    return render_page("simulate.html.j2", **texts(name), distributions=[], utilization="")


def figure(name: str) -> str:
    drawn = Figure()
    drawn.text(0.0, 0.0, plain(name))
    return as_svg(drawn)


@pytest.mark.parametrize("page_of", [template, figure])
@given(name=NAMES)
def test_no_element_and_no_attribute_comes_from_any_name(page_of, name):
    check(Structure(page_of(name)), harmless(page_of))


@pytest.mark.parametrize("name", ["<pwn a='1'>", "$x$ & $\\y{$", "_hidden", "a$b"])
def test_a_name_is_shown_as_it_is(name):
    assert name in Structure(simulated(name)).text


def test_a_figure_draws_every_name():
    svg = curves_svg({"_one": [(1.0, 1.0)], "$\\two{$": [(1.0, 2.0)]}, "x", "y", "a\nb", log_x=True)
    text = Structure(svg).text
    assert "_one" in text
    assert "$\\two{$" in text
