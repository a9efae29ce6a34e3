"""The fluid system of UWFQ (arXiv 2510.15485): slots to users by weight, each user's to its jobs in equal
parts.

The works of jobs may be estimates. A job whose work turns out to be other than assumed is given the rest, or
needs less (`VirtualTime.revise`). The authors' implementation (github.com/kazemaksOG/spark-benchmark-tool,
``UserClusterFairScheduler``) recomputes a job's deadline at each of its stages in the same way.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

#: Largest number of ended jobs of one user that are kept while they still run in the fluid system.
_ENDED_KEPT = 1_000
#: An estimate of a job's work replaces one that differs from it by no more than this part only at the job's
#: end. So plans do not change with each task.
_MATERIAL = 0.1

#: Deadline in user virtual time, number, and work that is served until then.
_Entry: TypeAlias = tuple[float, int, float]


@dataclass(slots=True)
class _User:
    """A user with jobs left in the virtual system."""

    weight: float
    start: float  # global virtual time at which the work of the jobs below begins
    time: float = 0.0  # user virtual time: service that each of its jobs has had, in slot-ms
    jobs: list[_Entry] = field(default_factory=list)  # sorted

    def drop_ended(self, keep: set[int]) -> None:
        """Drop the oldest ended jobs beyond `_ENDED_KEPT`, but none of ``keep``."""
        excess = len(self.jobs) - len(keep) - _ENDED_KEPT
        if excess > 0:
            ended = sorted(number for _, number, _ in self.jobs if number not in keep)
            gone = set(ended[:excess])
            self.jobs = [job for job in self.jobs if job[1] not in gone]

    def deadline_of(self, number: int) -> float | None:
        """The deadline of a job in user virtual time; None: it has ended in the virtual system."""
        return max((deadline for deadline, each, _ in self.jobs if each == number), default=None)

    def end(self) -> float:
        """Global virtual time at which its last job ends."""
        return self.start + sum(work for _, _, work in self.jobs) / self.weight


@dataclass(frozen=True, slots=True)
class Assumed:
    """The work of a job that is not known exactly.

    Attributes:
        job: its key.
        estimate: the latest estimate, in slot-ms.
        served: what the job gets in the fluid system, at least what it has had there.
    """

    job: str
    user: str
    weight: float
    estimate: float
    served: float


@dataclass
class VirtualTime:
    """The two-level fluid system, in which users and jobs come, are served and leave.

    Global virtual time grows by slots / (sum of present users' weights) per ms, in slot-ms of service per
    unit of weight. All work is in slot-ms, all times in ms.

    Attributes:
        deadlines: of the real jobs, by number, in global virtual time.
        assumed: jobs whose work may still be revised, by number.
    """

    deadlines: dict[int, float] = field(default_factory=dict)
    assumed: dict[int, Assumed] = field(default_factory=dict)
    _now_ms: float = 0.0
    _time: float = 0.0
    _users: dict[str, _User] = field(default_factory=dict)
    #: Global virtual time at which users left that have jobs in ``assumed``.
    _left: dict[str, float] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether nobody is there."""
        return not self._users

    def advance(self, now_ms: float, slots: float) -> None:
        """Let the fluid system run until ``now_ms`` on ``slots`` slots."""
        while self._users and self._now_ms < now_ms and slots > 0:
            speed = slots / sum(user.weight for user in self._users.values())
            # Virtual time runs at one speed until the next user leaves.
            first = min(self._users, key=lambda name: self._users[name].end())
            end = self._users[first].end()
            left_ms = max(0.0, end - self._time) / speed
            step_ms = min(left_ms, now_ms - self._now_ms)
            for user in self._users.values():
                self._serve(user, speed * user.weight * step_ms)
            self._time += speed * step_ms
            self._now_ms += step_ms
            if step_ms == left_ms:
                del self._users[first]
                self._left[first] = end
        self._now_ms = max(self._now_ms, now_ms)

    def arrive(
        self, number: int, user: str, weight: float, work: float, *, estimate_of: str | None = None
    ) -> None:
        """Add job ``number`` of ``user``; only deadlines of that user's jobs change.

        Args:
            estimate_of: the job's key, if its work is an estimate that may be revised.
        """
        owner = self._users.get(user)
        if owner is None:
            owner = self._users[user] = _User(weight, self._time)
        if estimate_of is not None:
            self.assumed[number] = Assumed(estimate_of, user, weight, work, work)
        insort(owner.jobs, (owner.time + work, number, work))
        self._chain(owner)

    def revise(self, estimates: Mapping[int, float], grace: float, *, final: bool = False) -> None:
        """Give jobs of ``assumed`` other works; only deadlines of their users' jobs change.

        A job cannot give back service that it has had. One that has left the fluid system comes back with the
        rest of its work. Its user may have left as well: then that work begins when the user left, if this is
        no longer ago than ``grace`` in global virtual time, else now. So a user loses nothing when the fluid
        system is ahead of the real one, in which the user's job still runs.

        Args:
            estimates: by number, in slot-ms.
            final: the works are known, so that no difference is too small, and not revised again.
        """
        works: dict[str, dict[int, float]] = {}
        for number, work in estimates.items():
            known = self.assumed[number]
            if final or abs(work - known.estimate) > _MATERIAL * known.estimate:
                works.setdefault(known.user, {})[number] = work
        for user, changes in works.items():
            self._revise(user, changes, grace)
        if final:
            for number in estimates:
                del self.assumed[number]

    def _revise(self, user: str, changes: dict[int, float], grace: float) -> None:
        owner = self._users.get(user)
        entries: list[_Entry] = []
        for entry in () if owner is None else owner.jobs:
            deadline, number, work = entry
            change = changes.pop(number, None)
            if change is not None:
                assert owner is not None
                begin = deadline - work
                had = max(0.0, owner.time - begin)
                known = self.assumed[number]
                # What it was given in earlier stays: exactly nothing if there was none, so that equal works
                # stay equal.
                earlier = known.served - work
                rest = max(change - earlier, had)
                self.assumed[number] = replace(known, estimate=change, served=earlier + rest)
                entry = begin + rest, number, rest
            entries.append(entry)
        more: list[tuple[int, float]] = []
        for number, work in changes.items():
            known = self.assumed[number]
            if work > known.served:
                more.append((number, work - known.served))
            self.assumed[number] = replace(known, estimate=work, served=max(work, known.served))
        if more and owner is None:
            weight = self.assumed[more[0][0]].weight
            left = self._left.pop(user, self._time)
            owner = self._users[user] = _User(weight, left if self._time - left <= grace else self._time)
        if owner is not None:
            entries += [(owner.time + rest, number, rest) for number, rest in more]
            owner.jobs = sorted(entries)
            self._chain(owner)

    def _chain(self, owner: _User) -> None:
        """Set deadlines: the user's jobs one after another, in the order in which they end in its share."""
        at = owner.start
        for _, number, work in owner.jobs:
            at += work / owner.weight
            self.deadlines[number] = at

    def copy(self) -> VirtualTime:
        users = {name: replace(user, jobs=list(user.jobs)) for name, user in self._users.items()}
        return replace(
            self,
            deadlines=dict(self.deadlines),
            assumed=dict(self.assumed),
            _users=users,
            _left=dict(self._left),
        )

    def forget(self, keep: set[int]) -> None:
        """Drop the deadlines of jobs that have really ended.

        If work is overestimated, such jobs accumulate in the fluid system. So only the latest `_ENDED_KEPT`
        of each user are kept.
        """
        self.drop_ended(keep)
        self.deadlines = {number: at for number, at in self.deadlines.items() if number in keep}

    def drop_ended(self, keep: set[int]) -> None:
        """As `forget`, where most deadlines stay."""
        for user in self._users.values():
            user.drop_ended(keep)
        if len(self.deadlines) > len(keep):
            self.deadlines = {number: at for number, at in self.deadlines.items() if number in keep}
        if self._left:
            users = {known.user for known in self.assumed.values()}
            self._left = {user: at for user, at in self._left.items() if user in users}

    def user(self, name: str) -> _User | None:
        """A user with jobs left in the virtual system."""
        return self._users.get(name)

    @staticmethod
    def _serve(user: _User, service: float) -> None:
        """Give ``service`` slot-ms to the user's jobs in equal parts; jobs that have all they need leave."""
        while user.jobs:
            deadline, _, work = user.jobs[0]
            needed = (deadline - user.time) * len(user.jobs)
            if needed > service:
                user.time += service / len(user.jobs)
                return
            service -= needed
            user.time = deadline
            user.start += work / user.weight
            del user.jobs[0]
