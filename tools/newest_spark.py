"""Compiles the bridge against Sparks that are newer than those it was tried on, and says what breaks.

    python tools/newest_spark.py [--version VERSION]… [--until LINE]

Without ``--version`` these are the package index's newest pyspark of each line, pre-releases included, if it
is newer than the line's ``newest`` in ``jvm-bridge/lines.json``, and the newest of all later lines. The first
run downloads them (about 450 MB each). A line that is not listed is compiled from the sources of the newest
listed one. ``--until 4.2`` reads the list as if it ended with that line. There are two checks:

1. Each class, method and field of Spark that the bridge of the newest listed release uses or overrides is
   looked for in the new Spark. One that is missing, or has another signature, is a finding.
2. The Scala compiler of the new Spark compiles the sources. Each of its errors is a finding.

Exits with 0 if nothing breaks, 1 if something does, 2 if a Spark cannot be downloaded.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from spark_sched.attach import BridgeError, build  # noqa: E402 - from this checkout
from spark_sched.attach.compiler import SparkLine, compile_bridge, plan_build, spark_lines  # noqa: E402
from spark_sched.errors import BadInputError  # noqa: E402
from tests.spark_lines import home  # noqa: E402

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:\.?(dev|a|b|rc)(\d+))?")
_PRE_RELEASES = ("dev", "a", "b", "rc")
_LIST = "org/apache/spark/scheduler/sparksched/spark-links.txt"
_FINAL, _STATIC, _PRIVATE = 0x10, 0x8, 0x2
_SHOWN = 40
_OVERRIDE = "override"


# --- which Sparks


def order(version: str) -> tuple[int, ...]:
    """Sorts versions: 4.4.0.dev1 before 4.4.0rc1 before 4.4.0."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise BadInputError(f"version is {version!r} but must look like 4.4.0 or 4.4.0.dev1")
    stage = _PRE_RELEASES.index(found[4]) if found[4] else len(_PRE_RELEASES)
    return (*map(int, found.group(1, 2, 3)), stage, int(found[5] or 0))


def line_of(version: str) -> str:
    return ".".join(map(str, order(version)[:2]))


def untried(versions: Iterable[str], lines: list[SparkLine]) -> list[str]:
    """The newest version of each line, if it is newer than those tried, and the newest of all later lines."""
    tried = {line.name: order(line.newest) for line in lines}
    last = max(tried.values())
    newest: dict[str, str] = {}
    for version in filter(_VERSION.fullmatch, versions):
        line = line_of(version)
        # Lines that are older than the oldest listed one are not supported.
        if order(version) > tried.get(line, last):
            known = line if line in tried else "later"
            newest[known] = max(newest.get(known, version), version, key=order)
    return sorted(newest.values(), key=order)


def published() -> list[str]:
    """All versions of pyspark that the package index has. Raises BadInputError if pip cannot ask it."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--pre", "pyspark"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise BadInputError(f"pip cannot list the versions of pyspark: {said[-1]}")
    return found[1].split(", ")


# --- what the bridge needs of Spark


@dataclass(frozen=True)
class ClassFile:
    """Parents and members (name and descriptor, with access flags). JVM Specification, chapter 4."""

    parents: tuple[str, ...]
    members: dict[str, int]

    @classmethod
    def parse(cls, data: bytes) -> ClassFile:
        (size,) = struct.unpack_from(">H", data, 8)
        texts: dict[int, str] = {}
        names: dict[int, int] = {}
        at, index = 10, 1
        while index < size:
            tag = data[at]
            if tag == 1:
                (length,) = struct.unpack_from(">H", data, at + 1)
                texts[index] = data[at + 3 : at + 3 + length].decode("utf-8", errors="replace")
                at += 3 + length
            else:
                if tag == 7:
                    (names[index],) = struct.unpack_from(">H", data, at + 1)
                at += {5: 9, 6: 9, 7: 3, 8: 3, 15: 4, 16: 3, 19: 3, 20: 3}.get(tag, 5)
            index += 2 if tag in (5, 6) else 1  # long and double take two entries
        count = struct.unpack_from(">H", data, at + 6)[0]
        above = [*struct.unpack_from(f">{count}H", data, at + 8)]
        above = [*struct.unpack_from(">H", data, at + 4), *above]
        at += 8 + 2 * count
        members: dict[str, int] = {}
        for separator in (":", ""):
            (left,) = struct.unpack_from(">H", data, at)
            at += 2
            for _ in range(left):
                flags, name, descriptor, attributes = struct.unpack_from(">4H", data, at)
                members[f"{texts[name]}{separator}{texts[descriptor]}"] = flags
                at += 8
                for _ in range(attributes):
                    at += 6 + struct.unpack_from(">I", data, at + 2)[0]
        return cls(tuple(texts[names[each]] for each in above if each), members)


class Classes:
    """The classes in the jars of a folder, each read when it is asked for."""

    def __init__(self, jars: Path) -> None:
        self._archives = [zipfile.ZipFile(path) for path in sorted(jars.glob("*.jar"))]
        self._place = {name: archive for archive in self._archives for name in archive.namelist()}
        self._read: dict[str, ClassFile | None] = {}

    def get(self, name: str) -> ClassFile | None:
        if name not in self._read:
            archive = self._place.get(f"{name}.class")
            self._read[name] = None if archive is None else ClassFile.parse(archive.read(f"{name}.class"))
        return self._read[name]

    def ancestry(self, name: str) -> Iterator[ClassFile]:
        """The class and all that it inherits from, as far as they are in these jars."""
        found = self.get(name)
        if found is not None:
            yield found
            for parent in found.parents:
                yield from self.ancestry(parent)

    def flags(self, owner: str, member: str) -> int | None:
        found = (each.members[member] for each in self.ancestry(owner) if member in each.members)
        return next(found, None)

    def signatures(self, owner: str, start: str) -> list[str]:
        """Descriptors of the members that start so: a name, then ``(`` of a method or ``:`` of a field."""
        members = {member for each in self.ancestry(owner) for member in each.members}
        return sorted(member[len(start) - 1 :] for member in members if member.startswith(start))


def finding(link: str, spark: Classes) -> str | None:
    """A sentence on what a line of the bridge's list lacks in this Spark; None: it is all there."""
    owner, _, rest = link.partition(" ")
    if owner.startswith("["):
        return None
    shown = owner.replace("/", ".")
    if spark.get(owner) is None:
        return f"class {shown} is missing"
    member, _, how = rest.partition(" ")
    if not member:
        return None
    flags = spark.flags(owner, member)
    if flags is not None:
        if how == _OVERRIDE and flags & (_FINAL | _STATIC | _PRIVATE):
            return f"{shown}.{re.split('[(:]', member)[0]} can no longer be overridden"
        return None
    name = re.split("[(:]", member)[0]
    others = spark.signatures(owner, member[: len(name) + 1])
    if not others:
        return f"{shown}.{name} is missing"
    return f"{shown}.{name} has another signature: {' or '.join(others)} instead of {member[len(name) :]}"


def broken_links(links: Iterable[str], before: Classes, now: Classes) -> list[str]:
    """What the list finds in one Spark and not in the other. What the first lacks is Java's."""
    return sorted(
        {said for link in links if finding(link, before) is None and (said := finding(link, now)) is not None}
    )


def links_of(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as archive:
        return archive.read(_LIST).decode().splitlines()[1:]


def refusals(said: str) -> list[str]:
    """A sentence for each error of the Scala compiler."""
    found = re.findall(r"^(?:\S*/jvm-bridge/)?(\S+\.scala):(\d+): error: (.*)$", said, re.MULTILINE)
    return [f"{file}, line {number}: {message}" for file, number, message in found]


# --- the check


def check(version: str, lines: list[SparkLine]) -> list[str]:
    """What breaks if the bridge meets this Spark, as sentences; none if it compiles and all links hold."""
    new = home(version)
    line = next((each for each in lines if each.name == line_of(version)), lines[-1])
    tried = home(line.newest)
    found = broken_links(links_of(build(tried)), Classes(tried / "jars"), Classes(new / "jars"))
    with tempfile.TemporaryDirectory(prefix="newest-") as scratch:
        try:
            compile_bridge(plan_build(new, line=line), Path(scratch) / "bridge.jar")
        except (BridgeError, BadInputError) as error:
            found += refusals(str(error)) or [str(error)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="append", default=[])
    parser.add_argument("--until", metavar="LINE")
    given = parser.parse_args()
    breaks = False
    try:
        lines = spark_lines()
        names = [line.name for line in lines]
        if given.until is not None:
            if given.until not in names:
                raise BadInputError(f"--until is {given.until!r} but must be one of {', '.join(names)}")
            lines = lines[: names.index(given.until) + 1]
        versions = given.version or untried(published(), lines)
        if not versions:
            print(
                f"the package index has no pyspark newer than those tried; the newest is {lines[-1].newest}"
            )
        for version in versions:
            found = check(version, lines)
            if not found:
                print(f"Spark {version}: the bridge compiles, and all that it uses of Spark is there")
                continue
            breaks = True
            print(f"Spark {version}: {len(found)} findings")
            for sentence in found[:_SHOWN]:
                print(f"- {sentence}")
            if len(found) > _SHOWN:
                print(f"- … and {len(found) - _SHOWN} more")
    except (BadInputError, BridgeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if breaks else 0)


if __name__ == "__main__":
    main()
