"""The settings that a simulated run applies, and why it refuses the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from spark_sched.config import JOB_PREFIX, POLICY_PREFIX, ConfigKey, keys
from spark_sched.errors import BadInputError

#: Settings that change a run. Options of policies (``spark.sched.policy.*``) do so too.
APPLIED: tuple[ConfigKey[Any], ...] = (
    keys.RESERVATION_ENABLED,
    keys.RESERVATION_ISOLATION,
    keys.RESERVATION_MIN_PRIORITY,
    keys.RESERVATION_DEADLINE,
    keys.RESERVATION_MAX_HOLD,
    keys.RESERVATION_GAP,
    keys.RESERVATION_FIRST_GAP,
    keys.RESERVATION_IDLE_SHARE,
    keys.RESERVATION_PRE_RESERVE_THRESHOLD,
    keys.RESERVATION_ALPHA,
    keys.RESERVATION_ALPHA_WEIGHT,
    keys.RESERVATION_LOOKAHEAD,
    keys.COPIES_ENABLED,
    keys.COPIES_MIN_TASK_TIME,
    keys.COPIES_MIN_SLOWDOWN,
    keys.LIMITS_IDLE_SHARE,
    keys.LIMITS_IDLE_BURST,
    keys.LIMITS_IDLE_WAITING_COST,
    keys.LIMITS_MAX_PRIORITY,
    keys.LIMITS_MAX_ISOLATION,
    keys.PLANNER_SOLVER,
    keys.QUEUES,
)
_APPLIED = frozenset(key.name for key in APPLIED)

#: What a run has instead of a setting.
_INSTEAD = {
    keys.PLANNER_POLICY.name: "give the policy itself (an arm's policy, --policy)",
    keys.PLANNER_INTERVAL.name: "give plan_every",
    keys.SEED.name: "give the run's own seed",
}


def is_applied(name: str) -> bool:
    """Whether a simulated run applies the setting of this name."""
    return name in _APPLIED or name.startswith(POLICY_PREFIX)


def check_applied(
    names: Mapping[str, str], *, also: tuple[str, ...] = (), remedy: str = "leave it out"
) -> None:
    """Raise BadInputError for the first known setting that would do nothing; the sentence names the remedy.

    Args:
        names: settings by name.
        also: settings that the caller applies itself.
        remedy: where nothing stands for the setting.
    """
    for name, text in names.items():
        if not is_applied(name) and name not in also:
            remedy = _INSTEAD.get(name, remedy)
            if name.startswith(JOB_PREFIX):
                remedy = "mark the jobs of the workload"
            raise BadInputError(f"{name} is {text!r} but does nothing in the simulator: {remedy}")


def policy_of(option: str) -> str:
    """The policy that reads ``spark.sched.policy.NAME.OPTION``."""
    return option.removeprefix(POLICY_PREFIX).rpartition(".")[0]


def check_read(names: Mapping[str, str], policies: Collection[str]) -> None:
    """Raise BadInputError for the first option of a policy that is not among those of the run."""
    for name, text in names.items():
        if name.startswith(POLICY_PREFIX) and policy_of(name) not in policies:
            runs = ", ".join(sorted(policies))
            raise BadInputError(
                f"{name} is {text!r} but does nothing under {runs}: run the policy {policy_of(name)!r} or "
                "leave it out"
            )


def applied(properties: Mapping[str, str]) -> dict[str, str]:
    """Of an application's properties, those that a simulated run applies."""
    return {name: text for name, text in properties.items() if is_applied(name)}
