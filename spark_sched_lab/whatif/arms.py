"""Ways to schedule a recorded application: as it ran, and as the user requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from spark_sched.config import keys, validate
from spark_sched.errors import BadInputError, check_one_of
from spark_sched.policies import Policy, PolicySettings, available, check_settings, create
from spark_sched_lab.engine.settings import applied, check_applied, check_read
from spark_sched_lab.simulator import JobSpec, NextJob, SchedulingChange
from spark_sched_lab.whatif.policies import Pool, StockFair, StockFifo
from spark_sched_lab.whatif.recorded import Recorded, default_pools, local_file, read_pools
from spark_sched_lab.whatif.replayed import Model

#: Spark's own scheduler, beside the policies' names.
STOCK = ("stock-fifo", "stock-fair")
#: Largest number of operators' changes that a note quotes.
_CHANGES_QUOTED = 3
#: What the planner process knows of jobs.
_LIVE = "3sigma"


@dataclass(frozen=True)
class Question:
    """What to try.

    Attributes:
        policies: names of `available` or `STOCK`. If empty, and there are settings or priorities or the
            application was in shadow mode: the policy that ran, or ``reservation`` for a stock application.
        settings: ``spark.sched.*`` properties over the recorded ones.
        priorities: (pattern of a job's name or key, priority), later ones win.
        predictor: what the policies know about jobs, as in experiments.
        pools: of the recorded run in FAIR mode; None: from the allocation file that the log names, if it is
            there.
        one_by_one: see `build_model`.
        seed: of placement and copies.
    """

    policies: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    priorities: tuple[tuple[str, int], ...] = ()
    predictor: str = _LIVE
    pools: Mapping[str, Pool] | None = None
    one_by_one: bool | None = None
    seed: int = 0

    def check(self) -> None:
        """Raise BadInputError for an unknown policy, a wrong setting or one that does nothing, naming it."""
        known = (*available(), *STOCK)
        for name in self.policies:
            check_one_of("--policy", name, known)
        for name in self.settings:
            if not name.startswith("spark.sched.") or name.startswith("spark.sched.job."):
                raise BadInputError(
                    f"--set has the unknown setting {name!r}: docs/reference/configuration.md lists all "
                    "settings"
                )
        validate(self.settings)
        # Without a policy of its own the question asks for that of its settings.
        policy = () if self.policies else (keys.PLANNER_POLICY.name,)
        check_applied(self.settings, also=(keys.PLANNER_INTERVAL.name, *policy))
        check_settings(validate(self.settings))
        policies = self.policies or tuple(filter(None, [self.settings.get(keys.PLANNER_POLICY.name)]))
        if policies:
            check_read(self.settings, policies)


@dataclass(frozen=True)
class ReplayArm:
    """One way to schedule, as `spark_sched_lab.simulator.simulate` takes it."""

    name: str
    policy: Policy
    settings: Mapping[str, str]
    predictor: str
    plan_every_ms: int
    changes: tuple[SchedulingChange, ...] = ()


def as_it_ran(
    recorded: Recorded, model: Model, pools: Mapping[str, Pool] | None
) -> tuple[ReplayArm, list[str]]:
    """The recorded arm, and sentences about the parts of it that the log does not show."""
    notes = []
    operators = recorded.changes
    modes = [switch.what for switch in operators.for_all if switch.mode is not None]
    if operators.modes and not modes:
        notes.append(
            f"operators switched the mode while it ran (to {', '.join(operators.modes)}): replayed in the "
            f"mode that it began in, {recorded.began_in}"
        )
    pauses = [s.what for s in operators.for_all if s.policy is None and s.mode is None]
    policies = [switch.what for switch in operators.for_all if switch.policy in available()]
    unknown = [s.what for s in operators.for_all if s.policy is not None and s.policy not in available()]
    for changes, note in (
        (modes, "switched the mode, which the replay as it ran repeats; the others are in one mode"),
        (operators.repeated, "changed this while it ran, which every replay repeats"),
        (pauses, "changed this for all jobs, which every replay repeats"),
        (policies, "switched the policy, which the replay as it ran repeats; the others have one policy"),
        (
            [put.what for put in operators.queues],
            "changed the queues, which every replay without queues of its own repeats",
        ),
        ([*operators.others, *unknown], "changed this while it ran, which the replay does not repeat"),
    ):
        if changes:
            more = "; …" if len(changes) > _CHANGES_QUOTED else ""
            notes.append(f"operators {note}: {'; '.join(changes[:_CHANGES_QUOTED])}{more}")
    if recorded.mode == "FAIR" and recorded.enforced:
        notes.append("the attached scheduler's FAIR order among equal priorities is replayed as FIFO")
    if recorded.attached and not recorded.enforced and not operators.modes:
        notes.append(f"spark.sched.mode was {recorded.began_in}, so that Spark's own scheduling is replayed")
    if recorded.mode == "FAIR" and pools is None and (modes or not recorded.enforced):
        path = local_file(recorded.allocation_file)
        if path is not None:
            pools = read_pools(path)
        elif recorded.allocation_file:
            notes.append(
                f"the pools' file {recorded.allocation_file} is not here, so that their weights are unknown: "
                "give it as --pools FILE"
            )
    stock = _stock(f"stock-{recorded.mode.lower()}", recorded, model, pools)
    if not recorded.enforced and not modes:
        return stock, notes
    name = validate(recorded.settings)[keys.PLANNER_POLICY]
    if name not in available():
        notes.append(f"the log names the policy {name!r}, which is unknown here: replayed as reservation")
        name = "reservation"
    ours = _ours(recorded.settings, name, _LIVE)
    switches = _switches(recorded, ours, stock)
    if recorded.enforced:
        return replace(ours, changes=_with_queues(switches, recorded)), notes
    began = SchedulingChange(0, reserves=False)
    repeated = _with_queues((began, *switches), recorded)
    return replace(stock, settings=ours.settings, predictor=_LIVE, changes=repeated), notes


def arms_of(question: Question, recorded: Recorded, model: Model) -> list[ReplayArm]:
    """The arms that the question names; none if it requests only the replay."""
    names = question.policies
    if not names and (question.settings or question.priorities or recorded.tried_in_shadow):
        asked = {**(recorded.settings if recorded.attached else {}), **question.settings}
        ran = validate(asked)[keys.PLANNER_POLICY]
        names = (ran if ran in available() else "reservation",)
    settings = {**recorded.settings, **question.settings}
    pauses = tuple(SchedulingChange(switch.at_ms, switch.reserves) for switch in recorded.changes.for_all)
    if keys.QUEUES.name not in question.settings:
        pauses = _with_queues(pauses, recorded)
    arms = []
    for name in dict.fromkeys(names):
        if name in STOCK:
            arms.append(_stock(name, recorded, model, question.pools))
        else:
            arms.append(_ours(settings, name, question.predictor, pauses))
    return arms


def marked(jobs: Sequence[JobSpec], priorities: Sequence[tuple[str, int]]) -> tuple[JobSpec, ...]:
    """The jobs with the priorities that the patterns give them."""
    return tuple(_marked(job, priorities) for job in jobs)


def _marked(first: JobSpec, priorities: Sequence[tuple[str, int]]) -> JobSpec:
    chain = [NextJob(0, first)]
    while chain[-1].job.then:
        chain.append(chain[-1].job.then[0])
    then: tuple[NextJob, ...] = ()
    for following in reversed(chain):
        job = following.job
        found = [value for pattern, value in priorities if matches(job, pattern)]
        given = replace(job, then=then)
        if found:
            # The question's priority, whatever operators gave the job in the recorded run.
            changes = tuple(replace(change, priority=found[-1]) for change in job.changes)
            given = replace(given, priority=found[-1], changes=changes)
        then = (following._replace(job=given),)
    return then[0].job


def matches(job: JobSpec, pattern: str) -> bool:
    """Whether a pattern matches the job: by its name, its key, or its key without the kind in front."""
    key = job.key.rsplit("/", 1)[-1]
    return any(fnmatchcase(text, pattern) for text in (job.name, key, key.partition("-")[2]))


def _switches(recorded: Recorded, ours: ReplayArm, stock: ReplayArm) -> tuple[SchedulingChange, ...]:
    """The recorded changes for all jobs, except switches to policies that are unknown here. In modes other
    than ``on`` Spark's own order decides, and no job holds slots."""
    settings = PolicySettings.from_config(validate(recorded.settings))
    changes = []
    mode, name = recorded.began_in, ours.name
    for switch in recorded.changes.for_all:
        was_on = mode == "on"
        mode = switch.mode or mode
        known = switch.policy if switch.policy in available() else None
        name = known or name
        change = SchedulingChange(switch.at_ms, mode == "on" and switch.reserves)
        if mode == "on" and (known or not was_on):
            change = replace(change, policy=create(name, settings), plan_every_ms=ours.plan_every_ms)
        elif was_on and mode != "on":
            change = replace(change, policy=stock.policy, plan_every_ms=stock.plan_every_ms)
        changes.append(change)
    return tuple(changes)


def _with_queues(changes: tuple[SchedulingChange, ...], recorded: Recorded) -> tuple[SchedulingChange, ...]:
    """The changes, and those of the tenants' queues between them."""
    found = []
    for put in recorded.changes.queues:
        before = [change.reserves for change in changes if change.at_ms <= put.at_ms]
        found.append(SchedulingChange(put.at_ms, before[-1] if before else True, queues=put.tree))
    return tuple(sorted((*changes, *found), key=lambda change: change.at_ms))


def _ours(
    settings: Mapping[str, str], policy: str, predictor: str, changes: tuple[SchedulingChange, ...] = ()
) -> ReplayArm:
    checked = validate(settings)
    return ReplayArm(
        policy,
        create(policy, PolicySettings.from_config(checked)),
        applied(settings),
        predictor,
        checked[keys.PLANNER_INTERVAL],
        changes,
    )


def _stock(name: str, recorded: Recorded, model: Model, pools: Mapping[str, Pool] | None) -> ReplayArm:
    settings = PolicySettings.from_config(validate({}))
    if name == "stock-fifo":
        return ReplayArm(name, StockFifo(settings), {}, "none", 0)
    declared = {**default_pools(recorded), **(pools or {})}
    return ReplayArm(name, StockFair(settings, model.pools, declared, model.task_sets), {}, "none", 0)
