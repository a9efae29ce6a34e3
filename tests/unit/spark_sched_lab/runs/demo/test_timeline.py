import json

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.demo.plots import timeline_svg
from spark_sched_lab.runs.demo.timeline import Span, Timeline, lay_out, read_timeline


def span(start_ms, end_ms, kind="background"):
    return Span("0", start_ms, end_ms, kind)


def lanes(spans, slots):
    return {(s.start_ms, s.kind): s.lane for s in lay_out(spans, slots)}


def test_tasks_that_overlap_get_lanes_of_their_own():
    placed = lanes([span(0, 1000), span(10, 900), span(20, 800)], 3)
    assert sorted(placed.values()) == [0, 1, 2]


def test_a_held_slot_lies_right_behind_the_task_that_left_it():
    placed = lanes([span(0, 1000), span(1, 2000), span(1001, 3000, "held")], 3)
    assert placed[1001, "held"] == placed[0, "background"]


def test_no_lane_is_made_beyond_the_slots_even_if_the_clocks_disagree():
    placed = lanes([span(0, 1000), span(0, 1000, "foreground"), span(500, 1500)], 2)
    assert set(placed.values()) <= {0, 1}


@pytest.fixture
def logs(tmp_path):
    spark = [
        {
            "Event": "SparkListenerExecutorAdded",
            "Executor ID": "0",
            "Executor Info": {"Host": "127.0.0.2", "Total Cores": 2},
        },
        {
            "Event": "SparkListenerStageSubmitted",
            "Stage Info": {"Stage ID": 1},
            "Properties": {"spark.jobGroup.id": "foreground"},
        },
        {
            "Event": "SparkListenerStageSubmitted",
            "Stage Info": {"Stage ID": 2},
            "Properties": {"spark.jobGroup.id": "background-7"},
        },
        *(
            {
                "Event": "SparkListenerTaskEnd",
                "Stage ID": stage,
                "Task Info": {"Executor ID": "0", "Launch Time": start, "Finish Time": end},
            }
            for stage, start, end in [(1, 1000, 2000), (2, 1500, 5000), (2, 90_000, 91_000)]
        ),
    ]
    ours = [
        {"type": "slot_held", "job": "mark-a", "executor": "0", "time_ms": 2000},
        {"type": "slot_freed", "job": "mark-b", "executor": "0", "time_ms": 2100},
        {"type": "slot_freed", "job": "mark-a", "executor": "0", "time_ms": 2500},
        {"type": "slot_held", "job": "mark-a", "executor": "0", "time_ms": 3000},
    ]
    for name, events in (("spark", spark), ("ours", ours)):
        text = "".join(json.dumps(event) + "\n" for event in events)
        (tmp_path / name).write_text(text + '{"cut sho')
    return tmp_path


def slot_seconds(timeline: Timeline, kind: str) -> float:
    """Slot-seconds of one kind inside the window."""
    return (
        sum(
            max(0, min(span.end_ms, timeline.end_ms) - max(span.start_ms, timeline.start_ms))
            for span in timeline.spans
            if span.kind == kind
        )
        / 1000
    )


def test_logs_give_foreground_background_and_held_time(logs):
    timeline = read_timeline(logs / "spark", 1000, 4000, logs / "ours")
    assert timeline.executors == {"0": "executor 0 on 127.0.0.2"}
    assert timeline.slots == {"0": 2}
    assert slot_seconds(timeline, "foreground") == 1.0
    assert slot_seconds(timeline, "background") == 2.5  # clipped to the window; the late task left out
    assert slot_seconds(timeline, "held") == 1.5  # the second hold is still open at the window's end


def test_without_the_schedulers_events_nothing_is_held(logs):
    assert slot_seconds(read_timeline(logs / "spark", 1000, 4000), "held") == 0.0


def test_the_drawing_stands_alone_and_is_the_same_each_time(logs):
    timeline = read_timeline(logs / "spark", 1000, 4000, logs / "ours")
    svg = timeline_svg(timeline, "stock")
    assert svg.startswith("<svg ")
    assert "executor 0 on 127.0.0.2" in svg
    assert 'href="http' not in svg
    assert svg == timeline_svg(timeline, "stock")


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(BadInputError, match="no-such-log"):
        read_timeline(tmp_path / "no-such-log", 0, 1)
