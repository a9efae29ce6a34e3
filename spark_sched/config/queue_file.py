"""The file of tenants' queues and its checks, and the one-line setting that it becomes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spark_sched.config.queues import Amount, PlacementRule, Preemption, PriorityLimit, QueueSpec, QueueTree
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.files import read_text, toml_table
from spark_sched.units import TIME_EXAMPLES, format_time_ms, parse_time_ms

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) ?%", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LEAST_WEIGHT, _MOST_WEIGHT = 0.001, 1_000_000
_LEAST_HOURS, _MOST_HOURS = 0.001, 1_000_000
#: A longer value is cut off in messages.
_LONGEST_SHOWN = 100


def read_queues(path: Path) -> QueueTree:
    """The queues of a TOML file. Raises BadInputError at the first fault: it names file, queue, key, value
    and remedy."""
    return _Reader(str(path)).tree(toml_table(read_text(path), str(path)))


def parse_queues(text: str) -> QueueTree | None:
    """The queues of the setting ``spark.sched.queues``; None where it is empty. Raises ValueError for a text
    that `QueueTree.to_json` does not write."""
    return _from_document(json.loads(text), "spark.sched.queues") if text else None


def with_change(document: Mapping[str, Any], queue: str, changes: Mapping[str, Any]) -> QueueTree:
    """The queues of the parsed setting, with other values of one queue.

    Args:
        changes: new values by key, as in the file; None takes the key away.

    Raises:
        BadInputError: no such queue, or the queues would not fit together.
    """
    paths = [entry["queue"] for entry in document["queues"]]
    if queue not in paths:
        raise BadInputError(
            f"queue is {queue!r}{did_you_mean(queue, paths)} but must be one of {', '.join(paths)}"
        )
    queues = []
    for entry in document["queues"]:
        if entry["queue"] == queue:
            merged = {**entry, **changes}
            queues.append({key: value for key, value in merged.items() if value is not None})
        else:
            queues.append(entry)
    return _from_document({**document, "queues": queues}, "the change")


def _from_document(document: Any, name: str) -> QueueTree:
    if not isinstance(document, dict) or not isinstance(document.get("queues"), list):
        raise ValueError(name)
    nested: dict[str, Any] = {}
    for entry in document["queues"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("queue"), str):
            raise ValueError(name)
        table = nested
        *ancestors, last = entry["queue"].split(".")
        for ancestor in ancestors:
            table = table.setdefault(ancestor, {})
        table[last] = {key: value for key, value in entry.items() if key != "queue"}
    return _Reader(name).tree({**document, "queues": nested})


_TOP = ("default", "preemption", "queues", "rules")
_PREEMPTION_KEYS = ("mode", "threshold", "timeout", "interval")
_MODES = ("off", "observe", "on")
#: Of a queue.
KEYS = (
    "floor", "weight", "ceiling", "held_ceiling", "max_running_jobs", "max_waiting_jobs", "wait_timeout",
    "max_priority", "max_priorities", "users", "groups", "slot_hours_per_day",
)  # fmt: skip
#: Keys whose values are lists of tables.
TABLES = ("max_priorities",)
#: Keys whose values are lists of names.
LISTS = ("users", "groups")
_LIMIT_KEYS = ("user", "group", "max_priority")
_RULE_KEYS = ("queue", "user", "group", "name", "class")
_AMOUNT = "a number of slots such as 8, or a share of all slots in quotes such as '30 %'"


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file

    def tree(self, top: Mapping[str, Any]) -> QueueTree:
        self._known("", top, _TOP)
        tables = top.get("queues", {})
        if not isinstance(tables, dict) or not tables:
            raise self._bad("queues is missing but must be a table of queues: start each with [queues.NAME]")
        queues = tuple(self._below("", (), tables))
        paths = [queue.path for queue in queues]
        parents = {queue.parent for queue in queues}
        rules = top.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise self._wrong("rules", rules, "a list of tables: start each with [[rules]]")
        numbered = enumerate(rules)
        found = tuple(self._rule(f"rules[{number}]", rule, paths, parents) for number, rule in numbered)
        for number, placed in enumerate(found[:-1]):
            if (placed.user, placed.group, placed.name, placed.job_class) == (None, None, None, None):
                raise self._bad(
                    f"rules[{number}] has no condition, so that the rules after it never apply: give it one "
                    "of user, group, name and class, or move it to the end"
                )
        if "default" not in top:
            raise self._bad("default is missing but must name the queue of jobs that no rule places")
        default = self._leaf("default", top["default"], paths, parents)
        self._promised("", queues)
        tree = QueueTree(queues, found, default, self._preemption(top, queues))
        closed = next((spec for spec in tree.path_of(default) if spec.users or spec.groups), None)
        if closed is not None:
            which = "users" if closed.users else "groups"
            raise self._bad(
                f"default is {default!r} but queue {closed.path!r} has {which}, so that jobs of other users "
                f"would have no queue: name a queue without {which}"
            )
        return tree

    def _preemption(self, top: Mapping[str, Any], queues: tuple[QueueSpec, ...]) -> Preemption:
        table = top.get("preemption", {})
        if not isinstance(table, dict):
            raise self._wrong("preemption", table, "a table: write [preemption]")
        self._known("preemption", table, _PREEMPTION_KEYS)
        if table and all(spec.floor is None for spec in queues):
            raise self._bad("preemption is given but no queue has a floor: add floors, or leave it out")
        usual = Preemption()
        mode, threshold = table.get("mode", usual.mode), table.get("threshold", usual.threshold)
        if mode not in _MODES:
            raise self._wrong("preemption.mode", mode, f"one of {', '.join(_MODES)}")
        if type(threshold) not in (int, float) or not 0 < threshold <= 1:
            raise self._wrong("preemption.threshold", threshold, "a number above 0, 1 at most")
        times_ms = {"timeout": usual.timeout_ms, "interval": usual.interval_ms}
        for key in times_ms:
            if key in table:
                times_ms[key] = self._length_ms(f"preemption.{key}", table[key])
        return Preemption(mode, float(threshold), times_ms["timeout"], times_ms["interval"])

    def _length_ms(self, what: str, value: object) -> int:
        try:
            return parse_time_ms(value)  # type: ignore[arg-type]
        except (ValueError, TypeError, AttributeError):
            raise self._wrong(what, value, f"a time in quotes such as {TIME_EXAMPLES}") from None

    def _below(
        self, parent: str, above: tuple[QueueSpec, ...], tables: Mapping[str, Any]
    ) -> Iterator[QueueSpec]:
        for name, table in tables.items():
            path = f"{parent}.{name}" if parent else name
            if not _NAME.fullmatch(name):
                raise self._bad(
                    f"queue {path!r} has the name {name!r} but it must be 1 to 64 letters, digits, - and _"
                )
            if not isinstance(table, dict):
                raise self._wrong(f"queues.{path}", table, f"a table: write [queues.{path}]")
            settings = {key: value for key, value in table.items() if not isinstance(value, dict)}
            spec = self._queue(path, settings)
            self._within(spec, above)
            yield spec
            children = {key: value for key, value in table.items() if isinstance(value, dict)}
            yield from self._below(path, (*above, spec), children)

    def _queue(self, path: str, table: Mapping[str, Any]) -> QueueSpec:
        self._known(f"queue {path!r}", table, KEYS)
        return QueueSpec(
            path,
            ceiling=self._amount(path, table, "ceiling", 1),
            held_ceiling=self._amount(path, table, "held_ceiling", 0),
            max_running_jobs=self._whole(path, table, "max_running_jobs", 1, _INT_MAX),
            max_waiting_jobs=self._whole(path, table, "max_waiting_jobs", 0, _INT_MAX),
            wait_timeout_ms=self._time_ms(path, table, "wait_timeout"),
            max_priority=self._whole(path, table, "max_priority", _INT_MIN, _INT_MAX),
            max_priorities=self._priority_limits(path, table),
            users=self._names(path, table, "users"),
            groups=self._names(path, table, "groups"),
            floor=self._amount(path, table, "floor", 1),
            weight=self._number(path, table, "weight", _LEAST_WEIGHT, _MOST_WEIGHT),
            slot_hours_per_day=self._number(path, table, "slot_hours_per_day", _LEAST_HOURS, _MOST_HOURS),
        )

    def _within(self, spec: QueueSpec, above: tuple[QueueSpec, ...]) -> None:
        """The limits of a queue fit each other and its ancestors'."""
        path = spec.path
        if spec.held_ceiling and spec.ceiling and spec.held_ceiling.exceeds(spec.ceiling):
            raise self._bad(
                f"queue {path!r} has held_ceiling {spec.held_ceiling} but its ceiling is {spec.ceiling}, "
                "which counts held slots, too: lower held_ceiling"
            )
        for each in (spec, *reversed(above)):
            if spec.floor and each.ceiling and spec.floor.exceeds(each.ceiling):
                owner = "its" if each is spec else f"its ancestor {each.path!r} has"
                verb = " is" if each is spec else ""
                raise self._bad(
                    f"queue {path!r} has floor {spec.floor} but {owner} ceiling{verb} {each.ceiling}, so "
                    "that it would never have its floor: lower the floor or raise the ceiling"
                )
        for ancestor in above:
            for key in ("ceiling", "held_ceiling"):
                mine, its = getattr(spec, key), getattr(ancestor, key)
                if mine is not None and its is not None and mine.exceeds(its):
                    raise self._above(spec, key, mine, ancestor, its)
            for key in ("max_running_jobs", "max_priority", "slot_hours_per_day"):
                mine, its = getattr(spec, key), getattr(ancestor, key)
                if mine is not None and its is not None and mine > its:
                    raise self._above(spec, key, mine, ancestor, its)
            most = [limit.max_priority for limit in ancestor.max_priorities]
            most += [] if ancestor.max_priority is None else [ancestor.max_priority]
            for limit in spec.max_priorities:
                if ancestor.max_priority is not None and limit.max_priority > max(most):
                    raise self._above(spec, "max_priorities of", limit.max_priority, ancestor, max(most))
        if all(each.max_running_jobs is None and each.slot_hours_per_day is None for each in (*above, spec)):
            for key, value in (
                ("max_waiting_jobs", spec.max_waiting_jobs),
                ("wait_timeout", spec.wait_timeout_ms and format_time_ms(spec.wait_timeout_ms)),
            ):
                if value is not None:
                    raise self._bad(
                        f"queue {path!r} has {key} {value} but no max_running_jobs or slot_hours_per_day, so "
                        f"that no job waits: add one of them, or leave {key} out"
                    )

    def _priority_limits(self, path: str, table: Mapping[str, Any]) -> tuple[PriorityLimit, ...]:
        value = table.get("max_priorities", [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            wanted = "a list of tables such as [{group = 'leads', max_priority = 10}]"
            raise self._wrong_of(path, "max_priorities", value, wanted)
        usual, found = table.get("max_priority"), []
        for number, each in enumerate(value):
            where = f"max_priorities[{number}] of queue {path!r}"
            self._known(where, each, _LIMIT_KEYS)
            most = each.get("max_priority")
            if type(most) is not int or not _INT_MIN <= most <= _INT_MAX:
                wanted = f"a whole number from {_INT_MIN} to {_INT_MAX}"
                raise self._wrong(f"max_priority in {where}", most, wanted)
            for key in ("user", "group"):
                if key in each and (not isinstance(each[key], str) or not each[key]):
                    wanted = "a text in quotes, in which * is any text"
                    raise self._wrong(f"{key} in {where}", each[key], wanted)
            if "user" not in each and "group" not in each:
                raise self._bad(f"{where} has neither user nor group: give it one, or set max_priority")
            if "group" in each and (usual is None or most < usual):
                has = "none" if usual is None else usual
                raise self._bad(
                    f"{where} has {most} but max_priority of the queue is {has}, so that members whose "
                    "groups are unknown would have more: set max_priority to less"
                )
            found.append(PriorityLimit(most, each.get("user"), each.get("group")))
        self._unknown_groups_give_nothing(path, found)
        return tuple(found)

    def _unknown_groups_give_nothing(self, path: str, limits: list[PriorityLimit]) -> None:
        """Where no group is known, the entries without one are left: none of them may give a member more."""
        for number, by_group in enumerate(limits):
            for later in range(number + 1, len(limits)):
                other = limits[later]
                if by_group.group is None or other.group is not None:
                    continue
                if other.max_priority > by_group.max_priority:
                    raise self._bad(
                        f"max_priorities[{number}] of queue {path!r} (group {by_group.group!r}) has "
                        f"{by_group.max_priority} but the later max_priorities[{later}] (user "
                        f"{other.user!r}) has {other.max_priority}, so that members whose groups are unknown "
                        "would have more: put the second before the first, or give it "
                        f"{by_group.max_priority} at most"
                    )

    def _promised(self, path: str, queues: tuple[QueueSpec, ...]) -> tuple[int, float]:
        """Slots, and percentages of all slots, that are promised below the queue, by the topmost floors
        there. The empty path stands for the whole application."""
        slots, percent = 0, 0.0
        for spec in queues:
            if spec.parent != path:
                continue
            below = self._promised(spec.path, queues)
            if spec.floor is None:
                slots, percent = slots + below[0], percent + below[1]
            elif spec.floor.slots is not None:
                slots += spec.floor.slots
            else:
                percent += spec.floor.percent
        if not path:
            self._fits("the floors of the queues", "all slots are", slots, percent, Amount(percent=100.0))
        for spec in queues:
            for key in ("floor", "ceiling"):
                most: Amount | None = getattr(spec, key)
                if spec.path == path and most is not None:
                    self._fits(f"the floors below queue {path!r}", f"its {key} is", slots, percent, most)
        return slots, percent

    def _fits(self, what: str, limit: str, slots: int, percent: float, most: Amount) -> None:
        promised = Amount(slots) if most.slots is not None else Amount(percent=round(percent, 6))
        if promised.exceeds(most):
            raise self._bad(f"{what} add up to {promised} but {limit} {most}: lower some of them")

    def _above(
        self, spec: QueueSpec, key: str, mine: object, ancestor: QueueSpec, its: object
    ) -> BadInputError:
        return self._bad(
            f"queue {spec.path!r} has {key} {mine} but its ancestor {ancestor.path!r} has {its}: lower the "
            "first or raise the second"
        )

    def _rule(
        self, where: str, table: Mapping[str, Any], paths: list[str], parents: set[str]
    ) -> PlacementRule:
        self._known(where, table, _RULE_KEYS)
        if "queue" not in table:
            raise self._bad(f"{where} has no queue: add the queue of the jobs that it matches")
        queue = self._leaf(f"{where}.queue", table["queue"], paths, parents)
        for key in _RULE_KEYS[1:]:
            if key in table and (not isinstance(table[key], str) or not table[key]):
                raise self._wrong(f"{where}.{key}", table[key], "a text in quotes, in which * is any text")
        return PlacementRule(
            queue, table.get("user"), table.get("name"), table.get("class"), table.get("group")
        )

    def _leaf(self, where: str, value: object, paths: list[str], parents: set[str]) -> str:
        if not isinstance(value, str) or value not in paths:
            hint = did_you_mean(value, paths) if isinstance(value, str) else ""
            raise self._bad(
                f"{where} is {_shown(value)}{hint} but must be one of the queues {', '.join(paths)}"
            )
        if value in parents:
            below = [path for path in paths if path.startswith(f"{value}.")]
            raise self._bad(
                f"{where} is {value!r}, which has queues below it, and jobs are in the lowest ones: name one "
                f"of {', '.join(below)}"
            )
        return value

    # ---- values ----

    def _amount(self, path: str, table: Mapping[str, Any], key: str, least: int) -> Amount | None:
        value = table.get(key)
        if value is None:
            return None
        if type(value) is int and least <= value <= _INT_MAX:
            return Amount(value)
        share = _SHARE.fullmatch(value) if isinstance(value, str) else None
        if share is None or not 0.0 < float(share[1]) <= 100.0:
            raise self._wrong_of(path, key, value, _AMOUNT)
        return Amount(percent=float(share[1]))

    def _whole(self, path: str, table: Mapping[str, Any], key: str, least: int, most: int) -> int | None:
        value = table.get(key)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            raise self._wrong_of(path, key, value, f"a whole number from {least} to {most}")
        return value

    def _number(
        self, path: str, table: Mapping[str, Any], key: str, least: float, most: float
    ) -> float | None:
        value = table.get(key)
        if value is None:
            return None
        if type(value) not in (int, float) or not least <= value <= most:
            raise self._wrong_of(path, key, value, f"a number from {least:g} to {most:,}")
        return float(value)

    def _time_ms(self, path: str, table: Mapping[str, Any], key: str) -> int | None:
        value = table.get(key)
        if value is None:
            return None
        try:
            return parse_time_ms(value)
        except (ValueError, TypeError, AttributeError):
            raise self._wrong_of(path, key, value, f"a time in quotes such as {TIME_EXAMPLES}") from None

    def _names(self, path: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, ["*"])
        if not isinstance(value, list) or not value or not all(isinstance(u, str) and u for u in value):
            raise self._wrong_of(path, key, value, "a list of names in quotes, in which * is any text")
        return tuple(value) if key in table else ()

    # ---- messages ----

    def _known(self, where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                owner = f"{where} has the" if where else "there is an"
                raise self._bad(
                    f"{owner} unknown key {key!r}{did_you_mean(key, keys)}: the keys are {', '.join(keys)}"
                )

    def _wrong_of(self, path: str, key: str, value: object, wanted: str) -> BadInputError:
        return self._bad(f"queue {path!r} has {key} {_shown(value)} but it must be {wanted}")

    def _wrong(self, what: str, value: object, wanted: str) -> BadInputError:
        return self._bad(f"{what} is {_shown(value)} but must be {wanted}")

    def _bad(self, sentence: str) -> BadInputError:
        return BadInputError(f"{self._file}: {sentence}")


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
