"""Building the bridge, on a one-object source tree of its own."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spark_sched.attach import BridgeError, build, find_spark
from spark_sched.attach.compiler import compile_bridge, plan_build
from spark_sched.errors import BadInputError

_GOOD = 'package x\nobject Hello { def main(a: Array[String]): Unit = println("hello " + a.length) }\n'
_RESOURCE = "META-INF/services/org.example.Service"


def write_sources(root: Path, scala: str = _GOOD, line: str = "4.3", scala_version: str = "2.13.18") -> Path:
    core = root / "core" / "src" / "main"
    (core / "scala").mkdir(parents=True)
    (core / "scala" / "Hello.scala").write_text(scala)
    (core / "resources" / _RESOURCE).parent.mkdir(parents=True)
    (core / "resources" / _RESOURCE).write_text("x.Hello\n")
    shim = root / f"spark-{line}" / "src" / "main" / "scala"
    shim.mkdir(parents=True)
    (shim / "Shim.scala").write_text("package x\nobject Shim\n")
    entry = {"line": line, "scala": scala_version, "newest": f"{line}.0", "folders": ["core", shim.parts[-4]]}
    (root / "lines.json").write_text(json.dumps([entry]))
    return root


@pytest.fixture
def sources(tmp_path):
    return write_sources(tmp_path / "sources")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("SPARK_SCHED_CACHE_DIR", str(directory))
    return directory


def test_a_jar_is_compiled_once_and_holds_classes_and_resources(sources, cache, monkeypatch):
    jar = build(sources=sources)
    assert jar.parent == cache
    assert {"x/Hello.class", _RESOURCE} <= set(zipfile.ZipFile(jar).namelist())
    # Compiling again would need Java, which is out of reach now.
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert build(sources=sources) == jar


def test_folders_of_the_working_directory_are_no_packages(tmp_path, monkeypatch):
    # As in `/`, where a container starts: `/sys` must not hide Scala's `sys`.
    (tmp_path / "sys").mkdir()
    monkeypatch.chdir(tmp_path)
    uses_sys = 'package x\nobject Hello { def home: Option[String] = sys.env.get("HOME") }\n'
    planned = plan_build(sources=write_sources(tmp_path / "sources", uses_sys))
    jar = compile_bridge(planned, tmp_path / "a" / "x.jar")
    assert "x/Hello.class" in zipfile.ZipFile(jar).namelist()


def test_two_compilations_give_the_same_bytes_and_leave_nothing_else(sources, tmp_path):
    planned = plan_build(sources=sources)
    first = compile_bridge(planned, tmp_path / "a" / "x.jar").read_bytes()
    second = compile_bridge(planned, tmp_path / "b" / "x.jar").read_bytes()
    assert first == second
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["x.jar"]


def test_processes_that_start_at_once_compile_once(sources, cache):
    program = (
        "import sys; from pathlib import Path; from spark_sched.attach import build;"
        "print(build(sources=Path(sys.argv[1])))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(sources)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    ended = [process.communicate(timeout=900) for process in started]
    assert len({stdout for stdout, _ in ended}) == 1
    assert [process.returncode for process in started] == [0, 0, 0]
    assert sum("compiling the bridge" in stderr for _, stderr in ended) == 1


def test_the_name_changes_with_any_source_or_resource(sources):
    names = {plan_build(sources=sources).jar_name}
    (sources / "core/src/main/scala/Hello.scala").write_text(_GOOD + "\n")
    names.add(plan_build(sources=sources).jar_name)
    (sources / "core/src/main/resources" / _RESOURCE).write_text("x.Other\n")
    names.add(plan_build(sources=sources).jar_name)
    assert len(names) == 3
    assert all(name.startswith(f"spark-sched-bridge_{find_spark().version}_") for name in names)


def test_the_name_changes_with_the_jars_of_the_spark(sources, tmp_path):
    # A vendor's Spark may have the version of a release.
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for jar in find_spark().jars.iterdir():
        (home / "jars" / jar.name).symlink_to(jar)
    release = plan_build(home, sources=sources).jar_name
    assert release == plan_build(sources=sources).jar_name
    (core,) = (home / "jars").glob("spark-core_*.jar")
    content = core.read_bytes()
    core.unlink()
    core.write_bytes(content + b"vendor")
    assert plan_build(home, sources=sources).jar_name != release


def test_a_wheels_bridge_is_compiled_for_a_release_that_was_tried(sources):
    planned = plan_build(sources=sources)
    planned.require_tried()
    vendors = dataclasses.replace(planned, spark=dataclasses.replace(planned.spark, version="4.3.0-amzn-0"))
    with pytest.raises(
        BadInputError, match=r"Spark 4\.3\.0-amzn-0 at .* is no release of line 4\.3 that was"
    ):
        vendors.require_tried()


def test_what_the_compiler_says_is_shown_in_full_and_no_jar_is_left(tmp_path, cache):
    broken = write_sources(
        tmp_path / "broken", "package x\nobject A { val n: Int = nonsense; val m: Int = absent }\n"
    )
    with pytest.raises(BridgeError) as refused:
        build(sources=broken)
    assert "not found: value nonsense" in str(refused.value)
    assert "not found: value absent" in str(refused.value)
    assert list(cache.glob("*.jar")) == []


def test_a_line_of_spark_without_a_shim_names_those_with_one(tmp_path):
    other = write_sources(tmp_path / "other", line="3.5")
    with pytest.raises(
        BadInputError, match=r"Spark 4\.3\.\d+ at .* is not supported: use a Spark of line 3.5"
    ):
        plan_build(sources=other)


def test_a_spark_for_another_scala_is_refused(tmp_path):
    other = write_sources(tmp_path / "other", scala_version="2.12.18")
    with pytest.raises(BadInputError, match=r"is built for Scala 2\.13, but of its line only Scala 2\.12"):
        plan_build(sources=other)


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    folder = tmp_path / "jars"
    folder.mkdir()
    monkeypatch.setattr("spark_sched.attach.cache._PACKAGED", folder)
    return folder


def test_a_wheels_jar_of_the_line_and_the_sources_wins(sources, cache, packaged):
    jar = packaged / plan_build(sources=sources).line_jar_name
    assert jar.name.startswith("spark-sched-bridge_4.3_2.13_")
    jar.write_bytes(b"")
    assert build(sources=sources) == jar
    # … but not one of other sources.
    jar.rename(packaged / "spark-sched-bridge_4.3_2.13_0000000000000000.jar")
    assert build(sources=sources).parent == cache


def test_a_wheels_jar_is_not_used_where_the_variable_says_so(sources, cache, packaged, monkeypatch):
    (packaged / plan_build(sources=sources).line_jar_name).write_bytes(b"")
    monkeypatch.setenv("SPARK_SCHED_COMPILE", "1")
    assert build(sources=sources).parent == cache


@pytest.mark.parametrize(
    ("version", "fits"),
    [("4.3.0", True), ("4.3.2", True), ("4.3.10", False), ("4.3.2-vendor.1", False), ("4.3.0.dev1", False)],
)
def test_a_wheels_jar_fits_the_releases_that_were_tried(sources, version, fits):
    planned = plan_build(sources=sources)
    spark = dataclasses.replace(planned.spark, version=version)
    assert dataclasses.replace(planned, spark=spark, newest="4.3.2").is_tried_release is fits


def test_a_cache_that_cannot_be_written_is_one_sentence(sources, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPARK_SCHED_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(BadInputError, match="cannot be written .* set SPARK_SCHED_CACHE_DIR to one that can"):
        build(sources=sources)


def test_a_full_disk_is_one_sentence_and_not_what_the_compiler_says_of_it(
    sources, cache, tmp_path, monkeypatch
):
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'version "17.0.2"\' >&2; exit 0; fi\n'
        "echo 'error: error writing x/Hello.class: java.io.IOException: No space left on device'; exit 1\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    with pytest.raises(BadInputError, match="cannot be written .No space left on device.: set SPARK_SCHED"):
        build(sources=sources)
    assert not list(cache.glob("*.jar"))


@pytest.mark.parametrize(
    ("java", "sentence"),
    [
        pytest.param(None, "holds no bin/java: point it at a Java 17 or newer", id="no Java there"),
        pytest.param(
            "echo 'version \"11.0.2\"' >&2", "is Java 11, but Spark needs 17 or newer", id="Java 11"
        ),
        pytest.param("echo 'version \"1.8.0_4\"' >&2", "is Java 8, but Spark needs 17 or newer", id="Java 8"),
        pytest.param("exit 1", "does not run", id="a Java that fails"),
    ],
)
def test_a_java_that_will_not_do_is_one_sentence(sources, cache, tmp_path, monkeypatch, java, sentence):
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    if java is not None:
        (home / "bin" / "java").write_text(f"#!/bin/sh\n{java}\n")
        (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(BadInputError, match=sentence):
        build(sources=sources)


def test_no_java_at_all_is_one_sentence(sources, cache, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadInputError, match="no Java was found .* install Java 17 or newer"):
        build(sources=sources)


def test_a_spark_home_without_spark_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(BadInputError, match="SPARK_HOME is .* which holds no jars/spark-core"):
        plan_build()
