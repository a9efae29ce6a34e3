"""Date and version of every measured figure in the documentation.

    python tools/figures.py            # each date and version; have its inputs changed since?
    python tools/figures.py --record   # after a measurement: writes docs/results/figures.toml and dates.md

A figure is a row of a table whose rows have commands (README.md, benchmarks/README.md), another table, or the
text of a section. ``figures.toml`` has a fingerprint of its numbers. Its date and version are those of the
commit since which its page has these numbers, or the date that it states and the last commit up to that
day. Numbers that are not committed yet have today's date and the version that is checked out.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = Path("docs/results/figures.toml")
DATES = Path("docs/results/dates.md")
REGENERATE = "python tools/figures.py --record"
#: The command of numbers that nobody measured.
NONE = "none"

#: Pages beside docs/results, with the sections that have measurements.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "README.md": ("spark_sched", "Measured"),
    "benchmarks/README.md": ("Measured", "Notes on the results"),
}
#: Parts of a text whose numbers are none of its figures.
_NO_FIGURE = re.compile(
    r"^ *\d+\. |`[^`]*`|\]\([^)\s]*\)|\d{4}-\d\d-\d\d|\b(?=\d*[a-f])[0-9a-f]{7,8}\b"
    r"|\b(?:fig\.|figures?|tables?|sections?|chapters?|equations?|ADR|Spark|Python|Java)\s+[\d.]+|§[\d.]+",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w@.])[−-]?\d[\d,.]*(?<![,.])")
_COMMAND = re.compile(
    r"`((?:nice -n -10 )?(?:spark-sched|python|predict eval|simulate_priorities\(|--part) ?[^`]*)`"
    r"|^((?:spark-sched|python) .*?)(?:  .*)?$",
    re.MULTILINE,
)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_ALONE = re.compile(r"\((\d{4}-\d\d-\d\d)\)")


@dataclass(frozen=True)
class Figure:
    page: str
    name: str
    numbers: str
    command: str
    date: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.page}, “{self.name}”: `{self.command}`"


def fingerprint(text: str) -> str:
    """Of the numbers of a text in their order; empty if there are none.

    >>> fingerprint("takes 1.5 s (figure 3)") == fingerprint("1.5\\ntimes") != fingerprint("1.6")
    True
    """
    numbers = _NUMBER.findall(_NO_FIGURE.sub(" ", text))
    return hashlib.sha256(" ".join(numbers).encode()).hexdigest()[:10] if numbers else ""


def pages(root: Path) -> list[Path]:
    results = sorted((root / "docs/results").glob("*.md"))
    return [root / page for page in SECTIONS] + [
        page for page in results if page.name not in ("README.md", DATES.name)
    ]


def figures_of(page: str, text: str) -> Iterator[Figure]:
    """The figures that a page has, without versions: the command is the first in it or the last before."""
    wanted = SECTIONS.get(page)
    for heading, section in _sections(text):
        if wanted is not None and heading.rpartition(" / ")[2] not in wanted:
            continue
        command, tables, prose = "", 0, ""
        for block in re.split(r"\n[ ]*\n", section):
            lines = [line.strip() for line in block.strip().splitlines()]
            if not lines:
                continue
            command = _command(block) or command
            if not all(line.startswith("|") for line in lines):
                prose += f"{block}\n\n"
            elif wanted and "command" in lines[0].strip("| ").split(" | "):
                yield from _rows(page, lines[2:])
            else:
                tables += 1
                yield from _figure(page, f"{heading}, table {tables}", block, command)
        yield from _figure(page, heading, prose, _command(prose) or command)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Heading and text of each section. Below the second level it begins with the headings above."""
    path: list[str] = []
    for part in re.split(r"^(?=#{1,6} )", text, flags=re.MULTILINE):
        title, _, body = part.partition("\n")
        level = len(title) - len(title.lstrip("#"))
        if level:
            path = [*path[: max(level - 2, 0)], title.lstrip("# ").replace("`", "")]
        yield " / ".join(path), body


def _rows(page: str, lines: list[str]) -> Iterator[Figure]:
    command = ""
    for line in lines:
        command = _command(line) or command
        name = _ALONE.sub("", line.strip("| ").partition(" | ")[0]).replace("`", "")
        yield from _figure(page, " ".join(name.split()), line, command)


def _figure(page: str, name: str, text: str, command: str) -> Iterator[Figure]:
    numbers = fingerprint(text)
    if numbers:
        # A row is one measurement. In longer texts a date may be of one of several.
        stated = {*(_DATE if "\n" not in text else _ALONE).findall(text)}
        yield Figure(page, name, numbers, command, date=stated.pop() if len(stated) == 1 else "")


def _command(text: str) -> str:
    found = _COMMAND.search(text)
    return " ".join((found[1] or found[2]).split()) if found else ""


def recorded(root: Path) -> tuple[dict[tuple[str, str], Figure], dict[str, list[str]]]:
    """The recorded figures by page and name; by prefix of a command, the files and folders that decide it."""
    document = tomllib.loads((root / RECORDS).read_text(encoding="utf-8"))
    figures = {
        (page, name): Figure(page, name, **fields)
        for page, entries in document["figures"].items()
        for name, fields in entries.items()
    }
    return figures, document["inputs"]


def current(root: Path) -> dict[tuple[str, str], Figure]:
    found = {}
    for path in pages(root):
        page = path.relative_to(root).as_posix()
        for figure in figures_of(page, path.read_text(encoding="utf-8")):
            name, again = figure.name, 1
            while (page, figure.name) in found:
                again += 1
                figure = replace(figure, name=f"{name} ({again})")
            found[page, figure.name] = figure
    return found


def differences(root: Path) -> list[str]:
    """One sentence for each figure whose numbers or stated date are not those that are recorded."""
    records, _ = recorded(root)
    now = current(root)
    remedy = f"if they were measured, run `{REGENERATE}`"
    sentences = []
    for key, record in records.items():
        figure = now.pop(key, None)
        if figure is None:
            sentences.append(f"{record} of {record.date} is no longer on its page: run `{REGENERATE}`")
        elif figure.date not in ("", record.date):
            sentences.append(f"{record} states {figure.date}, and {record.date} is recorded: {remedy}")
        elif figure.numbers != record.numbers:
            sentences.append(
                f"{record} has other numbers than those of {record.date} (version {record.version}, see "
                f"`git diff {record.version} -- {record.page}`): {remedy}"
            )
    return sentences + [f"{figure} has no date and version: {remedy}" for figure in now.values()]


def inputs_of(command: str, inputs: Mapping[str, list[str]]) -> list[str]:
    """Of the longest prefix of the command that has any."""
    prefixes = [prefix for prefix in inputs if command.removeprefix("nice -n -10 ").startswith(prefix)]
    return inputs[max(prefixes, key=len)] if prefixes else []


def changed_since(root: Path, version: str, paths: list[str]) -> bool | None:
    """Whether one of the files differs from that version's; None in a checkout without its history."""
    compare = ["git", "diff", "--quiet", version, "HEAD", "--", *paths]
    try:
        found = subprocess.run(compare, cwd=root, capture_output=True)
    except FileNotFoundError:
        return None
    return {0: False, 1: True}.get(found.returncode)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def _dated(root: Path, figures: list[Figure]) -> Iterator[Figure]:
    """The figures of one page with date and version."""
    page = figures[0].page
    today, head = datetime.date.today().isoformat(), _git(root, "rev-parse", "HEAD")[:8]
    since = {figure.numbers: (today, head) for figure in figures}
    open_ones = {*since}
    log = _git(root, "log", "--follow", "--format=commit %H %as", "--name-only", "--", page)
    for commit, date, path in re.findall(r"^commit (\w+) (\S+)\s+(\S+)$", log, re.MULTILINE):
        then = figures_of(page, _git(root, "show", f"{commit}:{path}"))
        open_ones &= {figure.numbers for figure in then}
        since |= dict.fromkeys(open_ones, (date, commit[:8]))
    for figure in figures:
        date, version = since[figure.numbers]
        if figure.date not in ("", date):
            date = figure.date
            version = _git(root, "rev-list", "-1", f"--before={date}T23:59:59Z", "HEAD")[:8]
        yield replace(figure, date=date, version=version)


def record(root: Path) -> None:
    """Write the records as the figures are; commands, and dates of the same numbers, are kept."""
    known, inputs = recorded(root)
    now = current(root)
    lines = ["# Written by `" + REGENERATE + "`. Edit commands and inputs alone.", "", "[inputs]"]
    lines += [f"{_quoted(prefix)} = {_quoted(paths)}" for prefix, paths in inputs.items()]
    for page in dict.fromkeys(page for page, _ in now):
        lines += ["", f"[figures.{_quoted(page)}]"]
        figures = [figure for figure in now.values() if figure.page == page]
        kept = [known.get((page, figure.name), figure) for figure in figures]
        new = [
            figure
            for figure, old in zip(figures, kept, strict=True)
            if (old.numbers, old.date) != (figure.numbers, figure.date or old.date) or not old.version
        ]
        dated = {figure.name: figure for figure in _dated(root, new)} if new else {}
        for old in kept:
            figure = replace(dated.get(old.name, old), command=old.command)
            fields = ("date", "version", "numbers", "command")
            values = ", ".join(f"{field} = {_quoted(getattr(figure, field))}" for field in fields)
            lines.append(f"{_quoted(figure.name)} = {{ {values} }}")
    (root / RECORDS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _quoted(value: str | list[str]) -> str:
    # A JSON string or list is one of TOML, too.
    return json.dumps(value, ensure_ascii=False)


def dates_page(root: Path) -> str:
    figures, inputs = recorded(root)
    lines = [
        "# Date and version of each figure",
        "",
        f"`{REGENERATE}` writes this page. A figure is a row of a table, the n-th table of a",
        "section, or the text of a section. Date and version are those of the commit that put its numbers on",
        "the page. If the page states another date, the version is the last commit up to that day.",
        "",
        "`python tools/figures.py` prints whether the inputs of a command have changed since that version.",
        "Moved files count as changed.",
    ]
    for page in dict.fromkeys(page for page, _ in figures):
        target = Path(os.path.relpath(page, DATES.parent)).as_posix()
        lines += [
            "",
            f"## {page}",
            "",
            f"[The page]({target}).",
            "",
            "| figure | command | date | version |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {figure.name} | `{figure.command}` | {figure.date} | {figure.version} |".replace("<", "&lt;")
            for figure in figures.values()
            if figure.page == page and figure.command != NONE
        ]
    lines += ["", "## Inputs of the commands", "", "| a command that begins with | inputs |", "|---|---|"]
    lines += [
        f"| `{prefix}` | {', '.join(f'`{path}`' for path in paths)} |" for prefix, paths in inputs.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write figures.toml and dates.md")
    if parser.parse_args().record:
        record(ROOT)
        (ROOT / DATES).write_text(dates_page(ROOT), encoding="utf-8")
        return
    figures, inputs = recorded(ROOT)
    answers = {True: "have changed since", False: "are those of", None: "are not known since"}
    found: dict[str, list[str]] = {}
    for figure in figures.values():
        if figure.command != NONE:
            changed = changed_since(ROOT, figure.version, inputs_of(figure.command, inputs))
            sentence = f"`{figure.command}`: inputs {answers[changed]} {figure.date} ({figure.version})"
            found.setdefault(sentence, []).append(figure.page)
    for sentence, pages_with_it in sorted(found.items(), key=lambda item: item[0][-21:]):
        print(f"{', '.join(dict.fromkeys(pages_with_it))}: {sentence}")


if __name__ == "__main__":
    main()
