"""Attributes of Scala classes, read from the source by counting brackets.

It is no parser: the source must compile and have braces around bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLASS = re.compile(r"\b(case\s+)?(?:class|trait)\s+(\w+)")
_MEMBER = re.compile(r"\b(?:val|var)\b")
_BEFORE_PARAMETERS = re.compile(r"\s*(?:(?:private|protected)(?:\[\w+\])?|@\w+)?\s*\(")
_MORE_HEADER = re.compile(r"\s*(?:extends\b|with\b|\{)")
_CHARACTER = re.compile(r"'(?:\\u[0-9a-fA-F]{4}|\\.|[^\\'\n])'")
_TEXT_BEGINS = re.compile(r"[/\"']")
_BRACKET_OR_TEXT = re.compile(r"[()\[\]{}/\"']")
_PATTERN = re.compile(r"[^=:\n]*")
_OPENS = re.compile(r"[(\[{]")
_NAME = re.compile(r"\b[a-z_]\w*")


def attributes(source: str) -> dict[str, int]:
    """How many attributes each class and trait has, by its name; of those that share a name, the most.

    Attributes are the fields of case classes, the constructor's parameters that are ``val`` or ``var``, and
    the ``val`` and ``var`` of the body. Parameters without ``val``, methods with what they declare, and
    members of objects are none.
    """
    code = bare(source)
    found: dict[str, int] = {}
    for match in _CLASS.finditer(code):
        at = match.end()
        if code[at : at + 1] == "[":
            at = _group_end(code, at)
        count = 0
        is_case = match[1] is not None
        while (begin := _parameters_begin(code, at)) is not None:
            at = _group_end(code, begin)
            for parameter in _split(code[begin + 1 : at - 1]):
                count += is_case or _MEMBER.search(parameter) is not None
            is_case = False
        count += sum(1 for _ in _members(_body(code, at)))
        found[match[2]] = max(count, found.get(match[2], 0))
    return found


def bare(source: str) -> str:
    """The source with blanks in place of comments, strings and characters."""
    parts, at = [], 0
    while match := _TEXT_BEGINS.search(source, at):
        parts.append(source[at : match.start()])
        at = max(_text_end(source, match.start()), match.end())
        blank = at > match.end()
        parts.append(re.sub(r"[^\n]", " ", source[match.start() : at]) if blank else match[0])
    return "".join(parts) + source[at:]


def _text_end(source: str, at: int) -> int:
    """Index behind the comment, string or character that begins at ``at``; ``at`` if none does."""
    if source.startswith("//", at):
        return (source + "\n").index("\n", at)
    if source.startswith("/*", at):
        return _comment_end(source, at)
    if source[at] == '"':
        return _string_end(source, at)
    character = _CHARACTER.match(source, at)
    return character.end() if character else at


def _comment_end(source: str, at: int) -> int:
    depth = 0
    while at < len(source):
        step = {"/*": 1, "*/": -1}.get(source[at : at + 2], 0)
        depth += step
        at += 2 if step else 1
        if not depth:
            break
    return at


def _string_end(source: str, at: int) -> int:
    interpolated = at > 0 and source[at - 1].isalpha()
    quote = '"""' if source.startswith('"""', at) else '"'
    at += len(quote)
    while at < len(source):
        if source.startswith(quote, at):
            at += len(quote)
            while len(quote) == 3 and source.startswith('"', at):
                at += 1  # Of more quotes the last three end it.
            return at
        if source[at] == "\\" and len(quote) == 1:
            at += 2
        elif interpolated and source.startswith("${", at):
            at = _group_end(source, at + 1)
        else:
            at += 1
    return at


def _group_end(source: str, at: int) -> int:
    """Index behind the bracket that closes the one at ``at``."""
    depth = 0
    while match := _BRACKET_OR_TEXT.search(source, at):
        at = max(_text_end(source, match.start()), match.end())
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if not depth:
            return at
    return len(source)


def _parameters_begin(code: str, at: int) -> int | None:
    """Index of the next parameter list, behind modifiers as ``private[scheduler]``; None: there is none."""
    match = _BEFORE_PARAMETERS.match(code, at)
    return match.end() - 1 if match else None


def _split(code: str) -> Iterator[str]:
    """The parts between commas outside of brackets; none is empty."""
    outer = _outer(code)
    begin = 0
    for end in [*(n for n, character in enumerate(outer) if character == ","), len(code)]:
        if code[begin:end].strip():
            yield code[begin:end]
        begin = end + 1


def _outer(code: str) -> str:
    """The code with blanks in place of what brackets enclose."""
    parts, at = [], 0
    while match := _OPENS.search(code, at):
        parts.append(code[at : match.start()])
        at = _group_end(code, match.start())
        parts.append(" " * (at - match.start()))
    return "".join(parts) + code[at:]


def _body(code: str, at: int) -> str:
    """The code between the braces of the class whose header goes on at ``at``; empty if it has no body."""
    while at < len(code):
        if code[at] == "{":
            return code[at + 1 : _group_end(code, at) - 1]
        if code[at] in "([":
            at = _group_end(code, at)
        elif code[at] in ";})" or (code[at] == "\n" and not _MORE_HEADER.match(code, at)):
            return ""
        else:
            at += 1
    return ""


def _members(body: str) -> Iterator[str]:
    """The names that ``val`` and ``var`` declare outside of the bodies of methods."""
    for match in _MEMBER.finditer(_outer(body)):
        pattern = _PATTERN.match(body, match.end())
        yield from _NAME.findall(pattern[0] if pattern else "")
