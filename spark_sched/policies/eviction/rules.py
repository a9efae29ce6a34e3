"""The rules of a preemptive policy as data; the engine that applies them makes no decisions of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spark_sched.errors import BadInputError, did_you_mean

#: §5.1: production classes, and gratis classes, the lowest ones.
PRODUCTION = frozenset({9, 10, 11})
GRATIS = frozenset({0, 1})

Victims = Literal["MRS", "RND", "LRS", "none"]


@dataclass(frozen=True, slots=True)
class PreemptionRule:
    """Preemptive class-based scheduling with first-arrival order inside a class (§6.2.3.2).

    Attributes:
        order: whether waiting tasks are ordered by ``priority`` and then first arrival, or by first
            ``arrival`` alone.
        victims: which task of the lowest running priority is evicted for one of strictly higher priority:
            the most recently started, a random one, the least recently started; or ``none`` at all.
        resume: an evicted task continues where it stopped; otherwise it starts over and its work is lost.
        limit: largest number of evictions of a task for priority (§7.3.4); None: no limit.
        at_limit: the ``limit``-th eviction ``drop``s the task, as in the thesis; or the task can no longer be
            evicted (``keep``).
        powerful: WASP (§8.1.2): tasks of production classes get, and evict from, the most powerful slots.
        sticky_slots: HYBRID (chapter 9): this number of slots serves first come first served, before and
            apart from the others; their tasks are not evicted for priority.
        sticky_gratis: sticky slots serve gratis classes alone. §9.2.1 sorts all waiting tasks by arrival, but
            also says that phase I has "no competition with high priority tasks" (§9.1: it serves "long waited
            low priority tasks").
        priced: an eviction must be worth its price (`pricing.Pricer`).
        priced_slots: with ``priced``: tasks whose time is worth most start on the fastest cores, and the
            others leave these to them (`pricing.slot_rank`).
    """

    order: Literal["priority", "arrival"] = "priority"
    victims: Victims = "MRS"
    resume: bool = False
    limit: int | None = None
    at_limit: Literal["drop", "keep"] = "drop"
    powerful: bool = False
    sticky_slots: int = 0
    sticky_gratis: bool = False
    priced: bool = False
    priced_slots: bool = False

    def check(self, slots: int | None = None) -> None:
        """Raise BadInputError for a number out of range; ``slots`` is the size of the cluster, if known."""
        if self.limit is not None and self.limit < 1:
            raise BadInputError(f"limit is {self.limit} evictions of a task: use 1 or more")
        if self.sticky_slots < 0:
            raise BadInputError(f"sticky_slots is {self.sticky_slots}: use 0 or more")
        if slots is not None and self.sticky_slots > slots:
            raise BadInputError(
                f"sticky_slots is {self.sticky_slots} but the servers have {slots} slots: use at most {slots}"
            )
        if self.sticky_gratis and self.order != "priority":
            raise BadInputError("sticky_gratis is set and order is 'arrival': use order 'priority'")
        if slots is not None and self.sticky_gratis and self.sticky_slots == slots:
            raise BadInputError(
                f"sticky_slots is {self.sticky_slots}, which leaves no slot for classes above gratis "
                f"(0 and 1): use at most {slots - 1}"
            )
        if self.priced_slots and not self.priced:
            raise BadInputError(
                "priced_slots is set but priced is not: set both, because slots use the prices of evictions"
            )

    def evictable(self, evictions: int) -> bool:
        """Whether a task that was evicted this often for priority may be evicted again."""
        return self.limit is None or self.at_limit == "drop" or evictions < self.limit

    def drops(self, evictions: int) -> bool:
        """Whether a task leaves with this many evictions for priority."""
        return self.limit is not None and self.at_limit == "drop" and evictions >= self.limit


RULES: Mapping[str, PreemptionRule] = {
    "fcfs": PreemptionRule(order="arrival", victims="none"),
    "mrs": PreemptionRule(victims="MRS"),
    "rnd": PreemptionRule(victims="RND"),
    "lrs": PreemptionRule(victims="LRS"),
    "wasp": PreemptionRule(powerful=True),
    "hybrid": PreemptionRule(powerful=True, sticky_slots=200),
    "hybrid-gratis": PreemptionRule(powerful=True, sticky_slots=200, sticky_gratis=True),
    "priced": PreemptionRule(limit=5, at_limit="keep", priced=True),
    "priced-slots": PreemptionRule(limit=5, at_limit="keep", priced=True, priced_slots=True),
}
#: Seven digits are more than any cluster's slots and any task's evictions.
_LIMITED = re.compile(r"(mrs|rnd|lrs)([0-9]{1,7})(-keep)?")
_STICKY = re.compile(r"hybrid([0-9]{1,7})(-gratis)?")


def named_rule(name: str, *, resume: bool = False) -> PreemptionRule:
    """A key of `RULES`; with a limit ``mrs5`` (drop) or ``mrs5-keep`` (not evictable any more);
    ``hybrid1536`` and ``hybrid1536-gratis`` have that number of sticky slots.

    Raises:
        BadInputError: there is no such rule.
    """
    limited = _LIMITED.fullmatch(name)
    if limited is not None:
        at_limit: Literal["drop", "keep"] = "keep" if limited[3] else "drop"
        rule = replace(RULES[limited[1]], limit=int(limited[2]), at_limit=at_limit)
    elif (sticky := _STICKY.fullmatch(name)) is not None:
        rule = replace(RULES["hybrid" + (sticky[2] or "")], sticky_slots=int(sticky[1]))
    elif name in RULES:
        rule = RULES[name]
    else:
        raise BadInputError(
            f"the preemption rule {name!r} is unknown{did_you_mean(name, RULES)}: use one of "
            f"{', '.join(RULES)}; mrsN, rndN, lrsN with a limit N of evictions (mrsN-keep: not dropped); or "
            "hybridN or hybridN-gratis with N sticky slots (N up to 9999999)"
        )
    rule = replace(rule, resume=resume)
    rule.check()
    return rule
