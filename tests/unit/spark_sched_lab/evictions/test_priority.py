"""Priority scheduling with evictions (thesis, chapters 6 to 9), small cases by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched.policies.eviction import PreemptionRule, named_rule
from spark_sched_lab.cluster.cluster import Power
from spark_sched_lab.evictions import ServerGroup, TaskTable, simulate_priorities, thesis_servers
from spark_sched_lab.evictions.google import TABLE_5_2, sampled_window
from spark_sched_lab.evictions.servers import with_levels
from spark_sched_lab.evictions.wasc import ClassUsage, ServerKind, slot_configuration
from spark_sched_lab.evictions.workloads import WORKLOADS, workload

#: 30 s to wake up before the first task is served.
WAKE_S = 30
POWER = Power(idle_w=100.0, cpu_w=60.0, memory_w=40.0, sleep_w=10.0)


def tasks(*rows):
    """``(arrival in s, priority, demand in cpu·s[, memory])``."""
    columns = [np.array(column) for column in zip(*[(*row, 0.0)[:4] for row in rows], strict=True)]
    return TaskTable(*(column.astype(float) for column in columns))


def server(slots=1, cores=1, cpu=1.0, memory=0.0, count=1, name="s"):
    return ServerGroup(name, count, cpu, memory, slots, cores, POWER)


def run(workload, *kinds, rule="mrs", **options):
    chosen = (
        rule if isinstance(rule, PreemptionRule) else named_rule(rule, resume=options.pop("resume", False))
    )
    log = []
    result = simulate_priorities(workload, kinds, chosen, observer=lambda *row: log.append(row), **options)
    return result, log


def test_tasks_share_the_cpu_equally_up_to_one_core_each():
    result, _ = run(tasks((0, 0, 10), (0, 0, 10)), server(slots=2))
    assert result.end_s.tolist() == [50, 50]  # 30 s awake, then half a core each
    result, _ = run(tasks((0, 0, 10), (0, 0, 10)), server(slots=2, cores=4))
    assert result.end_s.tolist() == [70, 70]  # a quarter of the server is the most


def test_an_arrival_of_higher_priority_evicts_and_the_work_is_lost():
    result, log = run(tasks((0, 0, 100), (80, 9, 10)), server())
    assert log == [
        ("start", 0, 0),
        ("evict", 80, 0),
        ("start", 80, 1),
        ("end", 90, 1),
        ("start", 90, 0),
        ("end", 190, 0),
    ]
    assert result.wasted.tolist() == [50.0, 0.0]
    assert result.summary()["WE"] == 50.0


def test_a_resumed_task_goes_on_where_it_was():
    result, _ = run(tasks((0, 0, 100), (80, 9, 10)), server(), resume=True)
    assert result.end_s.tolist() == [140, 90]
    assert result.summary()["WE"] == 0.0


def test_a_response_time_is_the_sum_of_its_parts():
    workload = tasks((0, 0, 100), (80, 9, 10))
    result, _ = run(workload, server())
    # 30 s until the server is awake, 50 s lost at 80, 10 s for the other task, then 100 s.
    assert result.breakdown(0) == {
        "queued": 10.0, "executing": 100.0, "waking": 30.0, "lost_for_memory": 0.0, "lost_for_priority": 50.0,
    }  # fmt: skip
    resumed, _ = run(workload, server(), resume=True)
    assert resumed.breakdown(0) == {
        "queued": 10.0, "executing": 100.0, "waking": 30.0, "lost_for_memory": 0.0, "lost_for_priority": 0.0,
    }  # fmt: skip
    assert result.breakdown(9)["executing"] == 10.0
    assert result.by_class()[0]["lost_for_priority_s"] == 50.0
    assert result.summary()["R_parts"]["executing"] == 55.0
    assert result.breakdown(4) == {}


def test_an_eviction_before_the_server_is_awake_loses_no_execution():
    result, _ = run(tasks((0, 0, 100), (20, 9, 10)), server())
    parts = result.breakdown(0)
    assert (parts["waking"], parts["lost_for_priority"]) == (20.0, 0.0)
    assert result.breakdown(9)["waking"] == 10.0


def test_equal_priority_waits():
    result, _ = run(tasks((0, 4, 100), (80, 4, 10)), server())
    assert result.priority_evictions.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("rule", "victim"),
    [pytest.param("mrs", 1, id="most recently started"), pytest.param("lrs", 0, id="least recently started")],
)
def test_who_is_evicted(rule, victim):
    workload = tasks((0, 0, 1000), (10, 0, 1000), (60, 1, 1000), (100, 9, 10))
    _, log = run(workload, server(slots=3, cores=3), rule=rule)
    assert ("evict", 100, victim) in log  # priority 0, not 1


def test_without_priorities_nobody_is_evicted_and_arrival_decides():
    _, log = run(tasks((0, 0, 100), (10, 0, 10), (20, 9, 10)), server(), rule="fcfs")
    assert [task for what, _, task in log if what == "start"] == [0, 1, 2]


def repeated(count):
    return tasks((0, 0, 1000), *[(100 * (i + 1), 9, 1) for i in range(count)])


def test_a_task_at_its_limit_is_dropped_or_evicted_no_more():
    result, _ = run(repeated(8), server(), rule="mrs3")
    assert (result.priority_evictions[0], result.summary()["dropped"]) == (3, 1)
    assert np.isnan(result.end_s[0])
    result, _ = run(repeated(8), server(), rule="mrs3-keep")
    assert (result.priority_evictions[0], result.summary()["dropped"]) == (3, 0)
    assert np.isfinite(result.end_s).all()


def test_a_task_in_a_sticky_slot_is_not_evicted():
    rule = PreemptionRule(sticky_slots=1)
    workload = tasks((0, 0, 500), (1, 0, 500), (100, 9, 10))
    result, log = run(workload, server(slots=2, cores=2), rule=rule)
    assert ("evict", 100, 1) in log  # the first took the sticky slot
    assert result.priority_evictions[0] == 0


def test_sticky_slots_are_not_for_the_second_stage():
    rule = PreemptionRule(sticky_slots=1)
    _, log = run(tasks((0, 4, 500), (0, 4, 10), (0, 4, 10)), server(slots=2, cores=2), rule=rule)
    starts = [(at, task) for what, at, task in log if what == "start"]
    assert starts[:2] == [(0, 0), (0, 1)]
    assert starts[2][0] == 50  # one regular slot: the third waits for the second


def test_gratis_sticky_slots_are_not_for_higher_classes():
    # Two sticky slots and one regular one. Under HYBRID the tasks of class 4 take the sticky ones.
    workload = tasks((0, 4, 500), (0, 4, 500), (1, 0, 500), (1, 0, 500))
    slots = server(slots=3, cores=3)
    result, log = run(workload, slots, rule=PreemptionRule(sticky_slots=2, sticky_gratis=True))
    starts = {task: at for what, at, task in log if what == "start"}
    assert (starts[0], starts[2], starts[3]) == (0, 1, 1)
    assert starts[1] > 1  # though a slot was free
    assert result.priority_evictions.sum() == 0
    _, log = run(workload, slots, rule=PreemptionRule(sticky_slots=2))
    assert ("start", 0, 1) in log


def test_an_evicted_gratis_task_gets_the_next_sticky_slot():
    workload = tasks((0, 0, 100), (0, 1, 400), (10, 4, 400))
    result, log = run(
        workload, server(slots=2, cores=2), rule=PreemptionRule(sticky_slots=1, sticky_gratis=True)
    )
    assert ("evict", 10, 1) in log  # class 1 had the regular slot
    assert ("start", 230, 1) in log  # when class 0 has left the sticky one
    assert result.priority_evictions.tolist() == [0, 1, 0]


def test_sticky_slots_for_gratis_classes_leave_slots_for_the_others():
    one = tasks((0, 4, 1))
    with pytest.raises(BadInputError, match="leaves no slot for classes above gratis"):
        simulate_priorities(one, [server(slots=2)], PreemptionRule(sticky_slots=2, sticky_gratis=True))
    with pytest.raises(BadInputError, match="use order 'priority'"):
        PreemptionRule(order="arrival", sticky_slots=1, sticky_gratis=True).check()
    assert named_rule("hybrid7-gratis") == PreemptionRule(powerful=True, sticky_slots=7, sticky_gratis=True)
    assert named_rule("hybrid200-gratis") == named_rule("hybrid-gratis")


def test_production_tasks_get_powerful_slots_and_evict_there():
    kinds = with_levels([server(slots=4, name="normal"), server(slots=1, name="powerful")])
    workload = tasks(*[(0, 0, 1000)] * 5, (100, 9, 10))
    result, _ = run(workload, *kinds, rule="wasp")
    assert result.response_s[5] == 10  # a whole server, though another task started last elsewhere
    evicted = int(np.flatnonzero(result.priority_evictions)[0])
    assert evicted < 5


def test_a_task_whose_memory_is_missing_at_its_checkpoint_evicts_by_policy():
    workload = tasks((0, 0, 1000, 0.6), (40, 9, 1000, 0.6))
    kinds = (server(slots=2, cores=2, memory=1.0),)
    last, _ = run(workload, *kinds, memory_eviction="LSF")
    assert last.memory_evictions.tolist()[0] == 0
    assert last.memory_evictions[1] >= 1  # the last started whose need is not met, whatever its priority
    lowest, _ = run(workload, *kinds, memory_eviction="LPF")
    assert lowest.memory_evictions[0] >= 1
    assert lowest.memory_evictions[1] == 0


def test_a_task_that_fits_on_no_server_is_refused():
    workload = tasks((0, 0, 10, 0.4), (0, 0, 10, 0.6))
    with pytest.raises(BadInputError, match=r"task 1 needs memory 0\.6 but the largest server has 0\.5"):
        run(workload, server(memory=0.25), server(memory=0.5))
    assert run(workload, server(memory=0.6))[0].memory_evictions.sum() == 0
    assert run(workload, server(memory=0.0))[0].memory_evictions.sum() == 0, "memory is not modelled"


def test_memory_policies_have_names():
    with pytest.raises(BadInputError, match="LSF or LPF"):
        run(tasks((0, 0, 1)), server(), memory_eviction="FIFO")


def test_energy_until_the_last_arrival_and_until_the_last_end():
    result, _ = run(tasks((100, 0, 10), (200, 0, 1)), server())
    # Asleep, awake, ten seconds of work, asleep; the last arrival ends it.
    until_arrival_j = 100 * 10 + 30 * 200 + 10 * 160 + 60 * 10
    assert result.energy_j == pytest.approx(until_arrival_j)
    assert result.energy_all_j == pytest.approx(until_arrival_j + 30 * 200 + 1 * 160)


def test_servers_may_stay_idle_instead_of_sleeping():
    result, _ = run(tasks((100, 0, 10), (200, 0, 1)), server(), power_policy="idle")
    assert result.response_s.tolist() == [10, 1]  # no server wakes up
    assert result.energy_j == pytest.approx(100 * 100 + 10 * 160 + 90 * 100)
    assert result.breakdown()["waking"] == 0.0
    with pytest.raises(BadInputError, match="power_policy is 'SLP' but must be sleep or idle"):
        run(tasks((0, 0, 1)), server(), power_policy="SLP")


def test_v_weighs_class_means():
    result, _ = run(tasks((0, 0, 10), (50, 2, 10)), server(cores=1))
    response = result.response_s
    assert result.weighted_response() == pytest.approx((3 * response[0] + 5 * response[1]) / 2)


def test_the_same_seed_gives_the_same_result():
    generated = workload("W-A-generated", 1, hours=1.0)
    kinds = thesis_servers("SC1")
    runs = [simulate_priorities(generated, kinds, named_rule("rnd"), seed=3).summary() for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_sampled_window_keeps_what_its_tasks_are():
    source = workload("W-A-generated", 1, hours=3.0)
    window = sampled_window(source, np.random.default_rng(2), hours=1.0, tasks=1_000)
    assert 850 < len(window) < 1_150
    assert window.arrival_s[-1] < 3600.0
    assert set(window.demand) <= set(source.demand)


@pytest.mark.parametrize("name", ["W-A-generated", "W-B", "W-C", "W-D", "W-E"])
@pytest.mark.parametrize("low", [False, True])
def test_workloads_have_their_number_of_tasks(name, low):
    tasks_per_hour = 4_000 * (0.75 if low else 1.0)
    table = workload(name, 1, low=low, hours=2.0)
    assert len(table) == pytest.approx(2 * tasks_per_hour, rel=0.12)
    assert table.priority.max() <= 9


def test_workloads_have_names_and_sources():
    with pytest.raises(BadInputError, match="unknown"):
        workload("W-F", 1)
    with pytest.raises(BadInputError, match="sampled from Google's trace"):
        workload(WORKLOADS[0], 1)


@pytest.mark.parametrize("name", ["mrx", "mrs0", "mrs-keep", "mrs" + "9" * 5000, "hybrid-1", "hybrid٥"])
def test_unknown_rules_are_refused(name):
    with pytest.raises(BadInputError, match="limit|unknown"):
        named_rule(name)


def test_more_sticky_slots_than_slots_are_refused():
    servers, one = thesis_servers("WASC", memory=False), tasks((0, 0, 1))
    assert simulate_priorities(one, servers, named_rule("hybrid3072")).summary()["dropped"] == 0
    with pytest.raises(BadInputError, match="sticky_slots is 3073 but the servers have 3072 slots"):
        simulate_priorities(one, servers, named_rule("hybrid3073"))


def test_a_workload_with_a_factor_differs_in_its_demand_alone():
    plain, busier = (workload(name, 1, hours=0.5) for name in ("W-A-generated", "W-A-generated@1.2"))
    assert busier.demand == pytest.approx(1.2 * plain.demand)
    assert (busier.arrival_s.tolist(), busier.priority.tolist()) == (
        plain.arrival_s.tolist(), plain.priority.tolist(),
    )  # fmt: skip
    for factor in ("", "0", "x", "inf", "1e9"):
        with pytest.raises(BadInputError, match="must be a number above 0"):
            workload(f"W-A-generated@{factor}", 1, hours=0.5)


def test_a_workload_must_be_one():
    with pytest.raises(BadInputError, match="order of arrival"):
        tasks((10, 0, 1), (0, 0, 1))
    with pytest.raises(BadInputError, match="no CPU demand"):
        tasks((0, 0, 0))


# ---- WASC ----

SERVERS = [
    ServerKind("A", 68, 0.5, 8),
    ServerKind("B", 39, 0.5, 8),
    ServerKind("C", 10, 0.5, 8),
    ServerKind("D", 8, 1.0, 8),
]


def usage(production, other):
    """Table 5.2 with standard deviations as multiples of the mean usage, since it has none."""
    return {
        priority: ClassUsage(
            row.percent,
            row.cpu_demand,
            row.cpu_usage,
            row.cpu_usage * (production if priority >= 9 else other),
        )
        for priority, row in TABLE_5_2.items()
    }


def test_wasc_gives_table_8_1_from_table_5_2():
    plan = slot_configuration(usage(2.0, 0.35), SERVERS)
    assert plan.occupancy == pytest.approx(0.0766, abs=0.0005)
    assert plan.slots == (24, 48)
    assert {(s.name, s.count, s.slots, s.powerful) for s in plan.shares} == {
        ("A", 68, 24, False),
        ("B", 39, 24, False),
        ("C", 10, 24, False),
        ("D", 5, 24, True),
        ("D", 3, 48, False),
    }
    assert plan.total == 3072


def test_how_many_servers_are_powerful_needs_no_deviation():
    for production in (1.6, 2.4):
        shares = slot_configuration(usage(production, 0.3), SERVERS).shares
        assert [(s.name, s.count) for s in shares if s.powerful] == [("D", 5)]


def test_wasc_needs_both_groups():
    with pytest.raises(BadInputError, match="production class"):
        slot_configuration({0: ClassUsage(1, 1, 1, 0)}, SERVERS)


def test_priced_evictions_are_refused_where_the_slot_is_free_soon():
    # Many short tasks of priority 4 against long ones of priority 0: slots become free all the time.
    rng = np.random.default_rng(1)
    arrival = np.sort(rng.uniform(0, 2000, 600))
    long = rng.random(600) < 0.3
    workload = TaskTable(arrival, np.where(long, 0.0, 4.0), np.where(long, 200.0, 10.0), np.zeros(600))
    kinds = (server(slots=8, cores=8, cpu=8.0),)
    priced, _ = run(workload, *kinds, rule="priced")
    plain, _ = run(workload, *kinds, rule="mrs5-keep")
    assert priced.refused > 0
    assert priced.wasted.sum() < plain.wasted.sum()
    assert replace(named_rule("priced"), priced=False) == named_rule("mrs5-keep")


def fast_and_slow():
    """One server of two fast cores and one of two slow ones, with two slots for each core."""
    return (
        replace(server(slots=4, cores=2, cpu=1.0), name="fast"),
        replace(server(slots=4, cores=2, cpu=0.5), name="slow"),
    )


def test_valuable_tasks_get_the_fast_cores_and_others_leave_these_to_them():
    # Ten tasks of class 0 to one of class 9, whose seconds are worth the more in V.
    workload = tasks(*[(200.0 * at, 0, 10) for at in range(10)], (2000, 9, 10))
    result, _ = run(workload, *fast_and_slow(), rule="priced-slots", wake_s=0)
    assert result.response_s.tolist() == [40.0] * 10 + [20.0]  # a slow core has 1/4, a fast one 1/2


def test_others_take_fast_cores_before_they_share_slow_ones():
    workload = tasks(*[(0, 0, 10)] * 4)
    result, _ = run(workload, *fast_and_slow(), rule="priced-slots", wake_s=0)
    assert sorted(result.response_s.tolist()) == [20.0, 20.0, 40.0, 40.0]


def test_among_equal_slots_one_of_a_server_that_is_awake_is_taken():
    workload = tasks((0, 0, 10), (5, 0, 10))
    result, _ = run(workload, server(slots=2, cores=2, count=2), rule="priced-slots")
    assert result.end_s.tolist() == [WAKE_S + 20, WAKE_S + 20]  # both wait for the same wake-up


def test_slots_have_no_price_where_evictions_have_none():
    with pytest.raises(BadInputError, match="priced_slots is set but priced is not"):
        run(tasks((0, 0, 10)), server(), rule=PreemptionRule(priced_slots=True))
