"""What the nightly check says of a newer Spark: which versions it takes, and what it finds missing in one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import newest_spark
import pytest
from newest_spark import Classes, broken_links, finding, order, refusals, untried

from spark_sched.attach import find_spark
from spark_sched.attach.compiler import SparkLine
from spark_sched.errors import BadInputError

LINES = [SparkLine("4.2", "2.13.18", "4.2.1", ()), SparkLine("4.3", "2.13.18", "4.3.0", ())]
SCHEDULER = "org/apache/spark/scheduler/TaskScheduler"
IMPLEMENTATION = "org/apache/spark/scheduler/TaskSchedulerImpl"


def test_versions_are_in_the_order_of_their_release():
    wanted = ["4.3.0", "4.3.1", "4.4.0.dev1", "4.4.0.dev2", "4.4.0rc1", "4.4.0", "4.10.0"]
    assert sorted({*wanted}, key=order) == wanted


@pytest.mark.parametrize("version", ["4.4", "newest", "4.4.0.post1"])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(BadInputError, match="must look like 4.4.0"):
        order(version)


@pytest.mark.parametrize(
    ("published", "checked"),
    [
        (["4.3.0", "4.2.1", "4.2.0", "4.3.0.dev1", "3.4.4", "2.2.0.post0"], []),
        (["4.2.3", "4.2.2", "4.3.0"], ["4.2.3"]),
        (["4.4.0.dev1", "4.4.0.dev2", "4.3.1", "4.3.0"], ["4.3.1", "4.4.0.dev2"]),
        (["5.0.0", "4.4.1", "4.3.0"], ["5.0.0"]),
    ],
    ids=["nothing newer", "a newer patch", "a newer line, not released yet", "the newest of newer lines"],
)
def test_the_newest_of_each_line_and_of_all_later_ones_is_checked(published, checked):
    assert untried(published, LINES) == checked


def jars(folder: Path, **classes: bytes) -> Classes:
    folder.mkdir()
    with zipfile.ZipFile(folder / "spark.jar", "w") as archive:
        for name, data in classes.items():
            archive.writestr(f"org/apache/spark/scheduler/{name}.class", data)
    return Classes(folder)


@pytest.fixture(scope="module")
def real() -> dict[str, bytes]:
    """Class files of the installed Spark."""
    (core,) = find_spark().jars.glob("spark-core_*.jar")
    with zipfile.ZipFile(core) as archive:
        return {
            name: archive.read(f"org/apache/spark/scheduler/{name}.class")
            for name in ("TaskScheduler", "TaskSchedulerImpl", "Pool", "Schedulable")
        }


LINKS = (
    f"{SCHEDULER} defaultParallelism()I",
    f"{IMPLEMENTATION} defaultParallelism()I override",
    f"{IMPLEMENTATION} maxTaskFailures()I",
    "org/apache/spark/scheduler/Pool parent()Lorg/apache/spark/scheduler/Pool;",
    # Java's: no jar of Spark has it.
    f"{IMPLEMENTATION} hashCode()I",
    "[Lorg/apache/spark/scheduler/Pool;",
)


def test_nothing_is_found_in_the_same_spark(tmp_path, real):
    assert broken_links(LINKS, jars(tmp_path / "a", **real), jars(tmp_path / "b", **real)) == []


def test_a_missing_class_a_missing_method_and_another_signature_are_named(tmp_path, real):
    def changed(name: str, old: bytes, new: bytes) -> bytes:
        assert old in real[name]
        assert len(old) == len(new)
        return real[name].replace(old, new)

    other = {
        "TaskScheduler": changed("TaskScheduler", b"defaultParallelism", b"defaultConcurrency"),
        "TaskSchedulerImpl": changed("TaskSchedulerImpl", b"maxTaskFailures", b"maxTaskFailurez"),
        "Schedulable": real["Schedulable"],
    }
    now = jars(tmp_path / "b", **other)
    assert broken_links(LINKS, jars(tmp_path / "a", **real), now) == [
        "class org.apache.spark.scheduler.Pool is missing",
        "org.apache.spark.scheduler.TaskScheduler.defaultParallelism is missing",
        "org.apache.spark.scheduler.TaskSchedulerImpl.maxTaskFailures is missing",
    ]
    said = finding(f"{IMPLEMENTATION} defaultParallelism()J", now)
    assert said == (
        "org.apache.spark.scheduler.TaskSchedulerImpl.defaultParallelism has another signature: "
        "()I instead of ()J"
    )


def test_a_method_that_became_private_to_its_class_cannot_be_overridden(tmp_path, real):
    name = next(
        member
        for member, flags in jars(tmp_path / "a", **real).get(IMPLEMENTATION).members.items()
        if flags & 0x2 and "(" in member
    )
    said = finding(f"{IMPLEMENTATION} {name} override", jars(tmp_path / "b", **real))
    assert said is not None
    assert said.endswith("can no longer be overridden")


def test_each_error_of_the_compiler_is_a_sentence():
    said = """the Scala compiler of Spark 4.4.0 refused the bridge's sources (exit status 1):
/x/jvm-bridge/core/src/main/scala/a/B.scala:12: error: value shuffleOffers is not a member of C
    super.shuffleOffers(x)
          ^
/x/jvm-bridge/core/src/main/scala/a/B.scala:20: warning: old
/x/jvm-bridge/core/src/main/scala/a/D.scala:3: error: type mismatch;
two errors found"""
    assert refusals(said) == [
        "core/src/main/scala/a/B.scala, line 12: value shuffleOffers is not a member of C",
        "core/src/main/scala/a/D.scala, line 3: type mismatch;",
    ]


def test_the_list_ends_where_it_is_told_to(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["newest_spark.py", "--until", "1.0"])
    with pytest.raises(SystemExit) as ended:
        newest_spark.main()
    assert ended.value.code == 2
    assert "--until is '1.0' but must be one of 3.5, 4.0" in capsys.readouterr().err
