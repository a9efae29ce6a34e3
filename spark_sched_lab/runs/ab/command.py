"""The commands ``ab run`` and ``ab report``: run the missing runs, then write and return the document."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_sched.files import write_whole
from spark_sched.terminal import counting_bar
from spark_sched_lab.reports.machine import basis
from spark_sched_lab.runs.ab.analysis import blocks_for_a_winner, build_document
from spark_sched_lab.runs.ab.cost import cost_of
from spark_sched_lab.runs.ab.page import render_report
from spark_sched_lab.runs.ab.run import Runner, run_blocks
from spark_sched_lab.runs.ab.store import open_store, read_results
from spark_sched_lab.runs.ab.suite import Suite
from spark_sched_lab.runs.clusters import StandaloneCluster

#: The basis of runs on a cluster that was already running.
STANDALONE = "a standalone cluster"


def run_test(
    suite: Suite, out: Path, *, simulate: bool, note: Callable[[str], None], master_url: str | None = None
) -> dict[str, Any]:
    """Run the suite's missing runs and write ``report.html`` and ``results.json`` into ``out``.

    ``master_url``: of a standalone cluster that runs already; None: one of this machine.
    Interrupted or killed at any time, the same call continues. Raises BadInputError for inputs that are the
    user's to fix, ArmError and ClusterError where Spark fails.
    """
    real = "a cluster on this machine" if master_url is None else STANDALONE
    where = {"on": "the simulator" if simulate else real, **basis()}
    if master_url is not None:
        StandaloneCluster(master_url)  # rejects a wrong address before the folder is created
    tell_if_too_short(suite, note)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(open_store(out, suite, where))
        show = stack.enter_context(counting_bar("runs"))

        def start() -> Runner:
            if simulate:
                from spark_sched_lab.runs.ab.simulated import SimulatedRunner

                return SimulatedRunner(suite)
            from spark_sched_lab.runs.ab.live import live_runner

            return stack.enter_context(live_runner(suite, note, master_url))

        if simulate:
            start()  # rejects suites that it cannot run, even if no run is missing

        if store.records:
            note(f"{len(store.records)} runs are there already")
        blocks = run_blocks(suite, store, start, show)
    return report(out, blocks)


def tell_if_too_short(suite: Suite, note: Callable[[str], None]) -> None:
    """A notice for a suite with too few blocks to name a winner; its report still compares results."""
    least = blocks_for_a_winner(suite)
    if suite.runs.blocks < least:
        note(
            f"runs.blocks is {suite.runs.blocks}, but no winner can be named before block {least}: raise it "
            "if you want one"
        )


def report(out: Path, blocks: int | None = None) -> dict[str, Any]:
    """Write ``report.html`` and ``results.json`` from the runs of a folder and return the JSON document.

    ``blocks``: how many count; None: all that are whole. Raises BadInputError if the folder has no runs.
    """
    suite, where, records = read_results(out)
    document = build_document(suite, records, where, blocks)
    cost = cost_of(out, records)
    if cost is not None:
        document["cost"] = cost
    write_whole(out / "results.json", json.dumps(document, indent=1) + "\n")
    write_whole(out / "report.html", render_report(document))
    return document
