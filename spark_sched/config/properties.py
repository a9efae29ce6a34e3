"""Java properties files, as ``spark-submit --properties-file`` reads and writes them (UTF-8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from spark_sched.errors import BadInputError
from spark_sched.files import read_text

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_CONTROL = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def read_properties(path: Path) -> dict[str, str]:
    """The entries of a file. Raises BadInputError if it cannot be read or is not a properties file."""
    try:
        text = read_text(path)
    except BadInputError as error:
        raise BadInputError(f"properties file {error}") from None
    try:
        return parse_properties(text)
    except ValueError as error:
        raise BadInputError(f"properties file {str(path)!r} has {error}: double the backslash") from None


def parse_properties(text: str) -> dict[str, str]:
    """Entries of a properties text; values trimmed, as Spark trims them. ValueError: a bad escape."""
    entries = {}
    for line in _logical_lines(text):
        end = _key_end(line)
        separator = _SEPARATOR.match(line, end)
        value = line[separator.end() if separator else end :]
        entries[_unescape(line[:end])] = _unescape(value).strip()
    return entries


def format_properties(entries: Mapping[str, str], comment: str = "") -> str:
    """A properties text from which `parse_properties` reads ``entries`` (values trimmed)."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{_escape(key, key=True)}={_escape(value, key=False)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        # An odd number of backslashes at the end continues the line; an even number is text.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = ""
        lines.append(line)
    return [*lines, pending] if pending else lines


def _key_end(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in "=: \t\f":
            return position
        else:
            position += 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] == "u":
            raise ValueError(f"the broken escape {text[found.start() : found.start() + 6]!r}")
        return _ESCAPES.get(found[2], found[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, text, flags=re.DOTALL)


def _escape(text: str, *, key: bool) -> str:
    text = text.replace("\\", "\\\\")
    for plain, escaped in _CONTROL.items():
        text = text.replace(plain, escaped)
    if key:
        return re.sub(r"([ =:#!])", r"\\\1", text)
    return re.sub(r"^ ", r"\\ ", text)
