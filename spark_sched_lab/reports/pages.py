"""Reports as self-contained HTML pages, from templates of this package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from spark_sched.plain_text import plain

if TYPE_CHECKING:
    from markupsafe import Markup


def render_page(template: str | Path, **values: object) -> str:
    """A template with ``values``; a value that is missing is an error.

    Args:
        template: name of one in this package's folder ``templates``; or the path of another one, which may
            include those.
    """
    from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

    loaders: list[BaseLoader] = [PackageLoader("spark_sched_lab.reports")]
    if isinstance(template, Path):
        loaders.append(FileSystemLoader(template.parent))
        template = template.name
    environment = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_plain,
    )
    environment.filters["code"] = _code
    page = environment.get_template(template).render(**values)
    # Halves of surrogate pairs, which JSON texts may hold, cannot be written.
    return page.encode("utf-8", "replace").decode("utf-8")


def _plain(value: object) -> object:
    """A text of strangers, such as a job's name, can hide or turn around nothing on the page. Lines of a text
    that is longer than one stay."""
    from markupsafe import Markup

    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(map(plain, value.split("\n")))


def _code(text: str) -> Markup:
    """Text whose parts between backticks are code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_plain(text)))))
