"""The attributes of a job at its submission: the features by which 3Sigma looks up its history (§4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any

#: The feature that all jobs share: the fallback when no other attribute is known.
EVERY_JOB = "every job"

#: The features: attributes of a job, alone and combined. Features that combine more attributes come first: of
#: two with equal error the earlier one is used.
COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("user", "name", "estimate", "slots"),
    ("user", "name", "since_last", "last_run"),
    ("user", "name", "last_run", "last_but_one"),
    ("user", "name", "since_last"),
    ("user", "name", "last_run"),
    ("user", "name", "hour"),
    ("user", "name", "weekday"),
    ("user", "name", "class", "priority"),
    ("user", "name", "slots"),
    ("user", "name", "estimate"),
    ("user", "name"),
    ("user", "application", "slots"),
    ("user", "application"),
    ("user", "slots", "estimate"),
    ("user", "estimate"),
    ("user", "slots"),
    ("user", "class", "priority"),
    ("user", "class", "hour"),
    ("user", "hour"),
    ("name", "hour"),
    ("name",),
    ("application",),
    ("user",),
    ("class", "priority"),
    ("estimate",),
    ("slots",),
    ("hour",),
    ("weekday",),
    (),
)
#: Features by which jobs of one name teach each other whoever their users are.
_OF_ANY_USERS_NAME = {" × ".join(c) for c in COMBINATIONS if "name" in c and "user" not in c}
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class JobAttributes:
    """One job as it was submitted; None: not known.

    Attributes:
        submit_s: when it was submitted, seconds since any midnight (UTC live, a trace's own zero).
        name: the recurring name of the program run, where it has one.
        application: what it runs in or what kind of job it is (Spark application, executable, queue).
        job_class: the mark ``class``, or a source's scheduling class.
        slots: slots it asks for at once.
        estimate_s: runtime its user announced.
        more: further attributes by name; each is a feature alone and combined with the user.
        own_name: the name counts for its user alone, since anybody may choose it.
    """

    submit_s: float | None = None
    user: str | None = None
    name: str | None = None
    application: str | None = None
    job_class: str | None = None
    priority: int | None = None
    slots: int | None = None
    estimate_s: float | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    own_name: bool = False

    @property
    def recurs(self) -> tuple[str | None, str | None]:
        """The key that later runs of the same program share with this one."""
        return self.user, self.name


def feature_values(
    job: JobAttributes, since_last_s: float | None = None, last_runs_s: tuple[float, ...] = ()
) -> tuple[tuple[str, str], ...]:
    """(feature, value) of a job, every feature all of whose attributes are known; `EVERY_JOB` always is.

    Args:
        since_last_s: seconds since the same user last submitted this name; by octaves.
        last_runs_s: latest runtimes of this user's jobs of this name, the latest first; by octaves.
    """
    known: dict[str, str] = {}
    for attribute, value in (
        ("user", job.user),
        ("name", job.name),
        ("application", job.application),
        ("class", job.job_class),
        ("priority", job.priority),
        ("slots", job.slots),
        ("estimate", job.estimate_s),
    ):
        if value is not None:
            # The separator must not come from a name: two jobs would share a history.
            known[attribute] = str(value).replace("\x1f", " ")
    if job.submit_s is not None:
        known["hour"] = str(int(job.submit_s % _DAY_S // 3600.0))
        known["weekday"] = str(int(job.submit_s // _DAY_S % 7))
    if since_last_s is not None:
        known["since_last"] = str(_octave(since_last_s + 1.0))
    if last_runs_s:
        known["last_run"] = str(_octave(last_runs_s[0]))
    if len(last_runs_s) > 1:
        known["last_but_one"] = str(_octave(last_runs_s[1]))
    if "priority" not in known and "class" in known:
        known["priority"] = ""
    elif "class" not in known and "priority" in known:
        known["class"] = ""
    join = "\x1f".join
    found = [
        (label, join(of(known)) if several else of(known))
        for label, several, of in _at_hand(frozenset(known))
        if not (job.own_name and label in _OF_ANY_USERS_NAME)
    ]
    found.append((EVERY_JOB, ""))
    for attribute, text in sorted(job.more.items()):
        value = text.replace("\x1f", " ")
        if "user" in known:
            found.insert(-1, (f"user × {attribute}", f"{known['user']}\x1f{value}"))
        found.insert(-1, (attribute, value))
    return tuple(found)


@lru_cache(maxsize=1 << 10)
def _at_hand(known: frozenset[str]) -> list[tuple[str, bool, Callable[[Mapping[str, str]], Any]]]:
    """The features for jobs with these known attributes: label, whether it combines several, and what
    gets its one value or its several ones."""
    return [
        (" × ".join(combination), len(combination) > 1, itemgetter(*combination))
        for combination in COMBINATIONS
        if combination and known.issuperset(combination)
    ]


def _octave(seconds: float) -> int:
    return math.floor(math.log2(max(seconds, 1e-3)))
