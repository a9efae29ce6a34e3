"""Checks of the settings that choose and tune a policy, without creating one."""

from __future__ import annotations

from spark_sched.config import POLICY_PREFIX, Settings, keys
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.registry import available, choices, is_known, kind_of


def check_settings(settings: Settings) -> None:
    """Check names of policy and solver and the options of all policies, used or not.

    Raises BadInputError for the first wrong one, or if a package that a solver needs is not installed.
    """
    policy, solver = settings[keys.PLANNER_POLICY], settings[keys.PLANNER_SOLVER]
    if not is_known(policy):
        raise BadInputError(
            f"{keys.PLANNER_POLICY.name} is {policy!r} but must be one of {choices()}"
            f"{did_you_mean(policy, available())}"
        )
    if solver != keys.PLANNER_SOLVER.default:
        # A solver is imported only if it is named.
        from spark_sched.policies.three_sigma.solvers import create_solver

        create_solver(solver)
    check_options(settings)


def check_options(settings: Settings) -> None:
    """Check ``spark.sched.policy.*``. Raises BadInputError: unknown policy or option, or wrong value."""
    given = settings.policy_options
    for policy in sorted({name.removeprefix(POLICY_PREFIX).rpartition(".")[0] for name in given}):
        if not is_known(policy):
            raise BadInputError(
                f"{POLICY_PREFIX}{policy}.* is set but the policy {policy!r} is unknown"
                f"{did_you_mean(policy, available())}: choose one of {choices()}"
            )
        kind_of(policy).options.read(policy, given)
