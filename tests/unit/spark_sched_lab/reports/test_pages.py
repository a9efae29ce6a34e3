"""Pages from templates, of this package and elsewhere."""

from __future__ import annotations

from spark_sched_lab.reports.pages import render_page


def test_a_template_elsewhere_may_include_those_of_the_package(tmp_path, root):
    path = tmp_path / "own.html.j2"
    path.write_text('{{ name }}{% include "page.css" %}')
    css = (root / "spark_sched_lab/reports/templates/page.css").read_text()
    assert render_page(path, name="a<b").strip() == f"a&lt;b{css}".strip()


def test_the_lab_uses_every_template_that_its_wheel_has(root):
    code = "".join(path.read_text() for path in (root / "spark_sched_lab").rglob("*.py"))
    templates = sorted((root / "spark_sched_lab/reports/templates").glob("*.j2"))
    assert templates
    assert [path.name for path in templates if f'"{path.name}"' not in code] == []
