"""Chapter 3: tasks scheduled in slots, each for its duration in the trace."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from spark_sched.arrays import Bools
from spark_sched.errors import BadInputError
from spark_sched_lab.energy.centre import DataCentre, Path
from spark_sched_lab.energy.costs import SlotCosts
from spark_sched_lab.energy.demands import Tasks, require_fit
from spark_sched_lab.energy.heuristics import Demand, Scheduler
from spark_sched_lab.energy.meter import Meter, Totals
from spark_sched_lab.energy.topology import Topology


def simulate_slots(
    topology: Topology,
    tasks: Tasks,
    scheduler: Scheduler,
    *,
    slot_s: int,
    horizon_s: int,
    warm_up_s: int = 0,
) -> Totals:
    """Run the tasks under a scheduler from second 0 to ``horizon_s`` (figures 3.3 and 3.4).

    A task holds CPU, memory and ``memory`` Gbps on its path (§3.4: μ = α^m Gbps) for its duration, rounded up
    to slots. Servers start at once; waking them up costs energy alone (§3.1.2). Tasks for which there is no
    room wait.

    Args:
        warm_up_s: the time before this second is simulated but not measured. The data centre is empty at
            first: it holds less than the workload's load until the first long tasks end.

    Raises:
        BadInputError: a slot is shorter than a second, the horizon than a slot, the warm-up is negative or
            leaves no slot, or no server could hold a task.
    """
    _check(slot_s, horizon_s, warm_up_s)
    require_fit(topology, tasks)
    centre, costs = DataCentre(topology), SlotCosts(topology, slot_s)
    meter = Meter(centre, sleeps=True)
    on_at_once = np.zeros(len(topology.servers), dtype=np.int64)
    arrives = -(-tasks.arrival_s // slot_s)
    lasts = np.maximum(1, np.ceil(tasks.duration_s / slot_s)).astype(np.int64)
    demands = [
        Demand(cpu, memory, memory)
        for cpu, memory in zip(tasks.cpu.tolist(), tasks.memory.tolist(), strict=True)
    ]
    slots = horizon_s // slot_s
    upcoming, now = 0, 0
    waiting: list[int] = []
    running: list[tuple[int, int, Path]] = []
    meter.begin(0, warm_up_s)
    while now < slots:
        # 1. Finished tasks give back what they hold; a node without tasks is asleep from then on.
        ended = False
        while running and running[0][0] <= now:
            _, task, path = heapq.heappop(running)
            demand = demands[task]
            centre.place(path, demand.cpu, demand.memory, demand.gbps, -1)
            meter.response(now * slot_s - int(tasks.arrival_s[task]))
            ended = True
        # 2. New tasks.
        first = upcoming
        while upcoming < len(arrives) and arrives[upcoming] <= now:
            waiting.append(upcoming)
            upcoming += 1
        # 3. Those that wait get a path, if there is any.
        if waiting and (ended or upcoming > first):
            asleep, switches_asleep = centre.tasks == 0, [flows == 0 for flows in centre.flows]
            paths = scheduler.place(centre, costs, [demands[task] for task in waiting])
            for task, found in zip(waiting, paths, strict=True):
                if found is not None:
                    heapq.heappush(running, (now + int(lasts[task]), task, found))
                    meter.wait(now * slot_s - int(tasks.arrival_s[task]))
            waiting = [task for task, found in zip(waiting, paths, strict=True) if found is None]
            _count_woken(meter, centre, costs, asleep, switches_asleep)
        # 4. On to the next slot in which something happens.
        following = [int(running[0][0])] if running else []
        if upcoming < len(arrives):
            following.append(int(arrives[upcoming]))
        now = min([slots, *following])
        meter.until(now * slot_s, on_at_once)
    return meter.totals(queue=len(waiting), unconnected=0)


def _check(slot_s: int, horizon_s: int, warm_up_s: int) -> None:
    if slot_s < 1 or horizon_s < slot_s:
        raise BadInputError(
            f"slot_s is {slot_s} and horizon_s is {horizon_s}: give at least 1 s, and a horizon of at least "
            "one slot"
        )
    if not 0 <= warm_up_s <= horizon_s - slot_s:
        raise BadInputError(
            f"warm_up_s is {warm_up_s} but must be from 0 to {horizon_s - slot_s}, the last slot's start"
        )


def _count_woken(
    meter: Meter,
    centre: DataCentre,
    costs: SlotCosts,
    asleep: Bools,
    switches_asleep: Sequence[Bools],
) -> None:
    """Count the energy of waking up the nodes that slept before the tasks were placed."""
    woken = asleep & (centre.tasks > 0)
    switches_j = sum(
        joules * int((before & (flows > 0)).sum())
        for joules, before, flows in zip(
            costs.switch_activation_j, switches_asleep, centre.flows, strict=True
        )
    )
    meter.activate(float(costs.activation_j[woken].sum()), switches_j, int(woken.sum()))
