"""Hooks of the documentation site (properdocs.yml): folders in the navigation, links that leave ``docs/``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

# A code block, inline code, or a link. Only links have groups: text and target.
_LINK_OR_CODE = re.compile(
    r"^(?:```|~~~).*?^(?:```|~~~)|`[^`\n]*`(?!\])|\[(`?[^\]\n]*`?)\]\(([^)\s]+)\)", re.DOTALL | re.MULTILINE
)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def on_config(config: Any) -> Any:
    """Replace every ``folder/`` of the navigation by the folder's pages that no other entry names."""
    docs = Path(config["docs_dir"])
    named = {name for name in _names(config["nav"]) if not name.endswith("/")}
    config["nav"] = _expanded(config["nav"], docs, named)
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files outside the site (scripts, sources) into their text: the site has no such pages."""
    return local_links(markdown, page.file.src_uri)


def local_links(markdown: str, source: str) -> str:
    """``markdown`` of the page ``source`` without links that leave the site's folder.

    >>> local_links("see [the check](../../tools/check.py), [b](b.md)", "results/a.md")
    'see the check, [b](b.md)'
    """

    def text_or_link(found: re.Match[str]) -> str:
        target = found[2]
        if target is None or _ELSEWHERE.match(target) or not _leaves(target, source):
            return found[0]
        return found[1]

    return _LINK_OR_CODE.sub(text_or_link, markdown)


def _leaves(target: str, source: str) -> bool:
    depth = len(PurePosixPath(source).parts) - 1
    for part in PurePosixPath(target.partition("#")[0]).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _names(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, Mapping):
        for value in entry.values():
            yield from _names(value)
    else:
        for value in entry:
            yield from _names(value)


def _expanded(entry: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(entry, Mapping):
        return {title: _expanded(value, docs, named) for title, value in entry.items()}
    if isinstance(entry, list):
        pages = [_expanded(value, docs, named) for value in entry]
        return [page for each in pages for page in (each if isinstance(each, list) else [each])]
    return _pages(docs, entry, named) if entry.endswith("/") else entry


def _pages(docs: Path, folder: str, named: set[str]) -> list[str]:
    pages = {path.relative_to(docs).as_posix() for path in (docs / folder).rglob("*.md")}
    # A folder's README is its front page.
    return sorted(pages - named, key=lambda page: (not page.endswith("README.md"), page))
