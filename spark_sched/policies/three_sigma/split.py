"""Which partitions the jobs that start now take their slots from."""

from __future__ import annotations

from collections.abc import Sequence


def split(demands: Sequence[tuple[int, int]], free: Sequence[int]) -> tuple[list[dict[int, int]], list[int]]:
    """Slots for gangs by partition, found by augmenting paths: a job gets all of its slots or none.

    Jobs of the same partition set are interchangeable, so the paths run over the few sets; at the end the
    slots of each set are distributed to its jobs.

    Args:
        demands: (partition set as bits, slots) of each job, the most important first; slots >= 1.
        free: free slots by partition.

    Returns:
        For each job its slots by partition, empty for one that got none; and the numbers of those. None is
        left out as long as what came before it and itself fit (Hall's condition).
    """
    left = list(free)
    flow: dict[int, dict[int, int]] = {}
    refused: list[int] = []
    for job, (mask, slots) in enumerate(demands):
        flow.setdefault(mask, {})
        need = slots
        while need > 0:
            moved = _augment(mask, need, flow, left)
            if moved == 0:
                break
            need -= moved
        if need > 0:
            # Any of the set's slots will do; what moved for it between other sets may stay where it is.
            _give_back(flow[mask], slots - need, left)
            refused.append(job)
    without = set(refused)
    shares: list[dict[int, int]] = []
    for job, (mask, slots) in enumerate(demands):
        share: dict[int, int] = {}
        if job not in without:
            _give_back(flow[mask], slots, share)
        shares.append(share)
    return shares, refused


def _give_back(given: dict[int, int], slots: int, to: list[int] | dict[int, int]) -> None:
    """Move ``slots`` of a set's slots from its partitions, in ascending order, to the count in ``to``."""
    for q in sorted(given):
        if slots == 0:
            return
        part = min(slots, given[q])
        slots -= part
        given[q] -= part
        if given[q] == 0:
            del given[q]
        if isinstance(to, list):
            to[q] += part
        else:
            to[q] = part


def _augment(mask: int, need: int, flow: dict[int, dict[int, int]], left: list[int]) -> int:
    """Move slots along one shortest path from a set to a partition with some left. Returns how many."""
    # From a partition q one gets to q' through a set that has slots on q and may use q'.
    reached: dict[int, tuple[int, int]] = {}  # partition -> (partition before or -1, the set that moves)
    queue = [q for q in range(len(left)) if mask >> q & 1]
    for q in queue:
        reached[q] = (-1, mask)
    at = 0
    while at < len(queue):
        q = queue[at]
        at += 1
        if left[q] > 0:
            return _push(q, need, reached, flow, left)
        for other, given in flow.items():
            if given.get(q, 0) > 0:
                for target in range(len(left)):
                    if other >> target & 1 and target not in reached:
                        reached[target] = (q, other)
                        queue.append(target)
    return 0


def _push(
    end: int, need: int, reached: dict[int, tuple[int, int]], flow: dict[int, dict[int, int]], left: list[int]
) -> int:
    amount, q = min(need, left[end]), end
    while reached[q][0] != -1:
        before, mover = reached[q]
        amount = min(amount, flow[mover][before])
        q = before
    left[end] -= amount
    q = end
    while True:
        before, mover = reached[q]
        flow[mover][q] = flow[mover].get(q, 0) + amount
        if before == -1:
            return amount
        flow[mover][before] -= amount
        if flow[mover][before] == 0:
            del flow[mover][before]
        q = before
