"""Which Spark is found, and what is said where none is."""

from __future__ import annotations

import sys
import zipfile

import pytest

from spark_sched.attach.spark import find_spark, pyspark_version
from spark_sched.errors import BadInputError

JAR = "spark-core_2.13-4.3.0.jar"


@pytest.fixture
def nothing(monkeypatch):
    """A process without SPARK_HOME, pyspark and spark-submit."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [])
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def unpacked(tmp_path):
    """A Spark as a cluster has it."""
    home = tmp_path / "spark-4.3.0"
    for folder in ("bin", "jars", "python/pyspark"):
        (home / folder).mkdir(parents=True)
    (home / "jars" / JAR).touch()
    (home / "python" / "pyspark" / "__init__.py").touch()
    (home / "python" / "pyspark" / "version.py").write_text('__version__: str = "4.3.0"\n')
    submit = home / "bin" / "spark-submit"
    submit.touch(0o755)
    return home


def test_without_any_the_sentence_names_both_remedies(nothing):
    with pytest.raises(BadInputError, match=r"set SPARK_HOME, or run pip install 'spark-sched\[spark\]'"):
        find_spark()


def test_the_spark_of_the_submit_on_the_search_path(nothing, unpacked, monkeypatch, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    (links / "spark-submit").symlink_to(unpacked / "bin" / "spark-submit")
    monkeypatch.setenv("PATH", str(links))
    found = find_spark()
    assert (found.home, found.version) == (unpacked, "4.3.0")
    assert found.source == "the Spark of the spark-submit on PATH"
    assert pyspark_version() is None


def test_a_sparks_own_python_folder_is_part_of_it(nothing, unpacked, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(unpacked / "python")])
    assert find_spark().home == unpacked
    assert pyspark_version() == "4.3.0"


def test_the_version_of_a_pyspark_in_an_archive(nothing, unpacked, monkeypatch):
    archive = unpacked / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as target:
        for path in (unpacked / "python" / "pyspark").iterdir():
            target.write(path, f"pyspark/{path.name}")
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert pyspark_version() == "4.3.0"


def test_spark_home_counts_before_the_search_path(nothing, unpacked, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(unpacked))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_spark().source == "SPARK_HOME"
