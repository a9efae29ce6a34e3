"""Experiments: a cluster, a workload, arms (policy and settings) and seeds, from one TOML file.

Every arm runs the same jobs for a seed, and copies draw the same durations, so that arms can be compared in
pairs. ``docs/explanation/simulator.md`` lists the keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from spark_sched.config import POLICY_PREFIX, validate
from spark_sched.errors import BadInputError
from spark_sched.files import read_text
from spark_sched.policies import Policy, PolicySettings, available, check_options, create
from spark_sched.predict.build import PREDICTORS
from spark_sched_lab.cluster.cluster import ClusterSpec, Locality, NodeSpec, Power
from spark_sched_lab.engine.partitioning import RuntimePartitioning
from spark_sched_lab.engine.results import Result
from spark_sched_lab.engine.run import simulate
from spark_sched_lab.engine.settings import check_applied, check_read, policy_of
from spark_sched_lab.engine.workload import JobSpec
from spark_sched_lab.runs.simulate.fields import Fields, parse_toml, setting_text
from spark_sched_lab.runs.simulate.workloads import Part, read_part


@dataclass(frozen=True)
class SimulatedArm:
    """One way to schedule: the arguments of `spark_sched_lab.simulator.simulate` apart from cluster, jobs
    and seed.

    Attributes:
        partitioning: what becomes of the stages of the workload; None: they stay as they are.
    """

    name: str
    policy: str
    predictor: str = "none"
    plan_every_ms: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    partitioning: RuntimePartitioning | None = None

    def build(self) -> Policy:
        return create(self.policy, PolicySettings.from_config(validate(self.settings)))


@dataclass(frozen=True)
class Experiment:
    """The runs of an experiment: one per (arm, seed), in any order and on any machine.

    `jobs` makes the ``parts`` of the workload for each seed.
    """

    name: str
    cluster: ClusterSpec
    parts: tuple[Part, ...]
    arms: tuple[SimulatedArm, ...]
    seeds: tuple[int, ...]
    until_ms: int | None

    def jobs(self, seed: int, left_out: Counter[str] | None = None) -> list[JobSpec]:
        """The workload for a seed, in the order of submission; ``left_out`` counts the jobs that cannot be
        run."""
        counter: Counter[str] = Counter() if left_out is None else left_out
        jobs = [job for number, part in enumerate(self.parts) for job in part.jobs((seed, number), counter)]
        jobs.sort(key=lambda job: (job.submit_ms, job.key))
        return jobs

    def run(
        self,
        arm: SimulatedArm,
        seed: int,
        jobs: list[JobSpec],
        *,
        keep_tasks: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        return simulate(
            self.cluster,
            jobs if arm.partitioning is None else list(arm.partitioning.jobs(jobs)),
            arm.build(),
            settings=arm.settings,
            predictor=arm.predictor,
            plan_every_ms=arm.plan_every_ms,
            seed=seed,
            keep_tasks=keep_tasks,
            until_ms=self.until_ms,
            progress=progress,
        )


#: Hint for users who name an event log or a trace instead of an experiment.
_NOT_A_TRACE = (
    "`spark-sched whatif` replays a log, `spark-sched trace stats` reads a trace, and an experiment's "
    "workload may name either"
)


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file.

    Raises BadInputError for a file that cannot be read and for every wrong key or value, naming file, key,
    value and remedy.
    """
    if path.is_dir():
        raise BadInputError(f"{path} is a folder but must be an experiment's TOML file: {_NOT_A_TRACE}")
    try:
        top = parse_toml(read_text(path), str(path))
    except BadInputError:
        if path.suffix.lower() == ".toml" or not path.is_file():
            raise
        raise BadInputError(f"{path} is not an experiment's TOML file: {_NOT_A_TRACE}") from None
    seeds = top.get("seeds", list, [0], "a list of whole numbers, such as [1, 2, 3]")
    if not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise top.wrong("seeds", seeds, "a list of whole numbers from 0, such as [1, 2, 3]")
    cluster = _cluster(top.table("cluster"))
    parts = tuple(read_part(fields, path.parent) for fields in top.tables("workload"))
    shared = _settings(top, "settings")
    arms = tuple(_arm(fields, shared) for fields in top.tables("arm"))
    try:
        check_read(shared, {arm.policy for arm in arms})
    except BadInputError as error:
        raise BadInputError(f"{top.file}: {error}") from None
    experiment = Experiment(
        name=top.text("name", path.stem),
        cluster=cluster,
        parts=parts,
        arms=arms,
        seeds=tuple(dict.fromkeys(seeds)),
        until_ms=top.time_ms("until", None),
    )
    top.done()
    if not parts:
        raise BadInputError(
            f"{path}: workload is missing but must be one or more tables: start each with [[workload]]"
        )
    if not arms:
        raise BadInputError(f"{path}: arm is missing but must be one or more tables: start each with [[arm]]")
    if len({arm.name for arm in arms}) < len(arms):
        raise BadInputError(f"{path}: two arms have the same name: give each [[arm]] its own name")
    return experiment


#: Each node is an object in memory, which a typing error must not exhaust.
_MOST_NODES = 1_000_000


def _cluster(fields: Fields) -> ClusterSpec:
    model = fields.choice("model", ("slots", "sharing"), "slots")
    groups = fields.tables("groups") or [fields]
    racks = fields.whole("racks", 0)
    nodes: list[NodeSpec] = []
    for group in groups:
        count = group.need("nodes", int, "a whole number from 1", least=1)
        if len(nodes) + count > _MOST_NODES:
            raise group.wrong("nodes", count, f"at most {_MOST_NODES:,}, in all groups together")
        partitions = group.whole("partitions", 1, least=1)
        first = group.whole("partition", 0)
        power = group.table("power")
        node = NodeSpec(
            name="",
            slots=group.whole("slots", 1, least=1),
            speed=group.number("speed", 1.0, least=1e-6),
            cores=group.whole("cores", 1, least=1),
            memory=group.number("memory", 0.0),
            power=Power(
                **{f"{key}_w": power.number(f"{key}_w", 0.0) for key in ("idle", "cpu", "memory", "sleep")}
            ),
        )
        power.done()
        for i in range(count):
            number = len(nodes)
            rack = number % racks if racks else None
            nodes.append(replace(node, name=f"n{number}", partition=first + i % partitions, rack=rack))
        if group is not fields:
            group.done()
    locality = None
    if fields.has("locality"):
        table = fields.table("locality")
        locality = Locality(
            wait_ms=table.time_ms("wait", 3_000),
            slowdown=table.number("slowdown", 5.0, least=1.0),
            rack_slowdown=table.number("rack_slowdown", 1.0, least=1.0)
            if table.has("rack_slowdown")
            else None,
            held_is_near=table.flag("held_is_near", False),
        )
        table.done()
    spec = ClusterSpec(
        nodes=tuple(nodes),
        model=model,  # type: ignore[arg-type]
        locality=locality,
        memory_eviction=fields.choice("memory_eviction", ("LSF", "LPF"), "LSF"),  # type: ignore[arg-type]
        power_policy=fields.choice("power_policy", ("idle", "sleep"), "idle"),  # type: ignore[arg-type]
        wake_ms=fields.time_ms("wake", 30_000),
    )
    fields.done()
    return spec


def _settings(fields: Fields, key: str) -> dict[str, str]:
    table = fields.table(key)
    found: dict[str, str] = {}
    for name, text in table.settings():
        try:
            checked = validate({name: text})
            check_applied(checked.given)
            check_options(checked)
        except BadInputError as error:
            raise BadInputError(f"{fields.file}: {table.where}: {error}") from None
        if not name.startswith("spark.sched."):
            raise BadInputError(
                f"{fields.file}: unknown setting {table.name(name)}: names begin with spark.sched."
            )
        found[name] = text
    return found


def _options(fields: Fields, policy: str) -> dict[str, str]:
    """The arm's options as settings of its policy; a table is numbers by name."""
    table = fields.table("options")
    found: dict[str, str] = {}
    for name, value in table.rest().items():
        text = setting_text(value)
        if isinstance(value, dict):
            text = ",".join(f"{key}={number}" for key, number in value.items())
        found[f"{POLICY_PREFIX}{policy}.{name}"] = text
    try:
        check_options(validate(found))
    except BadInputError as error:
        raise BadInputError(f"{fields.file}: {table.where}: {error}") from None
    return found


def _read_by(policy: str, shared: Mapping[str, str]) -> dict[str, str]:
    """The settings that all arms share, without the options of other policies."""
    return {
        name: text
        for name, text in shared.items()
        if not name.startswith(POLICY_PREFIX) or policy_of(name) == policy
    }


def _arm(fields: Fields, shared: Mapping[str, str]) -> SimulatedArm:
    fields.need("policy", str, f"one of {', '.join(available())}")
    policy = fields.choice("policy", available(), "")
    own = _settings(fields, "settings")
    try:
        check_read(own, (policy,))
    except BadInputError as error:
        raise BadInputError(f"{fields.file}: {fields.where}: {error}") from None
    arm = SimulatedArm(
        name=fields.text("name", policy),
        policy=policy,
        predictor=fields.choice("predictor", PREDICTORS, "none"),
        plan_every_ms=fields.time_ms("plan_every", 0),
        settings={**_read_by(policy, shared), **own, **_options(fields, policy)},
        partitioning=_partitioning(fields.table("partitioning")) if fields.has("partitioning") else None,
    )
    fields.done()
    return arm


def _partitioning(fields: Fields) -> RuntimePartitioning:
    task_ms = fields.time_ms("task_runtime", 500)
    if task_ms < 1:
        raise fields.wrong(
            "task_runtime", fields.text("task_runtime", ""), "a time of at least 1ms, in quotes"
        )
    found = RuntimePartitioning(
        task_ms, fields.time_ms("overhead", 0), fields.whole("most_tasks", 10_000, least=1)
    )
    fields.done()
    return found
