"""Minimum-energy paths by layers, without enumerating the paths.

The thesis enumerates all P = C · A · X · H paths of C core, A aggregation and X access switches and H
servers (8 · 16 · 512 · 1,250 = 82 million) for every task. Costs are sums over nodes and every path passes
the layers in order, so the cheapest way to an access switch is found layer by layer in O(C·A + A·X), and the
cheapest server with its access switch in O(H) where the cheapest access switch has room on its link to that
server, in O(X·H) at worst. The result is the same path, ties aside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched_lab.energy.centre import ROOM, DataCentre, InternalPath, Path


@dataclass(frozen=True, slots=True, eq=False)
class SwitchCosts:
    """The cost of leading one more task through each switch, by layer: shapes (C,), (A,), (X,)."""

    core: Floats
    aggregation: Floats
    access: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The cheapest ways from the root to the access switches.

    Attributes:
        cost: of its switches, shape (X,); inf where no way has room.
        core_of: the core switch before each aggregation switch, shape (A,).
        aggregation_of: the aggregation switch before each access switch, shape (X,).
        free: no link was without room, so that a smaller demand has the same ways.
    """

    cost: Floats
    core_of: Ints
    aggregation_of: Ints
    free: bool


def reach(centre: DataCentre, costs: SwitchCosts, gbps: float) -> Reach:
    """Ways to the access switches over links with ``gbps`` free: O(C·A + A·X), O(A + X) if none is full."""
    need = gbps - ROOM
    upper, core_of, free_above = _next_layer(costs.core, costs.aggregation, centre.core_links, need)
    cost, aggregation_of, free_below = _next_layer(upper, costs.access, centre.aggregation_links, need)
    return Reach(cost, core_of, aggregation_of, free_above and free_below)


def _next_layer(upper: Floats, own: Floats, links: Floats, need: float) -> tuple[Floats, Ints, bool]:
    """The cheapest way to each node of a layer, which upper node it comes from, and whether none was full."""
    first = int(upper.argmin())
    has_room = links[first] >= need
    origin = np.full(len(own), first)
    if has_room.all():
        return upper[first] + own, origin, True
    cost = np.where(has_room, upper[first], np.inf)
    left = np.flatnonzero(~has_room)
    others = np.where(links[:, left] >= need, upper[:, None], np.inf)
    origin[left] = others.argmin(axis=0)
    cost[left] = others.min(axis=0)
    return cost + own, origin, False


def best_path(
    centre: DataCentre, ways: Reach, gbps: float, server_cost: Floats, scale: Floats | float = 1.0
) -> tuple[float, Path] | None:
    """The path from the root of least ``server_cost[s] + scale[s] · Σ costs of its switches``.

    Args:
        ways: of the same demand, see `reach`.
        gbps: what each of its links must have free.
        server_cost: shape (H,); inf where the task does not fit.
        scale: shape (H,) or one for all, not negative: what the switches' costs are multiplied by (the task's
            time on the server).

    Returns:
        Its cost and the path, or None if there is none.
    """
    need = gbps - ROOM
    access = int(ways.cost.argmin())
    if ways.cost[access] == np.inf:
        return None
    # Mostly the cheapest switch has room on its link to the cheapest server, and that is the least of all.
    total = server_cost + scale * ways.cost[access]
    server = int(total.argmin())
    cost = float(total[server])
    if cost == np.inf:
        return None
    if centre.access_links[access, server] < need:
        cost, access, server = _search(centre.access_links, ways.cost, need, server_cost, scale)
        if server < 0:
            return None
    aggregation = int(ways.aggregation_of[access])
    return cost, Path(int(ways.core_of[aggregation]), aggregation, access, server)


def _search(
    links: Floats, by_access: Floats, need: float, server_cost: Floats, scale: Floats | float
) -> tuple[float, int, int]:
    """Least cost, access switch and server; -1 if there is none.

    Access switches in ascending order: a server counts with the first that has room for it, and the search
    ends when no server that is left can be cheaper.
    """
    found, access, server = np.inf, -1, -1
    waiting = server_cost.copy()
    for x in np.argsort(by_access, kind="stable"):
        if by_access[x] == np.inf:
            break
        total = waiting + scale * by_access[x]
        if not total.min() < found:
            break
        has_room = links[x] >= need
        total[~has_room] = np.inf
        s = int(total.argmin())
        if total[s] < found:
            found, access, server = float(total[s]), int(x), s
        waiting[has_room] = np.inf
    return found, access, server


def internal_path(
    centre: DataCentre, costs: SwitchCosts, gbps: float, server: int, master: int
) -> InternalPath | None:
    """The cheapest way between two servers (§4.3.2: equation 4.4 without the servers).

    Over one access switch, over two and an aggregation switch between them, or over a core switch: the least
    of all. O(X) where no detour can be cheaper than one access switch, O(A·X + C·A) otherwise.

    Args:
        costs: not negative.

    Returns:
        None if no path has room. The two servers must differ.
    """
    need = gbps - ROOM
    one, other = centre.access_links[:, server] >= need, centre.access_links[:, master] >= need
    first, last = np.where(one, costs.access, np.inf), np.where(other, costs.access, np.inf)
    direct = np.where(other, first, np.inf)
    x = int(direct.argmin())
    least = float(direct[x])
    if least < np.inf and least <= first.min() + costs.aggregation.min() + last.min():
        return InternalPath(x, server, master)
    # A detour over one node twice has room on a shorter path, too, which is no dearer and comes first.
    has_room = centre.aggregation_links >= need
    up, down = np.where(has_room, first, np.inf), np.where(has_room, last, np.inf)
    up_cost, down_cost = up.min(axis=1) + costs.aggregation, down.min(axis=1) + costs.aggregation
    over = up_cost + down.min(axis=1)
    above = centre.core_links >= need
    to_core, from_core = np.where(above, up_cost, np.inf), np.where(above, down_cost, np.inf)
    over_core = to_core.min(axis=1) + costs.core + from_core.min(axis=1)
    a, c = int(over.argmin()), int(over_core.argmin())
    if least <= min(over[a], over_core[c]):
        return InternalPath(x, server, master) if least < np.inf else None
    if over[a] <= over_core[c]:
        return InternalPath(int(up[a].argmin()), server, master, a, int(down[a].argmin()))
    a, b = int(to_core[c].argmin()), int(from_core[c].argmin())
    return InternalPath(int(up[a].argmin()), server, master, a, int(down[b].argmin()), c, b)
