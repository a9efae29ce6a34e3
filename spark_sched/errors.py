"""Errors that the user can fix, and the hint that goes with them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from spark_sched.plain_text import plain


class BadInputError(ValueError):
    """The user's input is wrong.

    The message is one sentence that names the input, the value and the remedy. The command line prints it
    and exits with 2; no traceback. Texts of strangers in it control no terminal (`plain_text.plain`).
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(plain(sentence))


class SparkSchedWarning(UserWarning):
    """Something works differently from what the user may expect."""


class UnusedMarkWarning(SparkSchedWarning):
    """No work ran under a mark, perhaps because it ran in threads that do not inherit marks."""


def nearest(value: str, options: Iterable[str]) -> str | None:
    """The option that ``value`` is most likely a typing error of, or None if none is similar."""
    folded = {option.casefold(): option for option in options}
    near = difflib.get_close_matches(value.casefold(), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def did_you_mean(value: str, options: Iterable[str]) -> str:
    """A hint ``" (did you mean 'x'?)"`` for the option nearest to ``value``; empty if none is near.

    The leading space lets a caller append it to a sentence's clause whether or not there is a hint.
    """
    near = nearest(value, options)
    return f" (did you mean {near!r}?)" if near else ""


def check_one_of(what: str, value: str, options: Iterable[str]) -> None:
    """Raise BadInputError unless ``value`` is one of ``options``; the sentence begins with ``what`` it is."""
    known = tuple(options)
    if value not in known:
        hint = did_you_mean(value, known)
        raise BadInputError(f"{what} is {value!r}{hint} but must be one of {', '.join(known)}")
