"""JSON documents of many lines: their objects one at a time, and what a document is by its first keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import lines as lines_module

#: JSON text has no newline inside a string, so that each line has whole strings.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_KEY = re.compile(rb"\s*:")
#: What has no key "Event": the keys of its first object, what it is, and where the event log is.
_KNOWN: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(keys.split()), words)
    for keys, words in (
        ("capacity_slot_s rows total", "the result of 'spark-sched usage --json'"),
        ("logs left_out together", "the result of 'spark-sched whatif --json'"),
        ("recommendations deviations", "the result of 'spark-sched recommend --json'"),
        ("paper figures", "the result of 'spark-sched reproduce --json'"),
        ("suites cluster scheduler", "the result of 'spark-sched bench --json'"),
        ("application jobs policy", "the status of a live application"),
        ("id name attempts", "the list of applications of Spark's REST API"),
        ("jobId stageIds", "an answer of Spark's REST API about jobs"),
        ("stageId attemptId", "an answer of Spark's REST API about stages"),
        ("id hostPort totalCores", "an answer of Spark's REST API about executors"),
        ("runtime sparkProperties", "an answer of Spark's REST API about an environment"),
    )
)
_FROM_REST = " (give the event log itself, which /applications/<id>/logs of the history server has)"


def json_keys(block: bytes) -> list[str]:
    """The keys of the first object of a JSON document that begins so; of a list, those of its first object.

    Empty for what does not begin like a list or an object.
    """
    text = block.lstrip()
    if not text.startswith((b"{", b"[")):
        return []
    base = 2 if text.startswith(b"[") else 1
    depth, keys = 0, []
    for token in _TOKEN.finditer(text):
        if token[0] in b"{[":
            depth += 1
        elif token[0] in b"}]":
            depth -= 1
            if depth < base:
                break
        elif depth == base and _KEY.match(text, token.end()):
            try:
                keys.append(str(json.loads(token[0])))
            except ValueError:
                break
    return keys


def document_of(block: bytes) -> str | None:
    """What a JSON document is, in words; None for what does not look like one."""
    keys = json_keys(block)
    if not keys:
        return None
    for known, words in _KNOWN:
        if known <= set(keys):
            return words + (_FROM_REST if "REST" in words else "")
    return f"a JSON document of several lines with the keys {', '.join(sorted(keys)[:5])}"


def is_spread(block: bytes) -> bool:
    """Whether the first value of a JSON text spans lines, or is a list."""
    text = block.lstrip()
    if not text.startswith((b"{", b"[")):
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in b"{[":
            depth += 1
        elif token[0] in b"}]":
            depth -= 1
            if depth == 0:
                return text.startswith(b"[") or b"\n" in text[: token.end()]
    return b"\n" in text.rstrip()


def objects(rows: Iterable[tuple[int, bytes]], name: str) -> Iterator[tuple[int, bytes]]:
    """The objects of a list, or objects one after the other, each with the number of its first line.

    Raises BadInputError for an object of more than `lines.MAX_LINE_BYTES`.
    """
    depth, base = 0, None
    parts: list[bytes] = []
    size = first = 0
    for number, line in rows:
        begin = 0
        for token in _TOKEN.finditer(line):
            if token[0] in b"{[":
                if base is None:
                    base = 1 if token[0] == b"[" else 0
                if depth == base and not (depth == 0 and base == 1):
                    first, begin, parts, size = number, token.start(), [], 0
                depth += 1
            elif token[0] in b"}]":
                depth -= 1
                if depth == base:
                    parts.append(line[begin : token.end()])
                    yield first, b"\n".join(parts)
                    parts, size, begin = [], 0, token.end()
                elif depth < 0:
                    depth = 0
        if base is not None and depth > base:
            parts.append(line[begin:])
            size += len(line)
            if size > lines_module.MAX_LINE_BYTES:
                raise BadInputError(
                    f"{name}: the object that begins in line {first} is longer than "
                    f"{lines_module.MAX_LINE_BYTES >> 20} MB, the most that is read: remove it"
                )
    if parts:
        yield first, b"\n".join(parts)
