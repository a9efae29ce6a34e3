"""Settings: what is valid is read with its unit, what is not is one sentence."""

from __future__ import annotations

import re

import pytest

from spark_sched.config import ALL, JOB_PREFIX, PREFIX, keys, validate
from spark_sched.errors import BadInputError


def test_defaults_are_read_when_nothing_is_given():
    settings = validate({})
    assert settings[keys.RESERVATION_ENABLED] is True
    assert settings[keys.RESERVATION_ISOLATION] == 1.0
    assert settings[keys.RESERVATION_MAX_HOLD] == 600_000
    assert settings[keys.EVENTS_QUEUE_CAPACITY] == 10_000
    assert settings[keys.HISTORY_PATH] == ""


@pytest.mark.parametrize("key", [key for key in ALL if key.kind == "application"], ids=lambda key: key.name)
def test_every_default_passes_its_own_check(key):
    validate({key.name: key.default})


def test_given_values_win_over_defaults_and_foreign_keys_are_ignored():
    settings = validate({"spark.sched.reservation.gap": " 2s ", "spark.foo": "x", "spark.schedulers": "y"})
    assert settings[keys.RESERVATION_GAP] == 2_000


def test_an_absent_job_mark_has_no_value():
    with pytest.raises(KeyError):
        validate({})[keys.JOB_PRIORITY]
    assert validate({"spark.sched.job.priority": "-3"})[keys.JOB_PRIORITY] == -3


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        pytest.param("reservation.gap", "10", "must be a time such as", id="a time without its unit"),
        pytest.param("reservation.gap", "1.5s", "must be a time such as", id="a fraction of a unit"),
        pytest.param("reservation.gap", "10 parsecs", "must be a time such as", id="a unit that is none"),
        pytest.param("reservation.gap", "-1s", "must be a time such as", id="a negative time"),
        pytest.param("reservation.gap", "99999999999999d", "must be a time such as", id="an endless time"),
        pytest.param("reservation.isolation", "1.01", "a number from 0 to 1", id="a number above its range"),
        pytest.param("reservation.isolation", "nan", "a number from 0 to 1", id="not a number"),
        pytest.param(
            "reservation.isolation", "", "a number from 0 to 1", id="nothing where a number belongs"
        ),
        pytest.param("reservation.alpha", "1", "a number from 1.01 to 100", id="a shape without a mean"),
        pytest.param("ui.hosts", "http://gateway", "without a scheme or port", id="an address as host"),
        pytest.param("ui.hosts", "gateway:80", "without a scheme or port", id="a host with a port"),
        pytest.param("limits.jobsPerUser", "0", "a whole number from 1 to 10000", id="no job at all"),
        pytest.param("reservation.minPriority", "1.0", "a whole number", id="a fraction as priority"),
        pytest.param("reservation.minPriority", "3000000000", "a whole number", id="more than the JVM's int"),
        pytest.param("events.queueCapacity", "1_000", "a whole number from 16", id="Python's own digits"),
        pytest.param("copies.enabled", "yes", "must be true or false", id="a word that is no boolean"),
        pytest.param(
            "reservation.lookahead", "stages", "(did you mean 'stage'?)", id="a slip in a choice has a hint"
        ),
        pytest.param("planner.python", "", "must be not empty", id="no planner's Python"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_key_and_value(name, text, sentence):
    with pytest.raises(BadInputError) as refused:
        validate({PREFIX + name: text})
    message = str(refused.value)
    assert message.startswith(f"{PREFIX}{name} is {text!r} but ")
    assert sentence in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("reservation.isolatoin", "reservation.isolation", id="swapped letters"),
        pytest.param("reservation.maxhold", "reservation.maxHold", id="another case"),
        pytest.param("maxHold", "reservation.maxHold", id="the group left out"),
        pytest.param("reservation.queueCapacity", "events.queueCapacity", id="the wrong group"),
        pytest.param("job.prioritty", "job.priority", id="a job's mark"),
    ],
)
def test_an_unknown_key_says_which_one_was_meant(name, meant):
    with pytest.raises(BadInputError) as refused:
        validate({PREFIX + name: "1"})
    assert f"unknown setting {PREFIX}{name} (did you mean '{PREFIX}{meant}'?)" in str(refused.value)


def test_an_unknown_key_like_no_other_gets_no_guess():
    with pytest.raises(
        BadInputError, match="unknown setting spark.sched.zzz: docs/reference/configuration.md lists all"
    ):
        validate({"spark.sched.zzz": "1"})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://sched:hunter2@db/runs",
        "postgresql://sched@db/runs?password=hunter2",
        "postgresql://sched@db/runs?connect_timeout=3&sslpassword=hunter2",
    ],
)
def test_a_password_in_the_historys_url_is_refused_and_not_shown(url):
    with pytest.raises(BadInputError) as refused:
        validate({"spark.sched.history.path": url})
    assert "spark.sched.history.path is a URL with a password" in str(refused.value)
    assert "set spark.sched.history.password" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("where", ["postgresql://sched@db:5432/runs", "/var/lib/a:b@c/history.sqlite", ""])
def test_a_history_without_a_password_in_its_place_is_taken(where):
    assert validate({"spark.sched.history.path": where})[keys.HISTORY_PATH] == where


def test_the_passwords_key_is_one_that_spark_redacts():
    assert re.search(r"(?i)secret|password|token|access[.]?key", keys.HISTORY_PASSWORD.name)


def test_the_marks_that_count_are_some_of_those_that_there_are():
    assert validate({"spark.sched.limits.marks": " name, priority "})[keys.LIMITS_MARKS] == (
        "name",
        "priority",
    )
    assert validate({"spark.sched.limits.marks": ""})[keys.LIMITS_MARKS] == ()
    marks = {key.name.removeprefix(JOB_PREFIX) for key in ALL if key.kind == "job"}
    assert set(validate({})[keys.LIMITS_MARKS]) == marks
    with pytest.raises(BadInputError, match="must be any of id, name, .* separated by commas"):
        validate({"spark.sched.limits.marks": "name,colour"})
