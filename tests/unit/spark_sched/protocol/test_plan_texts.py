"""The texts of plans that follow each other."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_sched.protocol.plan import EndQuantiles, JobPlan, PilotSet, Plan, PlanTexts, QueuedBehind

_ENDS = st.one_of(
    st.none(),
    st.dictionaries(
        st.text(max_size=3), st.builds(QueuedBehind, st.integers(0, 9)) | st.just(EndQuantiles(1, 2, 3, 0.5))
    ),
)
_JOB = st.builds(
    JobPlan,
    st.sampled_from(["a", 'b"', "ü"]),
    st.integers(0, 3),
    st.integers(0, 1),
    st.none(),
    st.sampled_from(["", "why"]),
    share=st.none() | st.just({0: 4}),
    pilots=st.none() | st.just(PilotSet(0, (1, 2))),
)
_PLAN = st.builds(
    lambda jobs, ends, again_ms: Plan(7, 8, 9, "p", True, tuple(jobs), again_ms=again_ms, forecasts=ends),
    st.lists(_JOB, max_size=4),
    _ENDS,
    st.none() | st.integers(0, 9),
)


@given(st.lists(_PLAN, max_size=6))
def test_each_text_is_that_of_its_plan_alone(row):
    texts = PlanTexts()
    assert [texts.of(plan) for plan in row] == [plan.to_text() for plan in row]


def test_only_what_changed_is_written_again():
    texts = PlanTexts()
    jobs = [JobPlan(f"j{n}", n, 0, None, "why") for n in range(1000)]
    plan = Plan(1, 0, 1000, "p", True, tuple(jobs))
    texts.of(plan)
    assert texts.made == 1000
    # Equal objects and the same ones are alike.
    changed = [JobPlan(each.job, each.rank, 0, None, each.reason) for each in jobs[:500]] + jobs[500:]
    changed[3] = replace(changed[3], rank=5000)
    changed[4] = replace(changed[4], reason="another")
    moved = replace(plan, jobs=tuple(changed), number=2)
    assert texts.of(moved) == moved.to_text()
    assert texts.made == 1002
