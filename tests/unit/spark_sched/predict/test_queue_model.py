"""Queues played forward, against closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.predict.drained import FRONT_JOBS, play_many
from spark_sched.predict.queue_model import Queue, filled, parts_of, play


def queue(
    slots: float, work: Any, width: Any, *, shared: bool = False, weight: Any = None, **more: Any
) -> Queue:
    """One sample of jobs with lists of segments; ``shared``: each job is a group."""
    jobs, segments = len(work), max(map(len, work))
    works, widths = np.zeros((1, jobs, segments)), np.ones((jobs, segments))
    for at, (w, v) in enumerate(zip(work, width, strict=True)):
        works[0, at, : len(w)], widths[at, : len(v)] = w, v
    groups = np.arange(jobs) if shared else np.zeros(1, dtype=np.int64)
    given: dict[str, Any] = {
        "release_ms": np.zeros(jobs),
        "busy_slots": np.zeros(jobs),
        "busy_ms": np.zeros((1, jobs)),
        "weight": np.ones(groups.size) if weight is None else np.array(weight, dtype=float),
        **{name: np.array(value, dtype=float) for name, value in more.items()},
    }
    return Queue(slots, works, widths, group=groups, **given)


def test_jobs_in_order_start_when_those_before_them_end():
    played = play(queue(4, [[400]] * 10, [[4]] * 10))
    assert played.start_ms[0] == pytest.approx(100.0 * np.arange(10))
    assert played.end_ms[0] == pytest.approx(100.0 * np.arange(1, 11))


def test_slots_that_the_first_job_cannot_use_go_to_the_next():
    played = play(queue(4, [[400, 100], [400]], [[4, 1], [4]]))
    # 100 ms on all slots, then 100 ms on one, beside which the second job has three.
    assert played.start_ms[0] == pytest.approx([0.0, 100.0])
    assert played.end_ms[0] == pytest.approx([200.0, 225.0])


@pytest.mark.parametrize("many", [play, play_many])
def test_equal_groups_share_the_processor(many: Any):
    """Ends of processor sharing: the shortest has n times its own time."""
    played = many(queue(4, [[400], [800], [1200]], [[4]] * 3, shared=True))
    assert played.end_ms[0] == pytest.approx([300.0, 500.0, 600.0])


def test_groups_share_by_weight():
    played = play(queue(4, [[900], [300]], [[4]] * 2, shared=True, weight=[3, 1]))
    assert played.end_ms[0] == pytest.approx([300.0, 300.0])


def test_running_tasks_keep_their_slots_though_a_job_before_them_waits():
    played = play(queue(4, [[400], [400]], [[4], [4]], busy_slots=[0, 4], busy_ms=[[0, 50]]))
    assert played.start_ms[0] == pytest.approx([50.0, 0.0])
    assert played.end_ms[0] == pytest.approx([150.0, 200.0])


def test_a_job_starts_not_before_its_release():
    played = play(queue(4, [[400], [400]], [[4], [4]], release_ms=[250, 0]))
    assert played.start_ms[0] == pytest.approx([250.0, 0.0])
    assert played.end_ms[0] == pytest.approx([350.0, 100.0])
    assert np.isinf(play(queue(4, [[400]], [[4]], release_ms=[np.inf])).end_ms).all()


def test_behind_endless_work_nothing_ends_unless_it_leaves_slots():
    stuck = play(queue(4, [[np.inf], [400]], [[4], [4]]))
    assert np.isinf(stuck.end_ms).all()
    beside = play(queue(4, [[np.inf], [400]], [[3], [4]]))
    assert beside.end_ms[0] == pytest.approx([np.inf, 400.0])


def test_no_slots_and_no_jobs():
    assert np.isinf(play(queue(0, [[1]], [[1]])).end_ms).all()
    nothing = Queue(
        4, np.zeros((2, 0, 1)), np.ones((0, 1)), np.zeros(0), np.zeros(0), np.zeros((2, 0)),
        np.zeros(1, dtype=np.int64), np.ones(1),
    )  # fmt: skip
    assert play(nothing).end_ms.shape == (2, 0)


@pytest.mark.parametrize("shared", [False, True])
def test_long_queues_end_as_short_ones_do(shared: bool):
    """What follows from work and slots alone is within 5 % of the closed form."""
    jobs = 3 * FRONT_JOBS
    work = np.random.default_rng(3).uniform(200.0, 600.0, jobs)
    played = play_many(queue(4, [[w] for w in work], [[4]] * jobs, shared=shared))
    ends = np.cumsum(work) / 4
    if shared:
        ends = np.array([np.minimum(work, w).sum() / 4 for w in work])
    assert played.end_ms[0] == pytest.approx(ends, rel=0.05, abs=30.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("slots", [0.0, 1_000.0])
@pytest.mark.parametrize("shared", [False, True])
def test_behind_endless_jobs_at_the_end_of_the_front_others_end_if_there_are_slots(
    slots: float, shared: bool
):
    jobs, near = 2 * FRONT_JOBS, range(FRONT_JOBS // 2, FRONT_JOBS)
    work = [[np.inf if at in near else 4_000.0] for at in range(jobs)]
    played = play_many(queue(slots, work, [[1]] * jobs, shared=shared))
    ends = [at for at in range(jobs) if slots and at not in near]
    assert np.flatnonzero(np.isfinite(played.end_ms[0])).tolist() == ends
    # Behind the front a start is not before the work before it is done on all slots.
    assert played.end_ms[0, ends] == pytest.approx(4_000.0, rel=0.25)


works = st.lists(st.lists(st.floats(1.0, 1e5), min_size=1, max_size=4), min_size=1, max_size=12)


@given(works, st.integers(1, 8), st.booleans())
def test_every_job_ends_after_its_own_time_and_all_not_before_the_work_is_done(
    work: list[list[float]], slots: int, shared: bool
):
    width = [[1.0 + (at + k) % slots for k in range(len(each))] for at, each in enumerate(work)]
    played = play(queue(slots, work, width, shared=shared))
    alone = [
        sum(w / v for w, v in zip(each, wide, strict=True)) for each, wide in zip(work, width, strict=True)
    ]
    assert (played.end_ms[0] >= np.array(alone) * (1 - 1e-6)).all()
    assert played.end_ms.max() >= sum(map(sum, work)) / slots * (1 - 1e-6)
    assert np.isfinite(played.end_ms).all()
    assert (played.start_ms <= played.end_ms).all()


@given(works, st.integers(1, 8), st.floats(0.0, 1e5))
def test_more_work_before_a_job_ends_it_no_earlier(work: list[list[float]], slots: int, more: float):
    width = [[float(slots)] * len(each) for each in work]
    before = play(queue(slots, work, width)).end_ms[0]
    after = play(queue(slots, [[work[0][0] + more, *work[0][1:]], *work[1:]], width)).end_ms[0]
    assert (after >= before * (1 - 1e-6)).all()


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8), st.floats(0.1, 500.0))
def test_parts_are_fair(wanted: list[float], there_is: float):
    want = np.array([wanted])
    parts = filled(want, np.array([there_is]), np.ones(len(wanted)))
    assert (parts <= want + 1e-9).all()
    assert parts.sum() <= there_is * (1 + 1e-9)
    # Who gets less than it wants gets no less than anybody else.
    hungry = parts[0] < want[0] - 1e-6
    if hungry.any() and len(wanted) <= 5:
        assert parts[0][hungry].min() >= parts.max() - 1e-6 * max(1.0, parts.max())


@pytest.mark.parametrize(
    ("wanted", "weight", "parts"),
    [
        ([4, 16], [1e-9, 1e-9], [4, 4]),
        ([4, 16], [3e-12, 1e-12], [4, 4]),
        ([4, 16], [1, 1e-10], [4, 4]),
        ([16, 16], [1, 1e-10], [8, 0]),
        ([16, 16], [3e9, 1e9], [6, 2]),
        ([16, 4, 16], [1e-300, 1e-310, 1e-300], [4, 0, 4]),
    ],
)
def test_parts_go_by_the_ratio_of_weights(wanted: list[float], weight: list[float], parts: list[float]):
    found = filled(np.array([wanted], dtype=float), np.array([8.0]), np.array(weight, dtype=float))
    assert found[0] == pytest.approx(parts, abs=1e-6)


def test_a_thousand_jobs_take_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch):
    from spark_sched.predict import drained

    seen: list[int] = []
    real = drained.play
    monkeypatch.setattr(drained, "play", lambda q: seen.append(q.work.shape[1]) or real(q))
    jobs = 1_000
    work = [[400.0, 300.0, 200.0, 100.0]] * jobs
    played = play_many(queue(16, work, [[8.0, 4.0, 2.0, 1.0]] * jobs))
    assert seen == [FRONT_JOBS]
    assert np.isfinite(played.end_ms).all()
    assert (np.diff(played.start_ms[0]) >= -1e-6).all()


@pytest.mark.parametrize(("shared", "endless"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("ratio", "error"), [(1e2, 0.15), (1e4, 0.2), (1e6, 0.4)])
def test_jobs_of_very_different_sizes_all_end_in_the_steps_there_are(
    ratio: float, error: float, shared: bool, endless: bool
):
    size = np.geomspace(1e3, 1e3 * ratio, 120)
    work, width = [[each / 4] * 4 for each in size], [[16]] * 120
    more: dict[str, Any] = {}
    if endless:
        # On four slots more a task of unknown length runs.
        work, width = [[np.inf], *work], [[4], *width]
        more = {"busy_slots": [4] + [0] * 120, "busy_ms": [[np.inf] + [0] * 120]}
    width = [each * len(of) for each, of in zip(width, work, strict=True)]
    played = play(queue(20 if endless else 16, work, width, shared=shared, **more)).end_ms[0, -120:]
    ends = np.array([np.minimum(size, each).sum() / 16 for each in size]) if shared else np.cumsum(size) / 16
    assert np.isfinite(played).all()
    assert played == pytest.approx(ends, rel=error)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 1.0), st.sampled_from((0.5, 1.0, 3.0))),
        min_size=1, max_size=7,
    ),
    st.floats(0.1, 500.0),
)  # fmt: skip
def test_parts_keep_floors_and_rise_with_one_level(nodes: list[tuple[float, float, float]], there_is: float):
    want = np.array([[wanted for wanted, _, _ in nodes]])
    least = want * np.array([[part for _, part, _ in nodes]])
    weight = np.array([each for _, _, each in nodes])
    parts = parts_of(want, least, np.array([there_is]), weight)
    assert (parts <= want + 1e-6).all()
    assert parts.sum() == pytest.approx(min(there_is, want.sum()), rel=1e-6, abs=1e-6)
    if least.sum() <= there_is:
        assert (parts >= least - 1e-6).all()
    # Nobody has more for its weight than one that wants more, but for its floor.
    hungry = parts[0] < want[0] - 1e-6
    above = parts[0] > np.minimum(least[0], want[0]) + 1e-6
    if hungry.any() and above.any():
        levels = parts[0] / weight
        assert levels[above].max() <= levels[hungry].min() + 1e-6


def test_a_job_waits_at_its_barrier_for_the_slots_that_others_have():
    """The first job lets the second one have three slots in its first segment, and needs all in the next."""
    two = [[100, 400], [10_000]], [[1, 4], [4]]
    free = play(queue(4, *two))
    waits = play(queue(4, *two, barrier_ms=[80.0, 80.0]))
    assert free.end_ms[0, 0] == pytest.approx(200.0)
    # It lacks all four, as the second could use them.
    assert waits.end_ms[0, 0] == pytest.approx(280.0)
    # Nothing is lost to the others, which work meanwhile.
    assert waits.end_ms[0, 1] == pytest.approx(free.end_ms[0, 1])


def test_a_job_waits_for_no_more_slots_than_it_lacks():
    alone = play(queue(4, [[100, 400]], [[1, 4]], barrier_ms=[80.0]))
    assert alone.end_ms[0, 0] == pytest.approx(200.0)
    one_busy = play(queue(4, [[100, 400], [1_000]], [[1, 4], [1]], barrier_ms=[80.0, 80.0]))
    # One of the four slots is another's: a fourth of the wait.
    assert one_busy.end_ms[0, 0] == pytest.approx(220.0)


def test_jobs_that_wait_at_barriers_end_in_long_queues_as_in_short_steps(monkeypatch: pytest.MonkeyPatch):
    """Steps that are longer than a wait give the rest of their time."""
    rng = np.random.default_rng(3)
    many = queue(16, rng.uniform(1e3, 5e4, (60, 4)).tolist(), rng.integers(1, 16, (60, 4)).tolist())
    many = replace(many, barrier_ms=np.full(60, 3_000.0))
    few = play(many)
    monkeypatch.setattr("spark_sched.predict.queue_model.EXACT_STEPS", 5_000)
    monkeypatch.setattr("spark_sched.predict.queue_model.MOST_STEPS", 5_000)
    exact = play(many)
    assert np.isfinite(few.end_ms).all()
    assert few.end_ms == pytest.approx(exact.end_ms, rel=0.15)
