"""The papers that can be reproduced, one line each."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence

from benchmarks.papers.figures import FigureSpec, Paper
from spark_sched.errors import BadInputError, check_one_of, did_you_mean

_HERE = "benchmarks.papers"

#: Name -> module with the paper as ``PAPER``.
PAPERS: Mapping[str, str] = {
    "slearn": f"{_HERE}.slearn",
    "slot-reservation": f"{_HERE}.slot_reservation",
    "3sigma": f"{_HERE}.three_sigma",
    "thesis": f"{_HERE}.thesis",
}


def load(name: str) -> Paper:
    """The paper of that name. Raises BadInputError for an unknown name."""
    check_one_of("PAPER", name, PAPERS)
    paper = importlib.import_module(PAPERS[name]).PAPER
    assert isinstance(paper, Paper)
    return paper


def choose(paper: Paper, names: Sequence[str]) -> list[FigureSpec]:
    """The figures of those names (``fig10``, also ``10``) in the paper's order; all of them if no name is
    given.

    Raises BadInputError for an unknown name.
    """
    known = {figure.id: figure for figure in paper.figures}
    wanted = set()
    for name in names:
        identity = re.sub(r"^(figure|fig)?\W*(?=\d)", "fig", name.casefold())
        if identity not in known:
            raise BadInputError(
                f"FIGURE is {name!r}{did_you_mean(name, known)} but {paper.name} has {', '.join(known)}"
            )
        wanted.add(identity)
    return [figure for figure in paper.figures if not names or figure.id in wanted]
