"""Options of policies: declared beside each policy, set as ``spark.sched.policy.NAME.OPTION``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spark_sched.config import POLICY_PREFIX, ConfigKey, parse
from spark_sched.config.values import ValueKind
from spark_sched.errors import BadInputError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option: its name, kind of value (`spark_sched.config.values`), default as text, and doc."""

    name: str
    value: ValueKind[T]
    default: str
    doc: str

    def key(self, policy: str) -> ConfigKey[T]:
        """The setting of this option for a policy."""
        return ConfigKey(f"{POLICY_PREFIX}{policy}.{self.name}", self.value, self.default, self.doc)


@dataclass(frozen=True)
class OptionValues:
    """The options set for one policy; the others have their defaults.

    Attributes:
        policy: whose options these are.
        given: texts by the option's name.
    """

    policy: str = ""
    given: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, option: Option[T]) -> T:
        """The value. Raises BadInputError for a text that is not a valid value."""
        return parse(option.key(self.policy), self.given.get(option.name, option.default))

    def key(self, option: Option[Any]) -> str:
        """The option's full name, for sentences."""
        return option.key(self.policy).name


def _nothing(values: OptionValues) -> None:
    """The check of most policies: options are checked one by one."""


@dataclass(frozen=True)
class Options:
    """The options that a policy declares.

    Attributes:
        check: raises BadInputError for a wrong combination of values.
    """

    declared: tuple[Option[Any], ...] = ()
    check: Callable[[OptionValues], None] = _nothing

    def read(self, policy: str, given: Mapping[str, str]) -> OptionValues:
        """The checked values among all ``spark.sched.policy.*`` settings.

        Raises BadInputError for an unknown option of this policy or a wrong value.
        """
        start = f"{POLICY_PREFIX}{policy}."
        mine = {
            name.removeprefix(start): text
            for name, text in sorted(given.items())
            if name.rpartition(".")[0] + "." == start
        }
        by_name = {option.name: option for option in self.declared}
        values = OptionValues(policy, mine)
        for name in mine:
            if name not in by_name:
                has = f"it has {', '.join(by_name)}" if by_name else "it has no options"
                raise BadInputError(
                    f"{start}{name} is not an option of the policy {policy!r}"
                    f"{did_you_mean(name, by_name)}: {has}"
                )
            values[by_name[name]]
        self.check(values)
        return values
