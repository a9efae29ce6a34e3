"""Documentation that must agree with the code."""

from __future__ import annotations

import re

import check_links
import check_sizes
import pytest

from spark_sched import __version__
from spark_sched.cli.docs import REGENERATE as REGENERATE_CLI
from spark_sched.cli.docs import cli_page
from spark_sched.config.docs import REGENERATE, configuration_page
from spark_sched.policies import available
from spark_sched.policies import docs as policy_docs
from spark_sched.policies.docs import policies_page

DEMO_COMMAND = "pip install '.[demo]' && spark-sched demo"
TEST_COMMAND = "pip install -e '.[dev]' && pytest"


def test_the_configuration_page_is_what_the_declarations_generate(root):
    page = (root / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    assert page == configuration_page(), f"docs/reference/configuration.md is out of date: run `{REGENERATE}`"


def test_the_page_of_the_commands_is_what_they_generate(root):
    page = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == cli_page(), f"docs/reference/cli.md is out of date: run `{REGENERATE_CLI}`"


def test_the_page_of_the_policies_lists_every_policy(root):
    page = (root / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    assert sorted(set(available()) - set(re.findall(r"`([\w-]+)`", page))) == []


def test_the_policies_page_is_what_the_declarations_generate(root):
    page = (root / "docs" / "reference" / "policy-options.md").read_text(encoding="utf-8")
    assert page == policies_page(), (
        f"docs/reference/policy-options.md is out of date: run `{policy_docs.REGENERATE}`"
    )


def test_the_readme_has_the_two_commands(root):
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert f"\n{DEMO_COMMAND}\n" in readme
    assert f"\n{TEST_COMMAND}\n" in readme


def test_ci_runs_the_readmes_test_command(root):
    ci = (root / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(rf"^{re.escape(TEST_COMMAND)}$", ci, re.MULTILINE)


def test_every_local_link_leads_somewhere(root):
    assert [broken for page in check_links.pages([root]) for broken in check_links.broken_links(page)] == []


def test_every_decision_record_is_listed_and_numbered_in_order(root):
    records = sorted(path.name for path in (root / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in records] == list(range(1, len(records) + 1))
    index = (root / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    assert [name for name in records if f"({name})" not in index] == []


def test_the_changelog_begins_with_what_is_not_released(root):
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "dev" in __version__
    assert re.search(r"^## (.*)$", changelog, re.MULTILINE)[1] == "Unreleased"


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        pytest.param("[a](other.md)", False, id="a file that exists"),
        pytest.param("[a](other.md#two-words-and-code)", False, id="a heading that exists"),
        pytest.param("[a](#here)", False, id="a heading of the page itself"),
        pytest.param("[a](https://example.org/none)", False, id="another site"),
        pytest.param("```\n[a](none.md)\n```", False, id="code"),
        pytest.param("[a](none.md)", True, id="no such file"),
        pytest.param("[a](other.md#none)", True, id="no such heading"),
        pytest.param("![a](none.svg)", True, id="no such picture"),
    ],
)
def test_the_link_check_itself(tmp_path, link, broken):
    (tmp_path / "other.md").write_text("# One\n\n## Two words, and `code`\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n{link}\n")
    assert bool(list(check_links.broken_links(page))) is broken


def test_contributings_map_has_every_package(root):
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.search(r"```\n(spark_sched/ .*?)```", text, re.DOTALL)[1]
    for house in check_sizes.HOUSES:
        inits = [init for depth in ("*", "*/*") for init in (root / house).glob(f"{depth}/__init__.py")]
        parts = {init.parent.name for init in inits}
        assert sorted(part for part in parts if not re.search(rf"\b{part}\b", shown)) == []


def test_ci_runs_every_test_that_the_readmes_command_leaves_out(root):
    left_out = re.search(r'"-m", "([^"]*)"', (root / "pyproject.toml").read_text(encoding="utf-8"))[1]
    ci = (root / ".ci" / "run").read_text(encoding="utf-8")
    marks = re.findall(r'^pytest -m (\w+|"[^"]*")', ci, re.MULTILINE)
    assert left_out == "not slow"
    assert marks == ["slow"]


def test_how_many_examples_hypothesis_tries_is_the_profiles_matter(root):
    own = [path for path in (root / "tests").rglob("test_*.py") if "max_examples=" in path.read_text("utf-8")]
    assert own == [root / "tests" / "unit" / "test_docs.py"]
