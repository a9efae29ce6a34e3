"""What can be wrong with the settings that choose and tune a policy, found without making one."""

from __future__ import annotations

from spark_sched.config import Settings, keys
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.registry import available

__all__ = ["check_settings"]


def check_settings(settings: Settings) -> None:
    """Check names of policy and solver and the lengths of queues and windows, used by the policy or not.

    Raises BadInputError for the first wrong one, and where what a solver needs is not installed.
    """
    policy, solver = settings[keys.PLANNER_POLICY], settings[keys.PLANNER_SOLVER]
    if policy not in available():
        raise BadInputError(
            f"{keys.PLANNER_POLICY.name} is {policy!r} but must be one of {', '.join(available())}"
            f"{did_you_mean(policy, available())}"
        )
    if solver != keys.PLANNER_SOLVER.default:
        # Solvers are imported by those alone who name one.
        from spark_sched.policies.three_sigma.solvers import create_solver

        create_solver(solver)
    first_slot_ms, window_ms = settings[keys.PLANNER_FIRST_SLOT], settings[keys.PLANNER_WINDOW]
    for key in (keys.PLANNER_FIRST_QUEUE, keys.PLANNER_FIRST_SLOT):
        if settings[key] < 1:
            raise BadInputError(f"{key.name} is {settings[key]} ms but must be at least 1ms")
    if window_ms < first_slot_ms:
        raise BadInputError(
            f"{keys.PLANNER_WINDOW.name} is {window_ms} ms but must be at least {first_slot_ms} ms, the "
            f"length of {keys.PLANNER_FIRST_SLOT.name}"
        )
