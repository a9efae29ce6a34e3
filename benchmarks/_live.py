"""One standalone cluster with a warm application per scheduler, for benchmarks that compare them live."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import numpy as np
from _common import local_properties, stderr

from spark_sched import attach
from spark_sched_lab.runs.clusters import LocalCluster
from spark_sched_lab.runs.paired.application import ArmApplication, ArmError, StagesJob, StagesResult

LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Stock Spark's two modes; every other name is a policy of spark_sched.
STOCK = ("fifo", "fair")
#: The same beside policies of these names: `local_arms`.
STOCK_PREFIX = "stock-"
PLAN_EVERY_MS = 100


@contextlib.contextmanager
def arms(
    names: tuple[str, ...], cores: int, directory: Path, settings: Mapping[str, Mapping[str, str]]
) -> Iterator[dict[str, ArmApplication]]:
    """Applications by name, each with an executor of ``cores`` slots on one cluster.

    ``settings`` are further properties of an application, by its name.
    """
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(1, cores * len(names), f"{len(names)}g"))
        base = {
            **local_properties(directory),
            "spark.eventLog.enabled": "false",
            "spark.cores.max": str(cores),
            "spark.executor.cores": str(cores),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            # A dozen JVMs start for some minutes of sleeping tasks: less compiling, fewer threads.
            "spark.driver.extraJavaOptions": LIGHT_JVM,
            "spark.executor.extraJavaOptions": LIGHT_JVM,
        }
        found = {}
        for name in names:
            if name in STOCK:
                given = {**base, "spark.master": cluster.master_url, "spark.scheduler.mode": name.upper()}
            else:
                more = planned_by(name)
                given = dict(attach.conf(cluster.master_url, {**base, **more, **settings.get(name, {})}))
            found[name] = given
        yield launched(found, directory, stack)


def planned_by(policy: str) -> dict[str, str]:
    """Properties of an application under the policy."""
    return {"spark.sched.planner.policy": policy, "spark.sched.planner.interval": f"{PLAN_EVERY_MS}ms"}


def launched(
    properties: Mapping[str, Mapping[str, str]], directory: Path, stack: contextlib.ExitStack
) -> dict[str, ArmApplication]:
    """The applications with these properties by name, when all are ready; the stack ends them."""
    found = {}
    for name, given in properties.items():
        found[name] = ArmApplication(name, dict(given), directory)
        stack.callback(found[name].kill)
        found[name].launch()
    for arm in found.values():
        arm.wait_ready()
    return found


@contextlib.contextmanager
def local_arms(names: tuple[str, ...], cores: int, directory: Path) -> Iterator[dict[str, ArmApplication]]:
    """Applications by name, each in one process with ``cores`` slots: policies, and ``stock-MODE-…``."""
    base = {**local_properties(directory), "spark.eventLog.enabled": "false", "spark.driver.memory": "512m"}
    base["spark.driver.extraJavaOptions"] = LIGHT_JVM
    master = f"local[{cores}]"
    with contextlib.ExitStack() as stack:
        found = {}
        for name in names:
            if name.startswith(STOCK_PREFIX):
                mode = name.removeprefix(STOCK_PREFIX).split("-")[0].upper()
                given = {**base, "spark.master": master, "spark.scheduler.mode": mode}
            else:
                more = planned_by(name)
                given = dict(attach.conf(master, {**base, **more}))
            found[name] = given
        yield launched(found, directory, stack)


def warm_up(
    running: Mapping[str, ArmApplication],
    jobs: list[StagesJob],
    limit_s: float = 300.0,
    *,
    stock: Collection[str] = STOCK,
) -> None:
    """Run the jobs on each application, and again until its planner's plans are in force.

    A planner may take minutes to start on a busy machine (compiling its loops the first time), and until then
    its application runs by the configured order: a measurement would show FIFO.

    Raises ArmError for a planner that never came.
    """
    for name, arm in running.items():
        began_s = time.monotonic()
        done = run_jobs(name, arm, jobs)
        while name not in stock and not done.counters.get("plans_accepted"):
            if time.monotonic() - began_s > limit_s:
                raise ArmError(f"the planner of {name} made no plan within {limit_s:g} s")
            done = run_jobs(name, arm, jobs)
        stderr.print(f"{name} is warm", highlight=False)


def run_jobs(name: str, arm: ArmApplication, jobs: list[StagesJob]) -> StagesResult:
    """Run jobs side by side; under stock FAIR each has a pool of its own, or they would be FIFO in one."""
    if name == "fair":
        jobs = [
            StagesJob(job.stages, job.mark, f"job-{n}", job.delay_s, job.sql_rows)
            for n, job in enumerate(jobs)
        ]
    return arm.stages(jobs)


def run_round(
    running: Mapping[str, ArmApplication], names: list[str], jobs: list[StagesJob], *, together: bool
) -> dict[str, StagesResult]:
    """The same jobs on each application, one after the other, or on all at once.

    At once the machine's noise is the same for all, and each disturbs the others alike.
    """
    if not together:
        return {name: run_jobs(name, running[name], jobs) for name in names}
    with ThreadPoolExecutor(len(names)) as pool:
        done = pool.map(lambda name: run_jobs(name, running[name], jobs), names)
        return dict(zip(names, done, strict=True))


def live_options(runs: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that all live comparisons have; ``runs`` is the default of ``--runs``."""
    options = [
        click.option("--runs", default=runs, show_default=True, help="Paired runs."),
        click.option("--cores", default=8, show_default=True, help="Slots of each application."),
        click.option("--minutes", default=0.0, help="Begin no further run after so long; 0: no limit."),
        click.option("--together", is_flag=True, help="Run all schedulers side by side instead of in turn."),
        click.option("--seed", default=0, show_default=True),
        click.option("--json", "json_output", is_flag=True),
    ]

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def paired_runs(
    running: Mapping[str, ArmApplication],
    jobs_of: Callable[[int], list[StagesJob]],
    rng: np.random.Generator,
    *,
    runs: int,
    minutes: float,
    together: bool,
) -> Iterator[tuple[int, list[StagesJob], dict[str, StagesResult]]]:
    """Each run's number, its jobs, and their results on each application.

    In turn, the applications go in random order. ``jobs_of`` gives a run's jobs by its number.
    """
    began_s = time.monotonic()
    for run in range(runs):
        if run and minutes and time.monotonic() - began_s > 60.0 * minutes:
            return
        jobs = jobs_of(run)
        order = [str(name) for name in rng.permutation(list(running))]
        yield run, jobs, run_round(running, order, jobs, together=together)
