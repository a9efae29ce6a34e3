"""Recognizes the format of a file or folder, so that a wrong format is rejected by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from spark_sched.errors import BadInputError
from spark_sched.files import kind_of
from spark_sched_lab.traces.lines import Truncated, blocks, read_head
from spark_sched_lab.traces.readers.google2011 import Google2011JobsReader
from spark_sched_lab.traces.readers.json_values import document_of, is_spread, json_keys
from spark_sched_lab.traces.readers.spark_files import EVENT, find_logs

_PEEK_LINES = 40
_SWF_STATUS = {b"-1", b"0", b"1", b"2", b"3", b"4", b"5"}
_NUMBERS = re.compile(rb"^-?\d+(\.\d*)?([eE][-+]?\d+)?$")
_ALIBABA_STATUS = {b"Terminated", b"Failed", b"Running", b"Waiting", b"Interrupted", b"Cancelled", b"Ready"}


def looks_like(path: Path) -> tuple[str | None, str]:
    """``(format name or None, what it looks like in words)``.

    Raises:
        BadInputError: ``path`` does not exist, is neither file nor folder, cannot be read, is empty, or is
            damaged or foreign gzip/zstd data.
    """
    kind = kind_of(path)
    if kind == "a folder":
        return _folder(path)
    if kind == "missing":
        if find_logs(path).logs:
            return "spark_eventlog", "the parts of a Spark event log"
        raise BadInputError(f"{path} does not exist: check the path")
    if kind is not None:
        raise BadInputError(f"{path} is {kind}, and only regular files and folders are read: give a file")
    head = read_head(path, 512)
    if not head:
        raise BadInputError(f"{path} is empty: check that it was copied whole")
    if head.startswith(b"PAR1"):
        from spark_sched_lab.traces.parquet_io import read_meta

        read_meta(path)
        return "parquet", "a trace of this project"
    if head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return None, "a Python pickle (never unpickled here; convert it to CSV)"
    block = _first_block(path)
    if block[257:262] == b"ustar":
        if b"StageDetails.csv" in block or b"JobDetails.csv" in block:
            return "spark_polimi", "Polimi's Spark stage tables"
        return None, "a tar archive without StageDetails.csv"
    return _text(block)


def _first_block(path: Path) -> bytes:
    try:
        return next(blocks(path), b"")
    except Truncated:
        return b""


def _folder(path: Path) -> tuple[str | None, str]:
    names = {p.name for p in path.iterdir()}
    if names & {"job_events", "task_events"} or path.name in ("job_events", "task_events"):
        return "google2011", "Google 2011 event tables"
    if any(n.startswith(("collection_events", "instance_events")) for n in names):
        return "google2019", "Google 2019 event tables"
    if next(path.rglob("StageDetails.csv"), None) is not None:
        return "spark_polimi", "Polimi's Spark stage tables"
    if find_logs(path).logs:
        return "spark_eventlog", "Spark event logs"
    shown = ", ".join(sorted(names)[:4]) or "nothing"
    return None, f"a folder without a trace that this reads (it has {shown}): name one file in it"


def _text(block: bytes) -> tuple[str | None, str]:
    lines = [line for line in block[: 1 << 20].split(b"\n")[:_PEEK_LINES] if line.strip()]
    if not lines:
        return None, "compressed data without a line of text"
    first = lines[0].strip(b"\r\n")
    if EVENT.match(first):
        return "spark_eventlog", "a Spark event log"
    if is_spread(block):
        if "Event" in json_keys(block):
            return "spark_eventlog", "a Spark event log whose events span lines"
        return None, document_of(block) or "damaged JSON"
    if first.lstrip().startswith(b"{"):
        return _json(first)
    if first.lstrip().startswith(b";"):
        return "swf", "the Standard Workload Format"
    if first == Google2011JobsReader.HEADER:
        return "google2011_jobs", "the per-job table of Google 2011"
    cells = [c.strip() for c in first.split(b",")]
    if b"collection_id" in cells:
        return "google2019", "a Google 2019 event table"
    if {b"name", b"job", b"instances", b"status"} <= set(cells):
        return "alibaba2018", "Alibaba 2018 batch tasks"
    if len(cells) == 9 and cells[4] in _ALIBABA_STATUS:
        return "alibaba2018", "Alibaba 2018's batch_task table"
    if len(cells) == 14 and cells[4] in _ALIBABA_STATUS:
        return None, "Alibaba 2018's batch_instance table (its batch_task table is what has the DAGs)"
    whole = [bool(re.fullmatch(rb"\d+", c)) for c in cells]
    if len(cells) == 8 and whole[0] and whole[2] and whole[3]:
        return "google2011", "Google 2011's job_events table"
    if len(cells) == 13 and whole[0] and whole[2] and whole[3] and whole[5]:
        return "google2011", "Google 2011's task_events table"
    if len(cells) == 6 and whole[0] and whole[1] and whole[2]:
        return (
            None,
            "Google 2011's machine_events table (give the folder that also has job_events or task_events)",
        )
    words = first.split()
    numbers = all(_NUMBERS.match(w) for w in words[:18])
    # 18 numbers may also be a cut task list: that has neither job number nor status.
    if len(words) == 18 and numbers and words[0].isdigit() and words[10] in _SWF_STATUS:
        return "swf", "the Standard Workload Format"
    if b"\t" in first and re.match(rb"^job\d+$", words[0]) and len(words) in (6, 7):
        return "swim", "SWIM's Facebook samples"
    if len(words) > 3 and all(_NUMBERS.match(w) for w in words[:4]) and words[1] == b"%d" % (len(words) - 3):
        return "hawk", "a Hawk/Eagle task list"
    return None, f"text that begins with {first[:40].decode('utf-8', 'backslashreplace')!r}"


def _json(line: bytes) -> tuple[str | None, str]:
    try:
        keys = set(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None, "damaged JSON"
    if {"query", "scale", "stages"} <= keys:
        return "tpch_profiles", "TPC-H stage profiles"
    if {"collection_id", "time"} <= keys:
        return "google2019", "a Google 2019 event table"
    if (known := document_of(line)) is not None and "several lines" not in known:
        return None, known
    return None, f"JSON lines with the keys {', '.join(sorted(map(str, keys))[:5])}"
