"""Which SQL session a logged Spark job comes from, what that session had ``SET``, and whose it is.

The driver asks the sessions themselves (`SqlSessions.scala`); a log has what each SQL execution said of its
session when it started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from spark_sched_lab.traces.readers.spark_marks import (
    IDENTITY_KEYS,
    SETTINGS,
    Marked,
    Origin,
    mark_of,
    sessions_of,
)

_STARTED = re.compile(
    rb'"executionId"\s*:\s*(\d+)\s*,\s*"(?:rootExecutionId"\s*:\s*\d+\s*,\s*")?description"\s*:\s*("(?:[^"\\]|\\.)*")'
)
_ENDED = re.compile(rb'"executionId"\s*:\s*(\d+)')
#: The part of a SQL execution's start from the session's settings on. Quotes inside texts are escaped.
_SETTINGS = re.compile(rb'"modifiedConfigs"\s*:\s*\{')
_TAGS, _GROUP, _EXECUTION = IDENTITY_KEYS[:3]
#: Spark writes this in place of values that look like secrets.
_REDACTED = "(redacted)"
_MOST = 10_000


class SparkOrigins:
    """What SQL executions said of their sessions, and the users of sessions: the first evidence counts."""

    def __init__(self) -> None:
        #: Users of job groups that a server runs for them.
        self.users_of_groups: dict[str, str] = {}
        #: Texts of SQL executions that run, by the keys of their jobs.
        self.names: dict[str, str] = {}
        self._settings: dict[int, dict[str, str]] = {}  # by execution that runs, if its session has SET any
        self._values: dict[str, dict[str, None]] = {}  # that sessions have SET, by key
        self._users: dict[str, str] = {}  # by session
        self._jobs: dict[str, str] = {}  # by execution that runs: the job that is no job of its own

    def execution_started(self, line: bytes) -> None:
        """A line of the log: the event is not parsed whole, since it has the query's plans."""
        match = _STARTED.search(line)
        if match is None:
            return
        execution = int(match[1])
        self.names[f"sql-{execution}"] = match[2].decode("utf-8", "replace").strip('"')
        starts = [found.start() for found in _SETTINGS.finditer(line)]
        if not starts:
            return
        try:
            event = json.loads(b"{" + line[starts[-1] :])
        except ValueError:
            return
        configs = event["modifiedConfigs"]
        settings = {key: str(configs[key]) for key in SETTINGS if key in configs}
        if settings:
            self._settings[execution] = settings
        for key in settings.keys() & set(IDENTITY_KEYS):
            values = settings[key].split(",") if key == _TAGS else [settings[key]]
            known = self._values.setdefault(key, {})
            known.update(dict.fromkeys(values))
            while len(known) > _MOST:
                del known[next(iter(known))]
        said = {_TAGS: ",".join(event.get("jobTags") or ()), _GROUP: event.get("jobGroupId")}
        origin = self._origin(said, settings)
        self._learn(origin, mark_of(said, -1, self.users_of_groups, None, origin))

    def execution_ended(self, line: bytes) -> str | None:
        """Nothing of it starts any more. Gives the key of its job, if it is one."""
        match = _ENDED.search(line)
        if match is None:
            return None
        execution = int(match[1])
        key = f"sql-{execution}"
        self.names.pop(key, None)
        self._settings.pop(execution, None)
        self._jobs.pop(str(execution), None)
        return key

    def mark(self, properties: Mapping[str, Any], spark_job: int, allowed: str | None) -> Marked:
        """The job of a Spark job with these local properties."""
        claimed = str(properties.get(_EXECUTION) or "")
        forged = claimed in self._values.get(_EXECUTION, {})
        settings = dict(self._settings.get(int(claimed), {})) if claimed.isdecimal() and not forged else {}
        for key, value in settings.items():
            if _REDACTED in value:
                settings[key] = str(properties.get(key))
        # What no execution vouches for counts only if no session has SET it.
        tags = str(properties.get(_TAGS) or "").split(",")
        set_tags = [tag for tag in tags if tag in self._values.get(_TAGS, {})]
        if set_tags:
            settings[_TAGS] = ",".join({*settings.get(_TAGS, "").split(","), *set_tags})
        for key in IDENTITY_KEYS[1:]:
            found = str(properties.get(key))
            if (forged or not claimed or key == _EXECUTION) and found in self._values.get(key, {}):
                settings[key] = found
        origin = self._origin(properties, settings)
        mark = mark_of(properties, spark_job, self.users_of_groups, allowed, origin)
        self._learn(origin, mark)
        return mark

    def joined(self, mark: Marked) -> tuple[str, str | None]:
        """The key of the mark's job, and the key of a job that turns out to be part of it.

        Up to Spark 3.4 a broadcast runs in a group of its own: only the execution tells whose it is.
        """
        if mark.execution is None:
            return mark.key, None
        alone = f"sql-{mark.execution}"
        if mark.key == alone:
            return self._jobs.get(mark.execution, alone), None
        self._jobs[mark.execution] = mark.key
        return mark.key, alone

    def _origin(self, properties: Mapping[str, Any], settings: Mapping[str, str]) -> Origin:
        sessions = sessions_of(properties, settings)
        session = next(iter(sessions)) if len(sessions) == 1 else None
        return Origin(session, settings, None if session is None else self._users.get(session))

    def _learn(self, origin: Origin, mark: Marked) -> None:
        if origin.session is not None and mark.server_user is not None:
            self._users.setdefault(origin.session, mark.server_user)
            while len(self._users) > _MOST:
                del self._users[next(iter(self._users))]
