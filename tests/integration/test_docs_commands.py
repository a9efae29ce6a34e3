"""Every command of the tutorials and how-to guides runs, page by page, in a folder of its own.

A ``bash`` block is run; ``<!-- not run: REASON -->`` before it exempts it. ``<!-- file: NAME -->`` before
another block writes the block to that file first. Beside a page's own files there is what it says the reader
has: for a tutorial the files of the first one, for a guide ``conf/`` of the checkout, ``events/`` with a
recorded log, and ``app.py``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environment import clean_environment

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for folder in ("tutorial", "how-to") for path in (ROOT / "docs" / folder).glob("*.md"))
_BLOCK = re.compile(
    r"^(?:[ ]*<!-- (?P<note>not run|file): (?P<what>[^\n]+?) -->\n)?"
    r"(?P<indent>[ ]*)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^[ ]*```$",
    re.DOTALL | re.MULTILINE,
)
_COMMANDS = {"bash", "console", "sh", "shell"}
_TIMEOUT_S = 1800  # only a hang takes that long, on a crowded machine, too


@dataclass(frozen=True)
class Block:
    """A fenced block: a script to run, or a file to write; ``reason`` says why a script is not run."""

    body: str
    file: str | None = None
    reason: str | None = None


def blocks(text: str) -> Iterator[Block]:
    """Blocks of a page in its order, without those that are only shown (SQL, fragments of programs)."""
    for found in _BLOCK.finditer(text):
        indent = found["indent"]
        body = "".join(line.removeprefix(indent) for line in found["body"].splitlines(keepends=True))
        if found["note"] == "file":
            yield Block(body, file=found["what"])
        elif found["language"] in _COMMANDS:
            yield Block(body, reason=found["what"] if found["note"] == "not run" else None)


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_commands_of_a_page_run_in_order(page, tmp_path):
    if page.parent.name == "tutorial":
        first = page.with_name("first-isolated-job.md").read_text(encoding="utf-8")
        _write(tmp_path, (block for block in blocks(first) if block.file))
    else:
        _fixtures(tmp_path)
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.file is not None:
            _write(tmp_path, [block])
        elif block.reason is None:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.body],
                cwd=tmp_path,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, f"{block.body}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def _write(folder: Path, files: Iterable[Block]) -> None:
    for block in files:
        assert block.file is not None
        (folder / block.file).write_text(block.body, encoding="utf-8")


def _fixtures(folder: Path) -> None:
    shutil.copytree(ROOT / "conf", folder / "conf")
    (folder / "events").mkdir()
    shutil.copy(ROOT / "tests" / "replay" / "logs" / "stock-fifo-1.zstd", folder / "events" / "recorded.zstd")
    (folder / "app.py").write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "assert spark.range(100).count() == 100\n"
        "spark.stop()\n",
        encoding="utf-8",
    )


def test_every_page_has_commands_and_every_exemption_a_reason():
    assert PAGES
    for page in PAGES:
        found = list(blocks(page.read_text(encoding="utf-8")))
        assert found, page
        assert page.read_text(encoding="utf-8").count("<!-- not run") == sum(
            b.reason is not None for b in found
        )


def test_blocks_are_found_with_their_notes_and_indentation():
    page = (
        "<!-- file: a.py -->\n```python\nprint(1)\n```\n\n- item\n\n    ```bash\n    python a.py\n    ```\n\n"
        "<!-- not run: needs a cluster -->\n```bash\nfalse\n```\n\n```sql\nSELECT 1\n```\n"
    )
    assert list(blocks(page)) == [
        Block("print(1)\n", file="a.py"),
        Block("python a.py\n"),
        Block("false\n", reason="needs a cluster"),
    ]
