"""Files of queues: what they mean, and one sentence for each fault."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spark_sched.config import keys, queue_check, validate
from spark_sched.config.queue_file import parse_queues, read_queues, with_change
from spark_sched.config.queues import NO_QUEUES, Amount, Preemption
from spark_sched.errors import BadInputError

EXAMPLE = Path(__file__).parents[4] / "conf" / "queues.toml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "queues.toml"
    path.write_text(text)
    return path


def test_the_example_crosses_as_one_line_and_means_the_same() -> None:
    tree = read_queues(EXAMPLE)
    line = tree.to_json()
    assert "\n" not in line
    assert parse_queues(line) == tree == validate({keys.QUEUES.name: line})[keys.QUEUES]
    assert [spec.path for spec in tree.queues] == [
        "adhoc", "etl", "etl.nightly", "etl.hourly", "dashboards",
    ]  # fmt: skip
    assert tree["adhoc"].wait_timeout_ms == 1_800_000
    assert tree["etl.hourly"].ceiling == Amount(percent=25.0)
    assert tree["etl.hourly"].held_ceiling == Amount(2)
    assert (tree["etl"].floor, tree["etl.nightly"].weight, tree.shares) == (Amount(percent=25.0), 3.0, True)


def test_no_queues_are_a_tree_without_limits() -> None:
    assert NO_QUEUES.is_empty
    assert (NO_QUEUES.to_json(), NO_QUEUES.leaves) == ("", frozenset())
    assert (NO_QUEUES.place("ann"), NO_QUEUES.max_priority(""), NO_QUEUES.shares) == ("", 2**31 - 1, False)


def test_queues_without_floors_and_weights_have_no_order() -> None:
    tree = parse_queues('{"default":"a","queues":[{"queue":"a","ceiling":5}]}')
    assert tree is not None
    assert not tree.shares
    assert "floor" not in tree.to_json()
    assert "weight" not in tree.to_json()


@pytest.mark.parametrize(
    ("user", "name", "queue"),
    [
        ("etl", "nightly-load", "etl.nightly"),
        ("etl", "load", "etl.hourly"),
        ("dashboard-7", "nightly-load", "dashboards"),
        ("ann", "nightly-load", "adhoc"),
    ],
)
def test_the_first_rule_that_matches_places_a_job(user: str, name: str, queue: str) -> None:
    assert read_queues(EXAMPLE).place(user, name) == queue


def test_a_percentage_is_rounded_down_to_one_slot_at_least() -> None:
    assert [Amount(percent=30.0).of(total) for total in (0, 1, 10, 13)] == [1, 1, 3, 3]
    assert Amount(percent=29.0).of(100) == 29  # 28.999999999999996 in binary
    assert Amount(5).of(1) == 5


def test_preemption_only_observes_unless_the_file_says_more() -> None:
    text = '{"default":"a","queues":[{"queue":"a","floor":5}]}'
    tree = parse_queues(text)
    assert tree is not None
    assert tree.preemption == Preemption("observe", 0.5, 30_000, 5_000)
    on = replace(tree, preemption=Preemption("on", 1.0, 1000, 500))
    assert parse_queues(on.to_json()) == on


def test_floors_that_fit_together_in_the_file_fit_together_in_slots() -> None:
    tenth = Amount(percent=10.0)
    assert [tenth.at_most(total) for total in (0, 4, 9, 10, 25)] == [0, 0, 0, 1, 2]
    assert Amount(3).at_most(1) == 3


def test_the_least_priority_of_a_path_limits_a_job() -> None:
    tree = parse_queues('{"default":"a.b","queues":[{"queue":"a","max_priority":5},{"queue":"a.b"}]}')
    assert tree is not None
    assert tree.max_priority("a.b") == 5


def test_priorities_by_user_and_group_cross_as_one_line() -> None:
    line = (
        '{"default":"a.b","queues":[{"queue":"a","max_priority":3,"max_priorities":'
        '[{"user":"ann-*","max_priority":5},{"group":"leads","max_priority":9}]},{"queue":"a.b"}],"rules":[]}'
    )
    tree = parse_queues(line)
    assert tree is not None
    assert tree.to_json() == line
    found = [tree.max_priority("a.b", *who) for who in (("bob",), ("bob", {"leads"}), ("ann-1", {"leads"}))]
    assert found == [3, 9, 5]


def test_a_group_may_have_less_than_an_earlier_user_and_than_a_later_group(tmp_path: Path) -> None:
    text = (
        'default = "a"\n[queues.a]\nmax_priority = 3\nmax_priorities = [{user = "ann", max_priority = 8},'
        '{group = "contractors", max_priority = 5}, {group = "leads", max_priority = 9},'
        '{user = "b*", max_priority = 5}]'
    )
    limits = read_queues(written(tmp_path, text))["a"].max_priorities
    assert [limit.max_priority for limit in limits] == [8, 5, 9, 5]


FAULTS = {
    "priorities that are no tables": (
        'default = "a"\n[queues.a]\nmax_priorities = ["ann"]',
        "queue 'a' has max_priorities ['ann'] but it must be a list of tables such as",
    ),
    "priority of nobody": (
        'default = "a"\n[queues.a]\nmax_priorities = [{max_priority = 3}]',
        "max_priorities[0] of queue 'a' has neither user nor group",
    ),
    "priority that is missing": (
        'default = "a"\n[queues.a]\nmax_priorities = [{user = "ann"}]',
        "max_priority in max_priorities[0] of queue 'a' is None but must be a whole number",
    ),
    "unknown key of a priority": (
        'default = "a"\n[queues.a]\nmax_priorities = [{users = "ann", max_priority = 1}]',
        "max_priorities[0] of queue 'a' has the unknown key 'users' (did you mean 'user'?)",
    ),
    "priority of a user that is no text": (
        'default = "a"\n[queues.a]\nmax_priorities = [{user = 3, max_priority = 1}]',
        "user in max_priorities[0] of queue 'a' is 3 but must be a text",
    ),
    "group with less than those whose groups are unknown": (
        'default = "a"\n[queues.a]\nmax_priorities = [{group = "leads", max_priority = 1}]',
        "has 1 but max_priority of the queue is none, so that members whose groups are unknown",
    ),
    "group with less than a later user has": (
        """
        default = "a"
        [queues.a]
        max_priority = 3
        max_priorities = [
          {group = "x", max_priority = 5}, {group = "y", max_priority = 9},
          {user = "b*", max_priority = 5}, {user = "*", max_priority = 8}]""",
        "max_priorities[0] of queue 'a' (group 'x') has 5 but the later max_priorities[3] (user '*') has 8",
    ),
    "priority above every one of the parent's": (
        'default="a.b"\n[queues.a]\nmax_priority=4\n[queues.a.b]\nmax_priorities=[{user="a",max_priority=5}]',
        "queue 'a.b' has max_priorities of 5 but its ancestor 'a' has 4: lower the first or raise the second",
    ),
    "no queue": ('default = "a"', "queues is missing"),
    "unknown key of the file": (
        'defualt = "a"\n[queues.a]',
        "unknown key 'defualt' (did you mean 'default'?)",
    ),
    "unknown key of a queue": (
        'default = "a"\n[queues.a]\ncieling = 4',
        "queue 'a' has the unknown key 'cieling' (did you mean 'ceiling'?)",
    ),
    "no default": ("[queues.a]", "default is missing"),
    "unknown default": (
        'default = "adhok"\n[queues.adhoc]',
        "default is 'adhok' (did you mean 'adhoc'?) but must be one of the queues adhoc",
    ),
    "default with queues below it": (
        'default = "a"\n[queues.a]\n[queues.a.b]',
        "default is 'a', which has queues below it, and jobs are in the lowest ones: name one of a.b",
    ),
    "default that is not for everybody": (
        'default = "a"\n[queues.a]\nusers = ["ann"]',
        "default is 'a' but queue 'a' has users",
    ),
    "share as a number": (
        'default = "a"\n[queues.a]\nceiling = 0.3',
        "queue 'a' has ceiling 0.3 but it must be a number of slots such as 8, or a share",
    ),
    "share above all slots": (
        'default = "a"\n[queues.a]\nceiling = "130 %"',
        "queue 'a' has ceiling '130 %' but it must be",
    ),
    "no slots": ('default = "a"\n[queues.a]\nceiling = 0', "queue 'a' has ceiling 0 but it must be"),
    "ceiling above the parent's": (
        'default = "a.b"\n[queues.a]\nceiling = 4\n[queues.a.b]\nceiling = 5',
        "queue 'a.b' has ceiling 5 but its ancestor 'a' has 4: lower the first or raise the second",
    ),
    "held ceiling above the ceiling": (
        'default = "a"\n[queues.a]\nceiling = "10 %"\nheld_ceiling = "20 %"',
        "queue 'a' has held_ceiling 20 % but its ceiling is 10 %",
    ),
    "floor above the ceiling": (
        'default = "a"\n[queues.a]\nceiling = 4\nfloor = 5',
        "queue 'a' has floor 5 but its ceiling is 4, so that it would never have its floor: lower the floor",
    ),
    "floor above an ancestor's ceiling": (
        'default = "a.b.c"\n[queues.a]\nceiling = "20 %"\n[queues.a.b]\n[queues.a.b.c]\nfloor = "30 %"',
        "queue 'a.b.c' has floor 30 % but its ancestor 'a' has ceiling 20 %",
    ),
    "floors of children above the floor": (
        'default = "a.b"\n[queues.a]\nfloor = 4\n[queues.a.b]\nfloor = 2\n[queues.a.c.d]\nfloor = 3',
        "the floors below queue 'a' add up to 5 but its floor is 4: lower some of them",
    ),
    "floors of children above the ceiling": (
        'default = "a.b"\n[queues.a]\nceiling = 4\n[queues.a.b]\nfloor = 2\n[queues.a.c]\nfloor = 3',
        "the floors below queue 'a' add up to 5 but its ceiling is 4: lower some of them",
    ),
    "floors above all slots": (
        'default = "a"\n[queues.a]\nfloor = "60 %"\n[queues.b]\nfloor = "40.5 %"',
        "the floors of the queues add up to 100.5 % but all slots are 100 %: lower some of them",
    ),
    "preemption for no floor": (
        'default = "a"\npreemption = {mode = "on"}\n[queues.a]',
        "preemption is given but no queue has a floor: add floors, or leave it out",
    ),
    "unknown mode of preemption": (
        'default = "a"\npreemption = {mode = "yes"}\n[queues.a]\nfloor = 1',
        "preemption.mode is 'yes' but must be one of off, observe, on",
    ),
    "threshold above the floor": (
        'default = "a"\npreemption = {threshold = 1.5}\n[queues.a]\nfloor = 1',
        "preemption.threshold is 1.5 but must be a number above 0, 1 at most",
    ),
    "time-out without a unit": (
        'default = "a"\npreemption = {timeout = 30}\n[queues.a]\nfloor = 1',
        "preemption.timeout is 30 but must be a time in quotes",
    ),
    "unknown key of preemption": (
        'default = "a"\npreemption = {timout = "30s"}\n[queues.a]\nfloor = 1',
        "preemption has the unknown key 'timout' (did you mean 'timeout'?)",
    ),
    "weight of nothing": (
        'default = "a"\n[queues.a]\nweight = 0',
        "queue 'a' has weight 0 but it must be a number from 0.001 to 1,000,000",
    ),
    "waiting jobs that never wait": (
        'default = "a"\n[queues.a]\nmax_waiting_jobs = 3',
        "queue 'a' has max_waiting_jobs 3 but no max_running_jobs",
    ),
    "timeout without a unit": (
        'default = "a"\n[queues.a]\nmax_running_jobs = 1\nwait_timeout = 30',
        "queue 'a' has wait_timeout 30 but it must be a time in quotes",
    ),
    "users that are one text": (
        'default = "b"\n[queues.a]\nusers = "ann"\n[queues.b]',
        "queue 'a' has users 'ann' but it must be a list",
    ),
    "name with a dot": ('default = "a.b"\n[queues."a.b"]', "queue 'a.b' has the name 'a.b' but it must be"),
    "rule without a queue": ('default = "a"\n[queues.a]\n[[rules]]\nuser = "x"', "rules[0] has no queue"),
    "rule of an unknown queue": (
        'default = "a"\n[queues.a]\n[[rules]]\nqueue = "b"\nuser = "x"',
        "rules[0].queue is 'b' but must be one of the queues a",
    ),
    "unknown key of a rule": (
        'default = "a"\n[queues.a]\n[[rules]]\nqueue = "a"\nusr = "x"',
        "rules[0] has the unknown key 'usr' (did you mean 'user'?)",
    ),
    "rule that hides others": (
        'default = "a"\n[queues.a]\n[[rules]]\nqueue = "a"\n[[rules]]\nqueue = "a"\nuser = "x"',
        "rules[0] has no condition, so that the rules after it never apply",
    ),
    "no TOML": ("queues", "is not a TOML file"),
}


@pytest.mark.parametrize(("text", "said"), FAULTS.values(), ids=list(FAULTS))
def test_a_fault_is_one_sentence_that_names_file_queue_key_and_value(
    tmp_path: Path, text: str, said: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInputError) as error:
        read_queues(path)
    assert str(path) in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["conf/queues.toml", "{", "[]", '{"queues":[{}]}', '{"queues":{}}'])
def test_a_setting_that_conf_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="spark-sched conf --queues FILE"):
        validate({keys.QUEUES.name: text})


def test_a_change_of_one_queue_is_checked_as_the_file_is() -> None:
    document = json.loads(read_queues(EXAMPLE).to_json())
    changed = with_change(document, "etl.hourly", {"held_ceiling": None, "max_running_jobs": 7})
    assert (changed["etl.hourly"].held_ceiling, changed["etl.hourly"].max_running_jobs) == (None, 7)
    assert (
        replace(changed["etl.hourly"], held_ceiling=Amount(2), max_running_jobs=None)
        == read_queues(EXAMPLE)["etl.hourly"]
    )
    assert changed.rules == read_queues(EXAMPLE).rules
    with pytest.raises(
        BadInputError, match=r"the change: queue 'etl\.hourly' has ceiling 90 % but its ancestor"
    ):
        with_change(document, "etl.hourly", {"ceiling": "90 %"})
    with pytest.raises(BadInputError, match=r"queue is 'etl\.hourli' \(did you mean 'etl\.hourly'\?\)"):
        with_change(document, "etl.hourli", {})


def test_a_driver_is_given_the_setting_or_the_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert queue_check.main(str(EXAMPLE)) == 0
    assert json.loads(capsys.readouterr().out) == {"queues": read_queues(EXAMPLE).to_json()}
    assert queue_check.main(str(written(tmp_path, "default = 1"))) == 0
    assert "queues is missing" in json.loads(capsys.readouterr().out)["error"]
    assert queue_check.main(str(written(tmp_path, "# nothing yet"))) == 0
    assert json.loads(capsys.readouterr().out) == {"queues": ""}


def test_groups_cross_as_one_line_and_close_a_queue() -> None:
    line = (
        '{"default":"rest","queues":[{"queue":"bi","groups":["bi-*"]},{"queue":"rest"}],'
        '"rules":[{"queue":"bi","group":"bi-*","name":"x*"}]}'
    )
    tree = parse_queues(line)
    assert tree is not None
    assert tree.to_json() == line
    assert tree.place("ann", "x1", groups={"staff", "bi-eu"}) == "bi"
    assert [tree.place("ann", "x1", groups={"staff"}), tree.place("ann", "y", groups={"bi-eu"})] == [
        "rest"
    ] * 2
    with pytest.raises(BadInputError, match=r"default is 'bi' but queue 'bi' has groups, so that jobs"):
        parse_queues('{"default":"bi","queues":[{"queue":"bi","groups":["a"]}]}')
