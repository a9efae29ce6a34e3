"""The connection to the driver: calls whose arguments and results are text (``protocol/README.md``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol


class DriverLostError(Exception):
    """The driver no longer answers, or refuses the secret."""


class Driver(Protocol):
    """The driver's interface for the planner. Every call may raise DriverLostError."""

    def config(self) -> str:
        """JSON object of the ``spark.sched.*`` settings that were given, as text."""
        ...

    def alive(self) -> None:
        """Report that the planner is busy, not hung."""
        ...

    def poll(self, max_events: int, timeout_ms: int) -> str:
        """The next batch of events; waits up to ``timeout_ms`` for the first."""
        ...

    def submit_plan(self, text: str) -> str:
        """``accepted``, or ``rejected: <code>: <sentence>``."""
        ...

    def settings_taken(self) -> None:
        """Report that all settings are valid: the driver may continue its start."""
        ...

    def policies_known(self, names: Sequence[str]) -> None:
        """The policies that people may choose from."""
        ...

    def stored_up_to(self, version: int, abandoned: int) -> None:
        """Report that what was learned from all events up to this version is stored, except for that many
        jobs since this process began: the driver need not tell a later planner of the jobs that ended by
        then."""
        ...

    def stored(self) -> None:
        """Report that all events are processed and everything learned is stored: the driver may end."""
        ...

    def questions(self) -> str:
        """What users ask: a JSON list of objects with ``id`` and ``text``."""
        ...

    def answer(self, question: int, text: str) -> None: ...


class Py4jDriver:
    """The driver's gateway on the loopback interface. Python is always the client."""

    def __init__(self, address: str, port: int, secret: str) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                address=address, port=port, auth_token=secret, auto_convert=False
            )
        )

    def config(self) -> str:
        return self._call("config")

    def alive(self) -> None:
        self._call("alive")

    def poll(self, max_events: int, timeout_ms: int) -> str:
        return self._call("poll", max_events, timeout_ms)

    def submit_plan(self, text: str) -> str:
        return self._call("submitPlan", text)

    def settings_taken(self) -> None:
        self._call("settingsTaken")

    def policies_known(self, names: Sequence[str]) -> None:
        self._call("policiesKnown", json.dumps(list(names)))

    def stored_up_to(self, version: int, abandoned: int) -> None:
        self._call("storedUpTo", version, abandoned)

    def stored(self) -> None:
        self._call("stored")

    def questions(self) -> str:
        return self._call("questions")

    def answer(self, question: int, text: str) -> None:
        self._call("answer", question, text)

    def close(self) -> None:
        self._gateway.close()

    def _call(self, method: str, *arguments: Any) -> str:
        from py4j.protocol import Py4JError

        try:
            return str(getattr(self._gateway.entry_point, method)(*arguments))
        except (Py4JError, OSError) as error:
            raise DriverLostError(f"{method} failed: {type(error).__name__}: {error}") from error
