"""Texts of strangers, such as names of jobs, as people may see them in a terminal, a notebook, a page or a
sheet.

``PlainText.scala`` does the same in the driver; ``protocol/golden/text`` binds the two.
"""

from __future__ import annotations

import hashlib
import re

#: Most characters (UTF-16 units, as the driver counts) of an id, a name, a user, a class or a reason.
MOST = 256

_HASH_DIGITS = 16
_SHORTENED = "…"
_BLANK = re.compile("[\t-\r\u0085\u2028\u2029]")
# Ranges, not Unicode's categories: these differ between versions of Java and Python. The joiners U+200C and
# U+200D stay, since words of some languages need them.
_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufdd0-\ufdef\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f"
    + "".join(f"{chr(plane | 0xFFFE)}{chr(plane | 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
    + "]"
)
_PLAIN_ASCII = re.compile("[ -~]*")
# What a spreadsheet takes for a formula, also in the wide forms of East Asian keyboards.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def plain(text: str) -> str:
    """The text without characters that control a terminal, end a line, change the direction of other text or
    are invisible: blank ones become a space and the others U+FFFD.

    >>> plain("red \\x1b[31mreport\\nok"), plain("\\u202efdp.exe")
    ('red �[31mreport ok', '�fdp.exe')
    """
    if _PLAIN_ASCII.fullmatch(text):
        return text
    return _HIDDEN.sub("\ufffd", _BLANK.sub(" ", text))


def bounded(text: str, most: int = MOST) -> str:
    """The text, or if it is too long its beginning and a hash of all of it, by which two long texts differ.

    >>> len(bounded("x" * 1000)), bounded("x" * 1000)[:4], bounded("report")
    (256, 'xxxx', 'report')
    """
    if _units(text) <= most:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_HASH_DIGITS]
    return f"{_beginning(text, most - _HASH_DIGITS - len(_SHORTENED))}{_SHORTENED}{digest}"


def short(text: str, most: int = MOST) -> str:
    """The text, or if it is too long its beginning: for texts that identify nothing."""
    return text if _units(text) <= most else f"{_beginning(text, most - len(_SHORTENED))}{_SHORTENED}"


def cell(text: str) -> str:
    """The text as a cell of a CSV file: a spreadsheet takes what begins like a formula for text.

    >>> cell("=1+1"), cell("-5.2"), cell("report")
    ("'=1+1", '-5.2', 'report')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _beginning(text: str, units: int) -> str:
    """The first UTF-16 units. A character of two units is not cut in half."""
    if text.isascii():
        return text[:units]
    raw = text.encode("utf-16-le", "surrogatepass")[: 2 * units]
    if 0xD8 <= raw[-1] <= 0xDB:
        raw = raw[:-2]
    return raw.decode("utf-16-le", "surrogatepass")
