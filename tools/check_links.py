"""Links of the Markdown files: local files and headings must exist.

    python tools/check_links.py [FILE-OR-DIRECTORY …]

Addresses of other sites are not fetched: a check must not depend on them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HIDDEN = {"node_modules", "target", "build", "dist"}


def headings(text: str) -> set[str]:
    """Anchors of a page, as GitHub names them: lower case, blanks as hyphens, repeats numbered."""
    anchors: set[str] = set()
    for found in _HEADING.finditer(_FENCE.sub("", text)):
        plain = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", found[1])
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        anchor, repeat = slug, 0
        while anchor in anchors:
            repeat += 1
            anchor = f"{slug}-{repeat}"
        anchors.add(anchor)
    return anchors


def broken_links(path: Path) -> Iterator[str]:
    """One sentence per link of the file that leads nowhere."""
    text = path.read_text(encoding="utf-8")
    for found in _LINK.finditer(_CODE.sub("", _FENCE.sub("", text))):
        target, _, anchor = found[1].partition("#")
        if _ELSEWHERE.match(found[1]):
            continue
        file = (path.parent / target) if target else path
        if not file.exists():
            yield f"{path}: {found[1]} names a file that does not exist"
        elif anchor and file.suffix == ".md" and anchor not in headings(file.read_text(encoding="utf-8")):
            yield f"{path}: {found[1]} names a heading that does not exist"


def pages(places: Iterable[Path]) -> Iterator[Path]:
    """The Markdown files among and under ``places``, without hidden and generated folders."""
    for place in places:
        if place.is_file():
            yield place
            continue
        for path in sorted(place.rglob("*.md")):
            folders = path.relative_to(place).parts[:-1]
            if not any(folder.startswith(".") or folder in _HIDDEN for folder in folders):
                yield path


if __name__ == "__main__":
    _places = [Path(argument) for argument in sys.argv[1:]] or [Path(__file__).parents[1]]
    _broken = [sentence for page in pages(_places) for sentence in broken_links(page)]
    print("\n".join(_broken) or "links: every local link leads somewhere")
    raise SystemExit(1 if _broken else 0)
