"""Read and check settings. A wrong key, unit or value raises an error with one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from spark_sched.config.keys import ALL, BY_NAME, POLICY_PREFIX, PREFIX, ConfigKey
from spark_sched.errors import BadInputError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """Checked settings. A setting that was not given has its declared default.

    >>> from spark_sched.config import keys
    >>> validate({"spark.sched.reservation.gap": "2s"})[keys.RESERVATION_GAP]
    2000
    """

    given: Mapping[str, str]

    def __getitem__(self, key: ConfigKey[T]) -> T:
        """The value of ``key``, in the unit its declaration names. Raises KeyError for an absent job mark."""
        if key.kind == "job" and key.name not in self.given:
            raise KeyError(key.name)
        return parse(key, self.given.get(key.name, key.default))

    @property
    def policy_options(self) -> Mapping[str, str]:
        """The given settings ``spark.sched.policy.*``. Each policy declares and checks its own."""
        return {name: text for name, text in self.given.items() if name.startswith(POLICY_PREFIX)}


def parse(key: ConfigKey[T], text: str) -> T:
    """The value of ``text`` for ``key``. Raises BadInputError naming key, value and what it must be."""
    try:
        return key.value.parse(text.strip())
    except ValueError:
        value = key.value
        hint = value.hint(text.strip())
        raise BadInputError(f"{key.name} is {value.shown(text)} but must be {value.wanted}{hint}") from None


def validate(properties: Mapping[str, str]) -> Settings:
    """Check every ``spark.sched.*`` entry of a mapping; other entries are Spark's and ignored.

    Options of policies (``spark.sched.policy.*``) are left to `spark_sched.policies.check_options`.

    Raises BadInputError at the first unknown key or wrong value, in order of the keys' names.
    """
    given = {name: text for name, text in sorted(properties.items()) if name.startswith(PREFIX)}
    for name, text in given.items():
        if name.startswith(POLICY_PREFIX):
            if not all(name.removeprefix(POLICY_PREFIX).rpartition(".")):
                raise BadInputError(f"unknown setting {name}: write {POLICY_PREFIX}POLICY.OPTION")
            continue
        if name not in BY_NAME:
            raise BadInputError(
                f"unknown setting {name}{_near_key(name)}: docs/reference/configuration.md lists all settings"
            )
        parse(BY_NAME[name], text)
    return Settings(given)


def _near_key(name: str) -> str:
    # Every name shares the prefix, so comparing whole names would find all of them near. The last part alone
    # catches a key remembered without its group: spark.sched.maxHold.
    rest = name.removeprefix(PREFIX)
    last = rest.rpartition(".")[2].casefold()
    same_last = [key.name for key in ALL if key.name.rpartition(".")[2].casefold() == last]
    if len(same_last) == 1:
        return f" (did you mean {same_last[0]!r}?)"
    near = nearest(rest, (key.name.removeprefix(PREFIX) for key in ALL))
    return f" (did you mean {PREFIX + near!r}?)" if near else ""
