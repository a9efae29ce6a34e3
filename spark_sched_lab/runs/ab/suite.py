"""Suites of A/B tests: cluster, workloads, background, arms and the number of runs, from one TOML file.

``docs/how-to/compare-settings.md`` shows one; ``conf/ab`` has more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.files import read_text
from spark_sched_lab.runs.ab.looks import look_blocks
from spark_sched_lab.runs.bench.matrix import WorkloadJob, read_workload
from spark_sched_lab.runs.paired.arms import Arm, ClusterSize, read_arms, read_cluster, read_settings
from spark_sched_lab.runs.simulate.fields import Fields, parse_toml
from spark_sched_lab.runs.workloads.background import BatchSize, shortest_tasks_s, trace_fit

#: The name of runs without background, the denominator of slowdowns.
ALONE = "alone"
_FIRST_LOOK = 8


@dataclass(frozen=True)
class RunCounts:
    """How many runs there are.

    Attributes:
        blocks: greatest number of blocks.
        first_look: least number of blocks before a stop.
        looks: number of checks whether intervals are narrow enough; 1 disables early stopping.
        precision: half width of an interval that is narrow enough, as a fraction of the ratio of JCTs.
        warm_up: unmeasured runs of each workload on each application.
    """

    blocks: int
    first_look: int
    looks: int
    precision: float
    warm_up: int

    @property
    def looked_after(self) -> tuple[int, ...]:
        """After how many blocks the results are looked at."""
        return look_blocks(self.first_look, self.blocks, self.looks)


@dataclass(frozen=True)
class Background:
    """Background jobs: of the Google 2011 trace's distributions, or equal jobs of sleeping tasks."""

    batch: BatchSize | None
    jobs: int = 0
    tasks: int = 0
    mean_ms: int = 0
    gap_ms: int = 0


@dataclass(frozen=True)
class Suite:
    """An A/B test. ``text`` is the file, which is stored with the results."""

    name: str
    text: str
    seed: int
    cluster: ClusterSize
    runs: RunCounts
    workloads: tuple[WorkloadJob, ...]
    background: Background | None
    arms: tuple[Arm, ...]
    baseline: str

    @property
    def null(self) -> str:
        """The name of the baseline's second run."""
        return f"{self.baseline} (again)"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that run in each block and workload: the arms, the null arm, and ``alone`` if it
        differs."""
        names = (*(arm.name for arm in self.arms), self.null)
        return names if self.background is None else (ALONE, *names)

    def arm(self, setting: str) -> Arm:
        """The arm that a setting runs: for alone and the null arm the baseline."""
        name = self.baseline if setting in (ALONE, self.null) else setting
        return next(arm for arm in self.arms if arm.name == name)


def read_suite(path: Path) -> Suite:
    """The suite of a TOML file. Raises BadInputError naming file, key, value and remedy."""
    if path.is_dir():
        raise BadInputError(f"{path} is a folder but must be a suite's TOML file: conf/ab has examples")
    return parse_suite(read_text(path), str(path), path.stem)


def parse_suite(text: str, file: str, stem: str = "suite") -> Suite:
    """The suite of a TOML text; ``file`` is named in messages."""
    top = parse_toml(text, file)
    cluster = read_cluster(top.table("cluster"))
    workloads = tuple(job for table in top.tables("workload") for job in read_workload(table))
    background = _background(top.table("background"), cluster) if top.has("background") else None
    arms = read_arms(top.tables("arm"), read_settings(top.table("settings")))
    if not workloads:
        raise BadInputError(
            f"{file}: workload is missing but must be one or more tables: start each with [[workload]]"
        )
    if len(arms) < 2:
        raise BadInputError(
            f"{file}: there must be two arms or more but there are {len(arms)}: add [[arm]] tables"
        )
    names = [arm.name for arm in arms]
    suite = Suite(
        name=top.text("name", stem),
        text=text,
        seed=top.whole("seed", 0),
        cluster=cluster,
        runs=_runs(top.table("runs")),
        workloads=workloads,
        background=background,
        arms=arms,
        baseline=top.text("baseline", names[0]),
    )
    top.done()
    if suite.baseline not in names:
        raise BadInputError(
            f"{file}: baseline is {suite.baseline!r}{did_you_mean(suite.baseline, names)} but must be one of "
            f"the arms {', '.join(names)}"
        )
    for taken in (ALONE, suite.null):
        if taken in names:
            raise BadInputError(f"{file}: an arm has the name {taken!r}, which is reserved: rename it")
    labels = [job.label for job in workloads]
    for label in labels:
        if labels.count(label) > 1:
            raise BadInputError(
                f"{file}: two workloads have the label {label!r}: give one of them another label"
            )
    return suite


def _runs(fields: Fields) -> RunCounts:
    blocks = fields.whole("blocks", 12, least=1)
    runs = RunCounts(
        blocks=blocks,
        first_look=fields.whole("first_look", min(_FIRST_LOOK, blocks), least=1),
        looks=fields.whole("looks", 4, least=1),
        precision=fields.number("precision", 0.1, least=0.001),
        warm_up=fields.whole("warm_up", 1),
    )
    if runs.first_look > blocks:
        raise fields.wrong("first_look", runs.first_look, f"at most blocks, which is {blocks}")
    fields.done()
    return runs


def _background(fields: Fields, cluster: ClusterSize) -> Background:
    source = fields.choice("source", ("google2011", "sleep"), "google2011")
    if source == "google2011":
        longest_s, least_s = fields.time_ms("max_task", 6_000) / 1000, shortest_tasks_s(trace_fit())
        if longest_s <= least_s:
            wanted = f"at least {math.ceil(1000 * least_s)}ms: no job of the trace has shorter tasks"
            raise fields.wrong("max_task", f"{longest_s:g}s", wanted)
        found = Background(
            BatchSize(
                cluster.all_slots,
                work_s=_above_zero(fields, "work", 13_000) / 1000,
                max_task_s=longest_s,
                backlog_s=fields.time_ms("backlog", 8_000) / 1000,
            )
        )
    else:
        found = Background(
            None,
            jobs=fields.whole("jobs", 4, least=1),
            tasks=fields.whole("tasks", cluster.all_slots, least=1),
            mean_ms=_above_zero(fields, "mean", 1_000),
            gap_ms=fields.time_ms("gap", 500),
        )
    fields.done()
    return found


def _above_zero(fields: Fields, key: str, default: int) -> int:
    found = fields.time_ms(key, default)
    if found < 1:
        raise fields.wrong(key, f"{found}ms", "at least 1ms")
    return found
