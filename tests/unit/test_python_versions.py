"""The oldest Python that is promised: in the package, in the pages, in tools' settings, and by pyspark."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import check_install
import pytest
from packaging.specifiers import SpecifierSet

from spark_sched import isolated
from spark_sched.cli import doctor

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OLDEST = check_install.oldest_promised((ROOT / "pyproject.toml").read_text())
TEXT = ".".join(map(str, OLDEST))


def test_pyspark_can_be_installed_on_every_promised_python_and_no_older_one_is_left_out() -> None:
    needed = SpecifierSet(metadata.metadata("pyspark")["Requires-Python"])
    assert TEXT in needed
    assert f"{OLDEST[0]}.{OLDEST[1] - 1}" not in needed


def test_what_pip_reads_is_what_the_project_says() -> None:
    promise = PYPROJECT["project"]["requires-python"]
    assert metadata.metadata("spark-sched")["Requires-Python"] == promise


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/tutorial/first-isolated-job.md", ".ci/run"]
)
def test_the_pages_name_the_oldest_python(page: str) -> None:
    named = re.findall(r"Python (3\.\d+) or\s+newer", (ROOT / page).read_text())
    assert named == [TEXT]


def test_tools_check_for_the_oldest_python() -> None:
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{OLDEST[0]}{OLDEST[1]}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == TEXT
    assert doctor._MIN_PYTHON == OLDEST
    assert isolated.OLDEST == OLDEST
    assert [each for each in PYPROJECT["project"]["dependencies"] if "python_version" in each] == []


@pytest.mark.parametrize(
    ("found", "versions", "skipped"),
    [
        ([(3, 8), (3, 11), (3, 12), (3, 13)], [(3, 11), (3, 13)], []),
        ([(3, 11)], [(3, 11)], ["no Python newer than 3.11"]),
        ([(3, 12), (3, 13)], [(3, 12), (3, 13)], ["Python 3.11, the oldest promised one"]),
        ([(3, 10)], [], ["Python 3.11, the oldest promised one", "no Python newer than 3.11"]),
    ],
    ids=["oldest and newest", "one alone", "without the oldest", "none"],
)
def test_ci_installs_on_the_oldest_and_the_newest_of_the_machine(
    found: list[tuple[int, int]], versions: list[tuple[int, int]], skipped: list[str]
) -> None:
    chosen, sentences = check_install.chosen(found, (3, 11))
    assert chosen == versions
    assert len(sentences) == len(skipped)
    assert all(part in sentence for part, sentence in zip(skipped, sentences, strict=True))
    assert all(sentence.startswith("skipped: ") for sentence in sentences)
