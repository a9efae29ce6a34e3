"""What a person does and sees in the tab "Scheduling" with a browser, live and in the history server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.integration.browser import Page

#: Widths and heights of windows: a desktop's and a phone's.
WIDE, PHONE = (1400, 900), (390, 844)
#: A folder that gets pictures of the pages, for people to look at.
PICTURES = "SPARK_SCHED_PICTURES"
_TABLE = (
    "[...document.querySelectorAll('.sched-rows')]"
    ".find(table => table.querySelector('th').textContent.trim() === %s)"
)
_CELLS = (
    "(table => table === undefined ? [] : [...table.querySelectorAll('tbody tr')].map(row => "
    "Object.fromEntries([...row.cells].map(cell => [cell.dataset.label, cell.textContent.trim()]))))(%s)"
)


def rows(page: Page, first: str = "Job") -> list[dict[str, str]]:
    """The rows of the table whose first column has this title, by the columns' titles; none without it."""
    found: list[dict[str, str]] = page.run(_CELLS % (_TABLE % json.dumps(first)))
    return found


def choose(page: Page, **given: str) -> list[dict[str, str]]:
    """Fill in the form above the jobs and press its button. Returns the jobs that are shown then."""
    form = "document.querySelector('form.sched-filter')"
    for name, value in given.items():
        page.run(f"{form}.elements[{json.dumps(name)}].value = {json.dumps(value)}")
        assert page.run(f"{form}.elements[{json.dumps(name)}].value") == value, f"no {name} {value!r}"
    page.turn(f"{form}.querySelector('button').click()")
    return rows(page)


def follow(page: Page, text: str) -> list[dict[str, str]]:
    """Click the link with this text. Returns the jobs that are shown then."""
    link = f"[...document.querySelectorAll('a')].find(link => link.textContent.trim() === {json.dumps(text)})"
    page.turn(f"{link}.click()")
    return rows(page)


def all_pages(page: Page) -> list[list[dict[str, str]]]:
    """The jobs of this page and of those after it."""
    found = [rows(page)]
    while page.run("[...document.querySelectorAll('a')].some(a => a.textContent.trim() === 'next ›')"):
        found.append(follow(page, "next ›"))
    return found


def too_wide(page: Page) -> list[str]:
    """What makes the page scroll sideways: its innermost elements that end beyond the window; nothing if it
    does not."""
    found: list[str] = page.run(_TOO_WIDE)
    return found


_TOO_WIDE = """(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const clips = e => getComputedStyle(e).overflowX !== 'visible';
  const scrolls = e => e !== null && (clips(e) || scrolls(e.parentElement));
  const end = e => Math.round(e.getBoundingClientRect().right);
  const all = [...document.body.querySelectorAll('*')];
  const wide = all.filter(e => end(e) > width && !scrolls(e.parentElement));
  const inner = wide.filter(e => ![...e.children].some(child => wide.includes(child)));
  return [`the page is ${document.documentElement.scrollWidth} wide`,
    ...inner.map(e => `${e.tagName} ${e.className} to ${end(e)}: ${e.textContent.trim().slice(0, 40)}`)];
})()"""


def widths(page: Page, urls: dict[str, str]) -> dict[str, Any]:
    """What makes each page scroll sideways on a desktop and on a phone, light and dark. Leaves pictures where
    `PICTURES` asks for them."""
    found: dict[str, Any] = {}
    folder = os.environ.get(PICTURES)
    for name, url in urls.items():
        for width, height in (WIDE, PHONE):
            page.resize(width, height)
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                page.open(url)
                found[f"{name}-{width}-{scheme}"] = too_wide(page)
                if folder is not None:
                    page.screenshot(Path(folder) / f"{name}-{width}-{scheme}.png")
    page.prefer("light")
    page.resize(*WIDE)
    return found
