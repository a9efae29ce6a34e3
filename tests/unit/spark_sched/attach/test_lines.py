"""The one list of Spark's lines, and what must agree with it."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spark_sched.attach import find_spark
from spark_sched.attach.compiler import plan_build, spark_lines
from tests import class_archive
from tests import spark_lines as spark_lines_of_tests
from tests.conftest import ROOT

_BRIDGE = ROOT / "jvm-bridge"
_POM = {"": "http://maven.apache.org/POM/4.0.0"}


def _numbers(line: str) -> list[int]:
    return [int(part) for part in line.split(".")]


def test_lines_are_in_order_and_their_versions_are_of_the_line():
    lines = spark_lines()
    assert [line.name for line in lines] == sorted((line.name for line in lines), key=_numbers)
    assert all(line.newest.startswith(f"{line.name}.") for line in lines)


def test_every_folder_of_sources_belongs_to_a_line():
    used = {folder for line in spark_lines() for folder in line.folders}
    assert used == {path.parents[1].name for path in _BRIDGE.glob("*/src/main")}


def test_the_installed_spark_is_one_of_them():
    assert find_spark().line in {line.name for line in spark_lines()}
    assert plan_build().scala


def test_the_class_archives_of_one_spark_replace_none_of_another(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_SCHED_CACHE_DIR", str(tmp_path))
    planned = plan_build()

    def family(**changes: object) -> str:
        spark = dataclasses.replace(planned.spark, **changes)
        monkeypatch.setattr(class_archive, "plan_build", lambda: dataclasses.replace(planned, spark=spark))
        return class_archive.path("stock").name.rpartition("-")[0]

    assert family(home=tmp_path) != family()
    assert family(version="4.3.9") == family()


def test_processes_that_want_the_same_spark_at_once_download_it_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_SCHED_CACHE_DIR", str(tmp_path))
    downloads: list[str] = []
    others: list[threading.Thread] = []

    def download(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        downloads.append(command[-1])
        if len(downloads) == 1:
            # They ask while it is not there yet.
            others.extend(
                threading.Thread(target=spark_lines_of_tests.unpacked, args=("9.9.1",)) for _ in "ab"
            )
            for other in others:
                other.start()
        _, _, folder = next(word for word in command if word.startswith("--dest=")).partition("=")
        files = Path(folder) / "pyspark-9.9.1"
        (files / "deps" / "jars").mkdir(parents=True)
        (files / "pyspark" / "python").mkdir(parents=True)
        with tarfile.open(f"{files}.tar.gz", "w:gz") as archive:
            archive.add(files, files.name)
        shutil.rmtree(files)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(spark_lines_of_tests.subprocess, "run", download)
    folder = spark_lines_of_tests.unpacked("9.9.1")
    for other in others:
        other.join()
    assert downloads == ["pyspark==9.9.1"]
    assert (folder / "pyspark" / "jars").is_dir()


def test_no_class_is_in_two_folders_of_a_line():
    for line in spark_lines():
        files = [
            path.relative_to(_BRIDGE / folder)
            for folder in line.folders
            for path in (_BRIDGE / folder).rglob("*.scala")
            if "main" in path.parts
        ]
        assert len(files) == len(set(files)), line.name


def test_core_makes_sequences_that_are_complete_and_its_own():
    # In Scala 2.12 `toSeq` of an iterator is evaluated later, and that of a buffer is the buffer itself.
    # `toList` copies at once in all versions.
    of_an_array = re.compile(r"(split\(.*\)|\.toArray)(\.\w+(\(.*\))?)*\.toSeq")
    later = [
        f"{path.name}:{at} {line.strip()}"
        for path in sorted((_BRIDGE / "core" / "src" / "main").rglob("*.scala"))
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\.toSeq\b", line) and not of_an_array.search(line)
    ]
    assert later == []


def test_pip_takes_the_pysparks_of_these_lines():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    least, most = re.search(r'"pyspark>=([\d.]+),<([\d.]+)"', project).groups()
    oldest, newest = (_numbers(spark_lines()[at].name) for at in (0, -1))
    assert (_numbers(least), _numbers(most)) == (oldest, [newest[0], newest[1] + 1])


@pytest.mark.parametrize("line", spark_lines(), ids=lambda line: line.name)
def test_maven_has_a_profile_for_each(line):
    pom = ElementTree.parse(_BRIDGE / "pom.xml").getroot()
    profiles = {p.findtext("id", namespaces=_POM): p for p in pom.iterfind("profiles/profile", _POM)}
    properties = profiles[f"spark-{line.name}"].find("properties", _POM)
    found = {element.tag.rpartition("}")[2]: element.text for element in properties}
    assert found["spark.version"] == line.newest
    assert found["scala.version"] == line.scala
    folders = [found.get(f"line.folder.{at}") for at in (1, 2, 3)]
    assert [folder for folder in folders if folder] == list(line.folders[1:])


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/attach.md", "jvm-bridge/README.md"])
def test_pages_name_the_oldest_and_the_newest(page):
    lines = spark_lines()
    assert f"{lines[0].name} to {lines[-1].name}" in (ROOT / page).read_text(encoding="utf-8")


def test_the_table_of_what_was_run_has_a_row_for_each():
    page = (ROOT / "docs" / "reference" / "spark-versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert rows == [(line.name, line.scala_line) for line in spark_lines()]
