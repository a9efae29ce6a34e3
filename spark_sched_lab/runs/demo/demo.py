"""The demo: a foreground job against background work, alone, under stock Spark and under spark_sched.

Steps:

1. check the inputs, start the cluster and one application per scheduler, warm both up;
2. run the pairs, interleaved: each workload in each setting on the same input and background batch;
3. compare the results, which must be equal in all settings;
4. stop the applications, which completes their event logs, and read the timelines;
5. write ``results.json`` and ``report.html`` together, at the very end.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from spark_sched import attach
from spark_sched.errors import BadInputError
from spark_sched.files import check_folder, write_whole
from spark_sched.terminal import EXIT_INTERRUPTED
from spark_sched_lab.reports.machine import basis, basis_line
from spark_sched_lab.runs.clusters import ClusterError, LocalCluster
from spark_sched_lab.runs.demo import design
from spark_sched_lab.runs.demo.report import render_report, table_rows
from spark_sched_lab.runs.demo.timeline import Timeline, read_timeline
from spark_sched_lab.runs.paired.application import ArmApplication, ArmError, Mark, RunResult, at_once
from spark_sched_lab.runs.paired.properties import POOL, POOL_WEIGHT, allocation_file
from spark_sched_lab.runs.paired.scratch import scratch_folder
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread
from spark_sched_lab.runs.workloads.background import trace_fit
from spark_sched_lab.runs.workloads.foreground import WORKLOADS, same_results

EXIT_FAILED = 1
# A machine that is busy with something else needs minutes for three daemons.
_START_LIMIT_S = 300.0
Runs = dict[tuple[str, str], list[RunResult]]


def run_demo(*, quick: bool, out: Path, seed: int = 0, json_output: bool = False) -> int:
    """Run the demo and write ``report.html`` and ``results.json`` into ``out``.

    Args:
        quick: one run per workload and setting on smaller sizes, within five minutes on two cores, instead of
            five.
        out: folder for the two files; made if missing.
        seed: decides inputs, batches and the order of the runs; at least 0.
        json_output: print the JSON document, and nothing else, to standard output.

    Returns the process's exit code: 0; 1 if something failed or results differ between settings; 130 when
    interrupted. Raises BadInputError for inputs that are the user's to fix. Unless it returns 0, or results
    differ, ``out`` is as it was before.
    """
    _check_inputs(out, seed)
    console = Console(stderr=True)
    size = design.QUICK if quick else design.FULL
    try:
        with DemoRuns(seed, size, console) as started:
            runs = started.run_all()
            document = build_document(runs, started.pairs, size, seed, quick, started.cluster)
            timelines = started.timelines(runs)
    except KeyboardInterrupt:
        console.print("interrupted: everything is stopped, nothing was written")
        return EXIT_INTERRUPTED
    except (ArmError, ClusterError) as error:
        console.print(f"error: {error}", markup=False, highlight=False)
        return EXIT_FAILED
    out.mkdir(parents=True, exist_ok=True)
    report = render_report(document, timelines)
    text = json.dumps(document, indent=1) + "\n"
    write_whole(out / "report.html", report)
    write_whole(out / "results.json", text)
    _print_table(document, console if json_output else Console())
    console.print(f"report: {out / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json_output:
        sys.stdout.write(text)
        sys.stdout.flush()
    if not document["results_equal"]:
        console.print("error: results differ between settings; see results_equal in the JSON document")
        return EXIT_FAILED
    return 0


class DemoRuns:
    """Cluster, applications and files of one demo, for as long as the ``with`` block lasts.

    ``schedulers`` says which applications to start; ``arms`` holds them by that name.
    """

    def __init__(
        self,
        seed: int,
        size: design.DemoSize,
        console: Console,
        schedulers: Sequence[str] = ("stock", "spark_sched"),
    ) -> None:
        self.pairs = design.pairs(size, seed, trace_fit())
        self.cluster = LocalCluster(
            design.WORKERS,
            design.SLOTS_PER_WORKER * design.APPLICATIONS,
            f"{(design.EXECUTOR_MEMORY_GB + 1) * design.APPLICATIONS}g",
            start_timeout_s=_START_LIMIT_S,
        )
        self._console = console
        self._stack = contextlib.ExitStack()
        self._directory = Path()
        self._schedulers = schedulers
        self.arms: dict[str, ArmApplication] = {}

    def __enter__(self) -> DemoRuns:
        with self._stack as stack:
            self._directory = stack.enter_context(scratch_folder("spark-sched-demo-"))
            (self._directory / "event-logs").mkdir()
            slots = design.WORKERS * design.SLOTS_PER_WORKER
            (self._directory / "pools.xml").write_text(allocation_file(slots))
            with _step(self._console, "compiling the bridge, if that was not done before"):
                attach.build()
            with _step(self._console, "starting the cluster and its applications, warming up"):
                stack.enter_context(self.cluster)
                self._start_arms(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run_all(self) -> Runs:
        """All pairs; results by workload and setting, in the order of the runs."""
        runs: Runs = defaultdict(list)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        count = len(self.pairs) * len(design.SETTINGS)
        bars = self._console.is_terminal
        with Progress(*columns, TimeElapsedColumn(), console=self._console, disable=not bars) as progress:
            total = progress.add_task("all runs", total=count)
            for pair in self.pairs:
                for setting in pair.order:
                    name = f"{pair.workload}, {setting}, run {pair.run + 1}"
                    bar = progress.add_task(name, total=None)
                    done = self._run(pair, setting, progress, bar)
                    runs[pair.workload, setting].append(done)
                    progress.remove_task(bar)
                    progress.advance(total)
                    if not bars:
                        number = sum(map(len, runs.values()))
                        self._console.print(finished(number, count, name, done), soft_wrap=True)
        return dict(runs)

    def timelines(self, runs: Runs) -> dict[str, list[tuple[str, Timeline]]]:
        """Stop the applications and read each workload's first contended pair from their logs."""
        with _step(self._console, "reading the event logs"):
            for arm in self.arms.values():
                arm.stop()
            found: dict[str, list[tuple[str, Timeline]]] = {}
            for workload in WORKLOADS:
                first = {setting: runs[workload, setting][0] for setting in ("stock", "spark_sched")}
                window_ms = int(1050 * max(run.jct_s for run in first.values()))
                found[workload] = [
                    (
                        f"{setting}: JCT {run.jct_s:.1f} s",
                        read_timeline(
                            self._directory / "event-logs" / self.arms[setting].application,
                            run.started_ms,
                            run.started_ms + window_ms,
                            self._events_path if setting == "spark_sched" else None,
                        ),
                    )
                    for setting, run in first.items()
                ]
        return found

    @property
    def _events_path(self) -> Path:
        return self._directory / "events.jsonl"

    def _start_arms(self, stack: contextlib.ExitStack) -> None:
        def properties_of(name: str) -> dict[str, str]:
            return design.application_properties(self.cluster.spark_conf(), name, self._directory)

        events = {"spark.sched.events.path": str(self._events_path)}
        attached = attach.conf(self.cluster.master_url, {**properties_of("spark_sched"), **events})
        properties = {"stock": properties_of("stock"), "spark_sched": attached}
        for name in self._schedulers:
            arm = ArmApplication(name, properties[name], self._directory)
            stack.callback(arm.kill)
            arm.launch()
            self.arms[name] = arm
        at_once(_warm_up, self.arms.values(), self.arms.values())

    def _run(self, pair: design.Pair, setting: str, progress: Progress, bar: TaskID) -> RunResult:
        def show(done: int, jobs: int, foreground: bool) -> None:
            what = "" if foreground else " (background to its end)"
            name = f"{pair.workload}, {setting}, run {pair.run + 1}{what}"
            progress.update(bar, completed=done, total=jobs or None, description=name)

        ours = setting == "spark_sched"
        return self.arms["spark_sched" if ours else "stock"].run(
            pair.workload,
            pair.foreground.parameters,
            pair.seed,
            mark=Mark(pair.workload, design.PRIORITY, design.ISOLATION, design.COPIES) if ours else None,
            pool=None if ours else POOL,
            background=None if setting == "alone" else pair.background,
            progress=show,
        )


def finished(number: int, count: int, name: str, run: RunResult) -> str:
    """The line that says that a run ended, where standard error is no terminal and shows no bars."""
    background = run.background_makespan_s
    beside = "" if background is None else f", background {background:.1f} s"
    return f"{number} of {count}: {name}: {run.jct_s:.1f} s{beside}"


@contextlib.contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    """A spinner; where standard error is no terminal, a line."""
    if not console.is_terminal:
        console.print(what, soft_wrap=True)
        yield
        return
    with console.status(what):
        yield


def _warm_up(arm: ArmApplication) -> None:
    arm.wait_ready()
    ours = arm.name == "spark_sched"
    mark = Mark("warm-up", design.PRIORITY, design.ISOLATION, design.COPIES) if ours else None
    for workload in WORKLOADS:
        arm.run(workload, design.WARM_UP.parameters, 0, mark=mark, pool=None if ours else POOL)
    arm.run("pagerank", design.WARM_UP.parameters, 0, mark=mark, background=design.WARM_UP_JOBS)


def build_document(
    runs: Runs,
    pairs: Sequence[design.Pair],
    size: design.DemoSize,
    seed: int,
    quick: bool,
    cluster: LocalCluster,
) -> dict[str, Any]:
    """The demo's JSON document; ``results`` has one row per workload and setting."""
    rng = np.random.default_rng([seed, 95])
    results = [
        _result(runs, workload, setting, pairs, rng) for workload in WORKLOADS for setting in design.SETTINGS
    ]
    equal = all(
        same_results(a.values, b.values)
        for (workload, _), done in runs.items()
        for a, b in zip(runs[workload, "alone"], done, strict=True)
    )
    return {
        "schema": 1,
        "quick": quick,
        "seed": seed,
        "runs": size.runs,
        **basis(),
        "cluster": {
            "workers": [worker.host for worker in cluster.workers],
            "slots_per_worker": design.SLOTS_PER_WORKER,
            "note": cluster.note,
        },
        "settings": {
            "stock": {"scheduler_mode": "FAIR", "pool_weight": POOL_WEIGHT},
            "spark_sched": {"priority": design.PRIORITY, "isolation": design.ISOLATION},
        },
        "foreground": {
            "parallelism": design.PARALLELISM,
            "passes": size.passes,
            "read_s": [size.min_read_s, size.max_read_s],
        },
        "background": {"source": trace_fit()["source"], **asdict(size.batch)},
        "method": design.method(size, cluster.note),
        "results_equal": equal,
        "results": results,
    }


def _result(
    runs: Runs, workload: str, setting: str, pairs: Sequence[design.Pair], rng: np.random.Generator
) -> dict[str, Any]:
    own = [pair for pair in pairs if pair.workload == workload]
    done, alone, stock = (runs[workload, each] for each in (setting, "alone", "stock"))
    ratios = paired_ratios([run.jct_s for run in done], [run.jct_s for run in alone])
    makespans_s = [run.background_makespan_s for run in done if run.background_makespan_s is not None]
    stock_s = [run.background_makespan_s for run in stock if run.background_makespan_s is not None]
    makespan_ratios = paired_ratios(makespans_s, stock_s) if makespans_s else []
    done_by_then = [run.background_jobs_done_at_foreground_end for run in done]
    return {
        "workload": workload,
        "setting": setting,
        "jct_s": [round(run.jct_s, 3) for run in done],
        "jct_spread_s": spread([run.jct_s for run in done], rng).as_json(),
        "slowdown": round(float(np.mean(ratios)), 4),
        "slowdowns": [round(ratio, 4) for ratio in ratios],
        "slowdown_spread": spread(ratios, rng).as_json(),
        "background_makespan_s": [round(s, 3) for s in makespans_s],
        "background_makespan_ratio": round(float(np.mean(makespan_ratios)), 4) if makespan_ratios else None,
        "background_jobs": [len(pair.background) for pair in own] if makespans_s else [],
        "background_jobs_done_at_foreground_end": done_by_then if makespans_s else [],
        "counters": [run.counters for run in done] if setting == "spark_sched" else [],
        "seeds": [pair.seed for pair in own],
        "runs": len(done),
    }


def _print_table(document: dict[str, Any], console: Console) -> None:
    title = f"{document['runs']} run(s) per setting, paired and interleaved"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False, collapse_padding=True)
    # "bg" is the background's makespan and its ratio to stock's. The headings are short: eighty columns.
    names = ("workload", "setting", "JCT (s)", "slowdown", "95 %", "bg (s)", "bg ratio")
    for number, name in enumerate(names):
        table.add_column(name, no_wrap=True, justify="left" if number < 2 else "right")
    for row in table_rows(document["results"]):
        table.add_row(*row.values(), end_section=row["setting"] == design.SETTINGS[-1])
    console.print(table)
    console.print(basis_line(document), style="dim", highlight=False)


def _check_inputs(out: Path, seed: int) -> None:
    if out.exists() and not out.is_dir():
        raise BadInputError(f"--out is {str(out)!r}, which is a file: name a directory")
    check_folder("--out", out)
    if seed < 0:
        raise BadInputError(f"the seed is {seed}: give a whole number of at least 0")
    missing = [name for name in ("jinja2", "matplotlib", "pyspark", "scipy") if find_spec(name) is None]
    if missing:
        raise BadInputError(f"the demo needs {', '.join(missing)}: run `pip install 'spark-sched[demo]'`")
