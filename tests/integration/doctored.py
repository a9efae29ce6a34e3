"""Jars of which something was changed, as in a vendor's build of Spark or after an upgrade."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from spark_sched.attach import find_spark

_LINKS = "org/apache/spark/scheduler/sparksched/spark-links.txt"


def spark_with_renamed(class_name: str, member: str, jar: Path) -> Path:
    """A jar with Spark's class, its own uses of the member included, under another name of that member.

    The class itself works as before if no other class uses the member.
    """
    file = f"{class_name}.class"
    old, new = member.encode(), member[::-1].encode()
    # The only constant that is exactly this text: CONSTANT_Utf8, length, bytes.
    constant = struct.pack(">BH", 1, len(old))
    for path in sorted(find_spark().jars.glob("spark-*.jar")):
        with zipfile.ZipFile(path) as archive:
            if file not in archive.namelist():
                continue
            content = archive.read(file)
        assert content.count(constant + old) == 1
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr(file, content.replace(constant + old, constant + new))
        return jar
    raise AssertionError(f"Spark has no {class_name}")


def bridge_for(version: str, bridge: str, jar: Path) -> Path:
    """A copy of the bridge that says it was compiled for this version of Spark."""
    with zipfile.ZipFile(bridge) as source, zipfile.ZipFile(jar, "w") as copy:
        for name in source.namelist():
            content = source.read(name)
            if name == _LINKS:
                content = version.encode() + content[content.index(b"\n") :]
            copy.writestr(name, content)
    return jar
