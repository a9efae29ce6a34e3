"""Reports as self-contained HTML pages, from templates of this package."""

from __future__ import annotations

__all__ = ["render_page"]


def render_page(template: str, **values: object) -> str:
    """``template`` of the folder ``templates`` with ``values``; a value that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("spark_sched.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template).render(**values)
