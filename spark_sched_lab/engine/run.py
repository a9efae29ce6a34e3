"""`simulate`: one run with a policy, a predictor and settings by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from spark_sched.config import validate
from spark_sched.policies.base import Policy, PolicySettings
from spark_sched.policies.checks import check_options
from spark_sched.policies.registry import create
from spark_sched.predict import Predictor
from spark_sched.predict.build import build, with_task_times
from spark_sched.protocol.events import Event
from spark_sched_lab.cluster.cluster import ClusterSpec
from spark_sched_lab.engine.engine import Simulation
from spark_sched_lab.engine.oracle import Oracle
from spark_sched_lab.engine.planning import Planner
from spark_sched_lab.engine.results import Result
from spark_sched_lab.engine.settings import check_applied, check_read
from spark_sched_lab.engine.workload import JobSpec, SchedulingChange


def simulate(
    cluster: ClusterSpec,
    jobs: Iterable[JobSpec],
    policy: str | Policy = "fifo",
    *,
    settings: Mapping[str, str] | None = None,
    predictor: str | Predictor = "none",
    plan_every_ms: int = 0,
    seed: int = 0,
    keep_tasks: bool = True,
    until_ms: int | None = None,
    observer: Callable[[Event], None] | None = None,
    check: bool = False,
    progress: Callable[[int, int], None] | None = None,
    changes: Sequence[SchedulingChange] = (),
) -> Result:
    """Run ``jobs`` on ``cluster`` under ``policy`` and return rows and sums.

    Args:
        jobs: in the order of submission; may be a generator.
        policy: a name of the policies' registry, or a policy.
        settings: ``spark.sched.*`` properties as text, as for spark-submit; only those that change a run
            (`spark_sched_lab.engine.settings`).
        predictor: a name in `spark_sched.predict.build.PREDICTORS`, or a predictor. A policy that needs task
            times also gets these.
        plan_every_ms: time between plans, as ``spark.sched.planner.interval`` live; 0: whenever something
            changed, as an ideal planner would.
        seed: of every draw of the run.
        keep_tasks: whether the result has a row for every attempt.
        until_ms: when the clock stops; None: when nothing more can happen.
        observer: called with every event of the run.
        check: whether the ledger's invariants are checked at every instant (slow).
        progress: called occasionally as ``progress(jobs ended, now_ms)``.
        changes: operators' changes of the policy, of reservations and of queues during the run.

    Raises:
        BadInputError: an unknown policy, predictor or setting, a setting that does nothing here, or an
            invalid cluster or job.
    """
    checked = validate(settings or {})
    check_applied(checked.given)
    check_options(checked)
    if isinstance(policy, str):
        check_read(checked.given, (policy,))
    chosen = create(policy, PolicySettings.from_config(checked)) if isinstance(policy, str) else policy
    oracle = Oracle()
    knows = build(predictor, checked, oracle) if isinstance(predictor, str) else predictor
    if knows is oracle:
        jobs = oracle.watch(jobs)
    later = [change.policy for change in changes if change.policy is not None]
    if any(each.capabilities.task_times for each in (chosen, *later)):
        knows = with_task_times(knows, learns=predictor == "3sigma")
    planner = Planner(chosen, knows, np.random.default_rng(seed), plan_every_ms)
    simulation = Simulation(
        cluster,
        jobs,
        planner,
        checked,
        seed=seed,
        keep_tasks=keep_tasks,
        until_ms=until_ms,
        observer=observer,
        check=check,
        changes=changes,
    )
    return simulation.run(progress)
