"""Random trees of queues, and what `QueueUsage` answers.

Run as a program this file writes the generated golden sequences that bind the simulator's queues and the
driver's:

    python tools/queue_walk.py
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import golden_file
from queue_steps import Steps

from spark_sched.errors import BadInputError

SEED = 20261127
SEQUENCES = 120
#: Further sequences, whose trees have floors and weights.
SHARES = 120
#: Further sequences, whose trees are changed on the way. Half of them have floors and weights.
CHANGES = 80
#: Further ones, which have no queues for some of the time.
COMES_AND_GOES = 60
STEPS = 80
OUT = Path(__file__).parents[1] / "protocol" / "golden" / "queues" / "tree-random.json.gz"

LEAVES = ("a.x", "a.y", "b", "c.z.w")
QUEUES = ("a", "a.x", "a.y", "b", "c", "c.z", "c.z.w")
USERS = ("ann", "bob", "eve-1", "")
GROUPS = ("staff", "leads", "etl-7")


def _tree(
    rng: random.Random, shares: bool, without: str = "", groups: bool = False, limits: bool = False
) -> dict[str, Any]:
    """Any limits at the top; below, limits that no ancestor has. With ``shares`` any floors."""
    queues: list[dict[str, Any]] = []
    paths = [path for path in QUEUES if path != without]
    leaves = _leaves(paths)
    for path in paths:
        queue: dict[str, Any] = {"queue": path}
        above = [each for each in queues if path.startswith(f"{each['queue']}.")]

        def free(key: str, above: list[dict[str, Any]] = above) -> bool:
            return not any(key in each for each in above) and rng.random() < 0.5

        if free("ceiling"):
            queue["ceiling"] = rng.choice((1, 2, 4, "10 %", "33.3 %", "50 %", "100 %"))
        if "ceiling" not in queue and free("held_ceiling"):
            queue["held_ceiling"] = rng.choice((0, 1, 3, "25 %"))
        if free("max_running_jobs"):
            queue["max_running_jobs"] = rng.choice((1, 2, 3))
            if rng.random() < 0.5:
                queue["max_waiting_jobs"] = rng.choice((0, 1, 2))
            if rng.random() < 0.5:
                queue["wait_timeout"] = rng.choice(("0ms", "100 ms", "3s"))
        if path != "b" and rng.random() < 0.3:
            queue["users"] = rng.choice((["ann"], ["eve-*", "bob"], ["*"]))
        if groups and free("slot_hours_per_day"):
            queue["slot_hours_per_day"] = rng.choice((0.5, 2, 30.25))
        if groups and path != "b" and rng.random() < 0.3:
            queue["groups"] = rng.choice((["staff"], ["etl-*", "leads"]))
        if limits and free("max_priorities"):
            queue["max_priority"] = rng.choice((-1, 0, 3))
            queue["max_priorities"] = _limits(rng)
        if shares and rng.random() < 0.6:
            queue["floor"] = rng.choice((1, 2, "12.5 %")) if "." in path else rng.choice((4, "25 %"))
        if shares and rng.random() < 0.6:
            queue["weight"] = rng.choice((0.5, 1, 2, 3, 0.3))
        queues.append(queue)
    rules = []
    for _ in range(rng.randint(0, 4)):
        rule = {"queue": rng.choice(leaves), "user": rng.choice(("ann", "eve*", "*", "b*b"))}
        if rng.random() < 0.4:
            rule["name"] = rng.choice(("report*", "*x*", "a.c", "report"))
        if rng.random() < 0.2:
            rule["class"] = "etl"
        if groups and rng.random() < 0.5:
            rule["group"] = rng.choice(("staff", "etl-*", "*ea*"))
        rules.append(rule)
    tree: dict[str, Any] = {"default": "b", "queues": queues, "rules": rules}
    if shares and any("floor" in queue for queue in queues):
        tree["preemption"] = {
            "mode": rng.choice(("observe", "on")),
            "threshold": rng.choice((0.5, 1)),
            "timeout": rng.choice(("0 ms", "500 ms", "1s")),
            "interval": "300 ms",
        }
    return tree


def _limits(rng: random.Random) -> list[dict[str, Any]]:
    """What a user has by name is no more than what an entry before gives by group."""
    kinds = ({"user": "ann"}, {"user": "*b"}, {"group": "leads"}, {"group": "*", "user": "eve*"})
    found: list[dict[str, Any]] = []
    most = 2**31 - 1
    for _ in range(rng.randint(1, 3)):
        kind, priority = rng.choice(kinds), rng.choice((3, 5, 2**31 - 1))
        if "group" in kind:
            most = min(most, priority)
        found.append({**kind, "max_priority": priority if "group" in kind else min(most, priority)})
    return found


def _leaves(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not any(each.startswith(f"{path}.") for each in paths)]


def _steps(
    rng: random.Random, shares: bool, without: str = "", groups: bool = False, limits: bool = False
) -> tuple[dict[str, Any], Steps]:
    """A random tree, and a player for it."""
    while True:
        tree = _tree(rng, shares, without, groups, limits)
        try:
            return tree, Steps(tree)
        except BadInputError:  # floors that do not fit together, or not below the ceilings
            if not shares:
                raise


def _sequence(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    changes = seed >= SEED + SEQUENCES + SHARES
    shares = seed % 2 == 0 if changes else seed >= SEED + SEQUENCES
    comes_and_goes = seed >= SEED + SEQUENCES + SHARES + CHANGES
    tree: dict[str, Any] | None
    tree, steps = _steps(rng, shares)
    if comes_and_goes and rng.random() < 0.5:
        tree, steps = None, Steps(None)
    done: list[dict[str, Any]] = []
    jobs: list[str] = []
    users: dict[str, str] = {}
    leaves: Sequence[str] = LEAVES if tree else ("",)
    # Jobs, refused ones among them, and what they came with.
    refused: dict[str, dict[str, Any]] = {}
    came: dict[str, dict[str, Any]] = {}
    now_ms = arrival = 0

    def do(op: str, **arguments: Any) -> Any:
        step = {"op": op, **arguments}
        answer = steps.run(step)
        done.append({**step, "expect": answer})
        return answer

    do("capacity", slots=rng.randint(0, 12))
    while len(done) < STEPS:
        now_ms += rng.choice((0, 10, 100, 1000))
        op = rng.choice(
            ("capacity", "entered", "entered", "ranked", "left", "overdue", "launched", "launched", "stopped",
             "held", "held", "unheld", "room", "room", "may_hold", "place", "uses",
             *(("changed", "freed", "freed") if changes else ()),
             *(("max_priority",) * 2 if comes_and_goes else ()),
             *(("order", "order", "parts", "parts", "ceded", "ceded", "cedes")
               if steps.usage.shares is not None else ()),
             *(("preempt",) * 4 if steps.usage.preemption is not None else ()))
        )  # fmt: skip
        job = rng.choice(jobs) if jobs else ""
        usage = steps.usage
        if op == "capacity" and rng.random() < 0.3:
            do(op, slots=rng.randint(0, 12))
        elif op == "changed":
            without = rng.choice(("", "a.y", "c.z.w"))
            tree_now: dict[str, Any] | None
            tree_now, _ = _steps(rng, rng.random() < 0.5, without, True, comes_and_goes)
            leaves = _leaves([each["queue"] for each in tree_now["queues"]])
            if comes_and_goes and rng.random() < 0.4:
                tree_now, leaves = None, ("",)
            for late in do(op, tree=tree_now, users=dict(users)):
                refused.pop(late, None)
        elif op == "freed":
            now_ms += rng.choice((0, 400_000, 3_600_000, 20_000_000, 90_000_000))
            do(op, now_ms=now_ms)
        elif op == "entered":
            if refused and rng.random() < 0.4:
                comes = refused.pop(rng.choice(sorted(refused)))
                comes = {**comes, "queue": usage.queue_of(comes["job"]) or ""}
            else:
                arrival += 1
                jobs.append(f"j{arrival}")
                comes = {"job": jobs[-1], "queue": rng.choice(leaves), "priority": rng.choice((0, 0, 5, -1)),
                         "arrival": arrival}  # fmt: skip
                came[jobs[-1]] = comes
                if changes:
                    users[jobs[-1]] = rng.choice(USERS)
            if not do(op, **comes, now_ms=now_ms):
                refused[comes["job"]] = comes
        elif op == "ranked" and job:
            do(op, job=job, priority=rng.choice((0, 7)))
        elif op == "left" and job and rng.random() < 0.6:
            jobs.remove(job)
            refused.pop(job, None)
            do(op, job=job)
        elif op == "overdue" and rng.random() < 0.4:
            for late in do(op, now_ms=now_ms)[1]:
                refused[late] = came[late]
        elif op in ("launched", "room") and job:
            safe = sorted(rng.sample(jobs, rng.randint(0, len(jobs))))
            slots = rng.choice((1, 1, 1, 2, 3))
            room = do("room", job=job, slots=slots, safe=safe)
            if op == "launched" and room[0] >= slots:
                for each in room[2]:
                    do("unheld", job=each)
                do(op, job=job, slots=slots, own=0)
            elif op == "launched" and job in refused and rng.random() < 0.5:
                do(op, job=job, slots=slots, own=0)  # as in shadow mode
        elif op == "stopped" and job:
            do(op, job=job, slots=rng.choice((1, 2)))
        elif op == "held" and job and do("may_hold", job=job):
            do(op, job=job)
        elif op == "unheld" and job:
            holders = {each.key for use in usage.uses.values() for each in use.holders}
            if job in holders:
                do(op, job=job)
        elif op == "may_hold":
            do(op, job=rng.choice((job, "nobody")))
        elif op == "place":
            do(op, user=rng.choice(USERS), name=rng.choice(("report-1", "abc", "a.c", "axc", "x")),
               **{"class": rng.choice(("", "etl"))},
               **({"groups": rng.sample(GROUPS, rng.randint(0, 2))} if changes else {}))  # fmt: skip
        elif op == "max_priority":
            do(
                op,
                queue=rng.choice(leaves),
                user=rng.choice(USERS),
                groups=rng.sample(GROUPS, rng.randint(0, 2)),
            )
        elif op == "uses":
            do(op)
        elif op == "order":
            do(op, queues=leaves)
        elif op == "parts":
            wanted = [
                (rng.choice(leaves), rng.choice((0, 0, 1)), rng.choice((1, 1, 2)), rng.randint(1, 9))
                for _ in range(rng.randint(1, 6))
            ]
            do(op, wanted=wanted, open={"0": rng.randint(0, 9), "1": rng.randint(0, 3)}, queues=leaves)
        elif op == "preempt":
            wanted = [
                (leaf, profile, rng.randint(0, 4))
                for leaf in leaves
                for profile in (0, 1)
                if rng.random() < 0.7
            ]
            running = [
                (task, rng.choice(leaves), int(rng.random() < 0.2), rng.choice((1, 1, 2)),
                 rng.randint(max(0, now_ms - 9000), now_ms), rng.random() < 0.9, rng.choice((0, 0, 4, 5)))
                for task in rng.sample(range(30), rng.randint(0, 12))
            ]  # fmt: skip
            do(op, wanted=wanted, running=running, now_ms=now_ms)
        elif op == "ceded":
            slots = rng.randint(1, 4)
            do(op, holder=rng.choice(leaves), asker=rng.choice(leaves), slots=slots,
               asks=rng.choice((0, 0, slots)), taken=rng.choice((0, 0, 1)),
               at_once=rng.random() < 0.3)  # fmt: skip
        elif op == "cedes":
            moved = [(rng.choice(leaves), rng.randint(1, 2)) for _ in range(rng.choice((0, 0, 1, 2)))]
            do(op, holder=rng.choice(leaves), asker=rng.choice(leaves), slots=rng.choice((1, 1, 2)),
               taken=rng.choice((0, 0, 1)), moved=moved)  # fmt: skip
        assert usage.violations() == [], f"seed {seed}: {usage.violations()}"
    do("uses")
    return {"seed": seed, "tree": tree, "steps": done}


def generate(sequences: int = SEQUENCES + SHARES + CHANGES + COMES_AND_GOES) -> dict[str, Any]:
    return {
        "about": "Generated by tools/queue_walk.py: trees of queues, and what QueueUsage answers.",
        "sequences": [_sequence(SEED + number) for number in range(sequences)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    golden_file.write(out, generate())


if __name__ == "__main__":
    main()
