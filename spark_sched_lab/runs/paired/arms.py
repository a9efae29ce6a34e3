"""Arms: one way to schedule each, from a table of a suite file.

An arm marks the foreground job (isolation, copies, priority, deadline) and sets its application's properties.
Arms with the same properties share one application, so that arms with different levels of P differ only in
the mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spark_sched.config import BY_NAME, JOB_PREFIX, POLICY_PREFIX, PREFIX, keys, parse, validate
from spark_sched.errors import BadInputError
from spark_sched.policies import available, check_settings, kind_of
from spark_sched_lab.engine.settings import applied, check_applied
from spark_sched_lab.runs.simulate.fields import Fields

DEFAULT_PRIORITY = 10
#: Priorities are the JVM's 32-bit integers.
LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**31 - 1
SCHEDULERS = ("spark_sched", "fair", "fifo")
#: Spark properties that the runs themselves need; an arm cannot set them.
_RESERVED = (
    "spark.master",
    "spark.app.name",
    "spark.cores.max",
    "spark.executor.cores",
    "spark.scheduler.mode",
    "spark.scheduler.allocation.file",
)
#: Settings that a simulated run has as arguments.
_SIMULATED = (keys.PLANNER_POLICY.name, keys.PLANNER_INTERVAL.name)
#: Keys of an arm and the settings with the same meaning.
_SAME = {
    "isolation": (keys.RESERVATION_ISOLATION.name, keys.JOB_ISOLATION.name),
    "copies": (keys.COPIES_ENABLED.name, keys.JOB_COPIES.name),
    "hold": (keys.RESERVATION_DEADLINE.name, keys.RESERVATION_MAX_HOLD.name),
    "pre_reserve": (keys.RESERVATION_PRE_RESERVE_THRESHOLD.name,),
    "policy": (keys.PLANNER_POLICY.name,),
}


@dataclass(frozen=True)
class ClusterSize:
    """Workers on this machine, and slots of each for every application."""

    workers: int
    slots: int

    @property
    def all_slots(self) -> int:
        return self.workers * self.slots


@dataclass(frozen=True)
class Arm:
    """One way to schedule.

    Attributes:
        name: unique in its suite.
        scheduler: spark_sched, or one of Spark's own modes.
        isolation, copies, priority, deadline_s: marks of the foreground job; its deadline counts from its
            submission. Without an isolation of its own it has the configured one, which a policy may tune.
        properties: of the application, sorted.
    """

    name: str
    scheduler: Literal["spark_sched", "fair", "fifo"]
    isolation: float | None = None
    copies: Literal["auto", "never"] = "auto"
    priority: int = DEFAULT_PRIORITY
    deadline_s: float | None = None
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def stock(self) -> bool:
        """Whether Spark's own scheduler runs it."""
        return self.scheduler != "spark_sched"

    @property
    def application(self) -> tuple[object, ...]:
        """Equal for arms that can share an application."""
        return (self.scheduler, self.properties)

    @property
    def policy(self) -> str:
        """The policy that makes its plans; empty for Spark's own scheduler."""
        return "" if self.stock else validate(dict(self.properties))[keys.PLANNER_POLICY]

    @property
    def level(self) -> float:
        """The isolation level P that its foreground job has, or starts with where the policy tunes it."""
        configured: float = validate(dict(self.properties))[keys.RESERVATION_ISOLATION]
        return configured if self.isolation is None else self.isolation

    @property
    def simulated_settings(self) -> dict[str, str]:
        """What it sets in the simulator, where Spark's own modes are policies without holds and copies.

        Raises BadInputError for a property that would do nothing there.
        """
        properties = dict(self.properties)
        try:
            check_applied(properties, also=_SIMULATED, remedy="remove it, or run without --simulate")
        except BadInputError as error:
            raise BadInputError(f"arm {self.name!r}: {error}") from None
        if self.stock:
            return {keys.RESERVATION_ENABLED.name: "false", keys.COPIES_ENABLED.name: "false"}
        return applied(properties)

    @property
    def simulated_plan_every_ms(self) -> int:
        """The time between its plans in the simulator; 0: whenever something changed."""
        given = keys.PLANNER_INTERVAL.name in dict(self.properties)
        return validate(dict(self.properties))[keys.PLANNER_INTERVAL] if given else 0

    @property
    def effect(self) -> tuple[object, ...]:
        """Equal for arms with the same scheduling: a setting with its default value has no effect."""
        settings = {
            name: value
            for name, text in self.properties
            if (value := _unless_default(name, text)) is not None
        }
        settings.pop(keys.RESERVATION_ISOLATION.name, None)
        fixed = not self.stock and kind_of(self.policy).capabilities.tunes_isolation and self.isolation
        marks = (self.level, fixed, self.copies, self.priority, self.deadline_s)
        return (self.scheduler, tuple(sorted(settings.items())), *marks)

    def as_json(self) -> dict[str, Any]:
        if self.stock:
            return {"arm": self.name, "scheduler": self.scheduler, "settings": dict(self.properties)}
        return {
            "arm": self.name,
            "scheduler": self.scheduler,
            "isolation": self.level,
            "copies": self.copies,
            "priority": self.priority,
            "deadline_s": self.deadline_s,
            "settings": dict(self.properties),
        }


def read_cluster(fields: Fields) -> ClusterSize:
    """The table of a cluster. Raises BadInputError for a wrong key or value."""
    size = ClusterSize(fields.whole("workers", 2, least=1), fields.whole("slots", 8, least=1))
    fields.done()
    return size


def read_arms(tables: list[Fields], shared: Mapping[str, str]) -> tuple[Arm, ...]:
    """The arms of a suite; ``shared`` settings hold for those under spark_sched that set nothing else.

    Raises BadInputError for two arms with the same name or the same effect, and for any wrong key or value.
    """
    arms: list[Arm] = []
    for fields in tables:
        arm = _read_arm(fields, shared)
        for other in arms:
            if other.name == arm.name:
                raise BadInputError(f"{fields.file}: two arms have the name {arm.name!r}: rename one")
            if other.effect == arm.effect:
                raise BadInputError(
                    f"{fields.file}: the arms {other.name!r} and {arm.name!r} have the same "
                    "settings: remove one (the baseline's second run is added by itself)"
                )
        arms.append(arm)
    return tuple(arms)


def _read_arm(fields: Fields, shared: Mapping[str, str]) -> Arm:
    name = fields.need("name", str, "text in quotes")
    scheduler = fields.choice("scheduler", SCHEDULERS, "spark_sched")
    own = read_settings(fields.table("settings"))
    given = fields.rest()
    if scheduler != "spark_sched":
        _check_stock(fields, scheduler, given, own)
        return Arm(name, scheduler, properties=tuple(sorted(own.items())))  # type: ignore[arg-type]
    for key, same in _SAME.items():
        twice = next((setting for setting in same if setting in own), None)
        if key in given and twice is not None:
            raise BadInputError(
                f"{fields.file}: {fields.where} ({name}) sets the same thing twice, {key} and {twice}: keep "
                "one of them"
            )
    settings = {**shared, **own}
    if "hold" in given and keys.RESERVATION_ISOLATION.name not in own:
        settings.pop(keys.RESERVATION_ISOLATION.name, None)
    table = Fields(fields.file, fields.where, {k: v for k, v in given.items() if k != "settings"})
    arm = _marked(table, name, settings)
    _check_read(fields, arm, {*given, *(key for key, same in _SAME.items() if {*same} & {*own})})
    return arm


def _marked(table: Fields, name: str, settings: dict[str, str]) -> Arm:
    """Reads the arm's own keys; those that are not marks become settings."""
    for key in ("name", "scheduler"):
        table.has(key)
    if table.has("hold"):
        hold_ms = table.time_ms("hold", 0)
        settings |= {keys.RESERVATION_DEADLINE.name: "fixed", keys.RESERVATION_MAX_HOLD.name: f"{hold_ms}ms"}
    if table.has("pre_reserve"):
        settings[keys.RESERVATION_PRE_RESERVE_THRESHOLD.name] = f"{table.share('pre_reserve'):g}"
    if table.has("policy"):
        settings[keys.PLANNER_POLICY.name] = table.choice("policy", available(), "")
    isolation = None
    if not kind_of(validate(settings)[keys.PLANNER_POLICY]).capabilities.tunes_isolation:
        # As a mark, so that arms that differ in it alone share an application.
        text = settings.pop(keys.RESERVATION_ISOLATION.name, None)
        isolation = None if text is None else parse(keys.RESERVATION_ISOLATION, text)
    copies = parse(keys.COPIES_ENABLED, settings.pop(keys.COPIES_ENABLED.name, "true"))
    if table.has("isolation"):
        isolation = table.share("isolation")
    chosen = table.choice("copies", ("auto", "never"), "auto" if copies else "never")
    deadline_ms = table.time_ms("deadline", None)
    wanted = f"a whole number from {LEAST_PRIORITY} to {MOST_PRIORITY}"
    priority = table.get("priority", int, DEFAULT_PRIORITY, wanted, least=LEAST_PRIORITY, most=MOST_PRIORITY)
    try:
        # Each setting is valid by itself, but some contradict each other.
        check_settings(validate(settings))
    except BadInputError as error:
        raise BadInputError(f"{table.file}: {table.where} ({name}): {error}") from None
    arm = Arm(
        name,
        "spark_sched",
        isolation,
        chosen,  # type: ignore[arg-type]
        priority,
        None if deadline_ms is None else deadline_ms / 1000,
        tuple(sorted(settings.items())),
    )
    table.done()
    return arm


def read_settings(table: Fields) -> dict[str, str]:
    """Checked settings: of spark_sched, and Spark properties that the runs do not need themselves."""
    found: dict[str, str] = {}
    where = f"{table.file}: {table.where}"
    for name, text in table.settings():
        if name.startswith(JOB_PREFIX):
            raise BadInputError(
                f"{where}: {name} marks a job, and no policy reads it here: use the arm's keys"
            )
        if name in _RESERVED:
            raise BadInputError(f"{where}: {name} is set by the experiment itself: remove it")
        if not name.startswith("spark."):
            raise BadInputError(f"{where}: unknown setting {name}: names begin with {PREFIX} or spark.")
        try:
            check_settings(validate({name: text}))
        except BadInputError as error:
            raise BadInputError(f"{where}: {error}") from None
        found[name] = text
    return found


def _check_stock(
    fields: Fields, scheduler: str, given: Mapping[str, Any], settings: Mapping[str, str]
) -> None:
    ours = [key for key in given if key not in ("name", "scheduler", "settings")]
    ours += [name for name in settings if name.startswith(PREFIX)]
    if ours:
        raise BadInputError(
            f"{fields.file}: {fields.where} sets {ours[0]}, which Spark's own {scheduler.upper()} scheduler "
            'does not read: remove it or use scheduler = "spark_sched"'
        )


def _unless_default(name: str, text: str) -> object | None:
    """The value of a setting; None if it is the default. Options and Spark's properties count as text."""
    key = BY_NAME.get(name)
    if key is None:
        return text
    value = parse(key, text)
    return None if value == parse(key, key.default) else (value,)


def unread(arm: Arm, given: Iterable[str]) -> str | None:
    """A key of the arm that has no effect, and why, to end a sentence "sets …"; None if all keys are read."""
    settings = validate(dict(arm.properties))
    planned = settings[keys.PLANNER_ENABLED]
    marks = kind_of(arm.policy).capabilities.marks if planned else frozenset({"priority", "isolation"})
    needs = {"priority": "priority", "isolation": "isolation", "deadline": "deadline"}
    for key, mark in (needs | {"hold": "isolation", "pre_reserve": "isolation"}).items():
        if key not in given:
            continue
        if mark not in marks:
            who = f"the policy {arm.policy!r}" if planned else "the configured order, without a planner,"
            return f"{key}, which {who} does not read"
        if mark == "isolation" and not settings[keys.RESERVATION_ENABLED]:
            return f"{key}, which nothing reads with {keys.RESERVATION_ENABLED.name}=false"
    fixed = settings[keys.RESERVATION_DEADLINE] == "fixed"
    if fixed and "isolation" in given and arm.level > 0.0:
        return "isolation, which a fixed deadline (hold) does not depend on"
    return None


def _check_read(fields: Fields, arm: Arm, given: Iterable[str]) -> None:
    """Refuse keys that nothing reads, and options of policies that the arm does not run."""
    key_and_reason = unread(arm, given)
    if key_and_reason is not None:
        raise BadInputError(f"{fields.file}: {fields.where} ({arm.name}) sets {key_and_reason}: remove it")
    for name, _ in arm.properties:
        policy = name.removeprefix(POLICY_PREFIX).rpartition(".")[0]
        if name.startswith(POLICY_PREFIX) and policy != arm.policy:
            raise BadInputError(
                f"{fields.file}: {fields.where} ({arm.name}) sets {name}, but its policy is {arm.policy!r}, "
                f"which does not read it: set policy = {policy!r} or remove it"
            )
