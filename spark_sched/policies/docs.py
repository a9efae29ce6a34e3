"""``docs/reference/policy-options.md``, generated: ``python -m spark_sched.policies.docs --write``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from spark_sched.generated import show_or_write, table_row
from spark_sched.policies.options import Option
from spark_sched.policies.registry import built_in, for_use, kind_of

REGENERATE = "python -m spark_sched.policies.docs --write"

_HEAD = f"""<!-- Generated: do not edit. Change spark_sched/policies, then run: {REGENERATE} -->

# Options of policies

This page lists which changes make each built-in policy plan anew, what it reads and uses, and its options.
[Policies](policies.md) says what each policy does. [Write a policy](../how-to/write-a-policy.md) shows how to
add one.

`spark-sched policies` prints those for use, with `--all` also those that exist for comparison.

| policy | for | makes a new plan after changes of | marks that it reads | its plans use | options |
|---|---|---|---|---|---|
"""

_OPTIONS_HEAD = """
## Options

An option is the setting `spark.sched.policy.POLICY.OPTION`; in an experiment file it is an entry of the arm's
`options`. An unknown option stops the application with a message before any executor starts.

| option | policies | unit | default | must be | meaning |
|---|---|---|---|---|---|
"""

_USES = {
    "task_times": "task times",
    "places": "places",
    "start_times": "start times",
    "preempts": "preemption",
    "evicts_tasks": "evictions of single tasks",
    "pilots": "pilots",
    "new_jobs_wait": "new jobs wait",
}


def policies_page() -> str:
    """The whole page, ending in a newline."""
    rows: list[str] = []
    policies: dict[Option[Any], list[str]] = {}
    for name in built_in():
        kind = kind_of(name)
        can = kind.capabilities
        flags = asdict(can)
        uses = ", ".join(word for flag, word in _USES.items() if flags[flag]) or "-"
        declared = ", ".join(f"`{option.name}`" for option in kind.options.declared) or "-"
        marks = ", ".join(sorted(can.marks)) or "-"
        purpose = "use" if name in for_use() else "comparison"
        rows.append(table_row((f"`{name}`", purpose, can.changes_with.name.lower(), marks, uses, declared)))
        for option in kind.options.declared:
            policies.setdefault(option, []).append(f"`{name}`")
    options = [_row(option, names) for option, names in policies.items()]
    return _HEAD + "".join(rows) + _OPTIONS_HEAD + "".join(options)


def _row(option: Option[Any], policies: list[str]) -> str:
    name, default = f"`{option.name}`", f"`{option.default}`" if option.default else "(empty)"
    return table_row((name, ", ".join(policies), option.value.unit, default, option.value.wanted, option.doc))


if __name__ == "__main__":
    raise SystemExit(show_or_write(policies_page(), "policy-options.md", sys.argv[1:]))
