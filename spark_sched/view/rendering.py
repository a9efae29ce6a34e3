"""How a status prints itself: `text` and `html` register a function for each class that they can show."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def as_text(value: object) -> str:
    """For terminals; lines without the last line's end."""
    raise NotImplementedError(f"no text is registered for {type(value).__name__}")


@singledispatch
def as_html(value: object) -> str:
    """For notebooks."""
    raise NotImplementedError(f"no HTML is registered for {type(value).__name__}")
