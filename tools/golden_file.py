"""Writes generated golden files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(out: Path, document: Mapping[str, Any]) -> None:
    """Write the document as compressed JSON. The same document gives the same bytes, and an interrupted run
    leaves the old file."""
    text = json.dumps(document, separators=(",", ":"))
    out.parent.mkdir(exist_ok=True)
    part = out.with_suffix(".part")
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    os.replace(part, out)
    print(f"{out}: {len(text)} characters, {out.stat().st_size} bytes")
