"""Marks of a job: checked, set for the thread, and put back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_sched.api.job import job, job_marks
from spark_sched.config import keys
from spark_sched.errors import BadInputError, SparkSchedWarning
from spark_sched.plain_text import bounded


class StockContext:
    """What `job` uses of a SparkContext whose JVM has no bridge."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.master = "local[2]"
        self._jsc = object()
        self._jvm = _AnyPackage()

    def setLocalProperty(self, key, value):
        if value is None:
            self.properties.pop(key, None)
        else:
            self.properties[key] = value

    def getLocalProperty(self, key):
        return self.properties.get(key)


class _AnyPackage:
    def __getattr__(self, name):
        return self


class ConnectSession:
    """What `job` uses of a Spark Connect session."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.tags = {"mine"}
        self.statements = []

    def sql(self, text):
        self.statements.append((text, set(self.tags)))

    def addTag(self, tag):
        self.tags.add(tag)

    def removeTag(self, tag):
        self.tags.discard(tag)

    def getTags(self):
        return set(self.tags)


def _marks(**given):
    return job_marks("etl", job_id="j1", now_ms=1_000_000, **given)


def test_only_what_was_said_is_marked():
    assert _marks() == {
        "spark.sched.job.id": "j1",
        "spark.sched.job.name": "etl",
        "spark.sched.job.priority": "0",
    }
    assert _marks(copies="auto")["spark.sched.job.copies"] == "auto"


def test_long_texts_are_shortened_with_a_warning():
    with pytest.warns(SparkSchedWarning) as warned:
        marks = _marks(user="u" * 1000, job_class="c" * 1000)
    assert marks["spark.sched.job.user"] == bounded("u" * 1000)
    assert len(marks["spark.sched.job.class"]) == 256
    assert [str(each.message)[:55] for each in warned] == [
        "user has 1,000 characters but at most 256 count: it is ",
        "job_class has 1,000 characters but at most 256 count: i",
    ]


def test_a_name_must_be_text():
    with pytest.raises(BadInputError, match="name is None but must be text that is not empty"):
        job_marks(None, job_id="j1", now_ms=0)  # type: ignore[arg-type]


_LATER = datetime.fromtimestamp(1_900, UTC)


@pytest.mark.parametrize(
    "deadline", ["15 min", "15 minutes", "0h15m", timedelta(minutes=15), 900, 900.0], ids=repr
)
def test_a_length_of_time_is_sent_as_one_for_the_driver_knows_when_the_job_starts(deadline):
    assert _marks(deadline=deadline)[keys.JOB_DEADLINE.name] == "900000ms"


@pytest.mark.parametrize("deadline", [_LATER, _LATER.isoformat(), "1970-01-01T00:31:40Z"], ids=repr)
def test_a_moment_is_sent_in_epoch_milliseconds(deadline):
    assert _marks(deadline=deadline)[keys.JOB_DEADLINE.name] == "1900000"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param({"priority": 1.5}, "priority is 1.5 but must be a whole number", id="half a priority"),
        pytest.param(
            {"priority": True}, "priority is True but must be a whole number", id="a boolean priority"
        ),
        pytest.param({"isolation": 90}, "isolation is 90 but must be a number from 0 to 1", id="per cent"),
        pytest.param({"deadline": "15"}, "deadline is '15' but must be a time from now", id="no unit"),
        pytest.param(
            {"deadline": "1970-01-01T00:00:00Z"},
            "deadline is '1970-01-01T00:00:00Z', which is past: give a time from now",
            id="a moment that is over",
        ),
        pytest.param(
            {"deadline": 1795740000000},
            "deadline is 1795740000000, which is more than 10 years ahead; a number counts seconds from now",
            id="milliseconds since 1970",
        ),
        pytest.param({"deadline": "4000d"}, "'4000d', which is more than 10 years ahead: give", id="too far"),
        pytest.param({"deadline": "soon"}, "deadline is 'soon' but must be a time from now", id="no time"),
        pytest.param({"deadline": 0}, "deadline is 0 but must be a time from now above 0", id="no time left"),
        pytest.param({"deadline": float("nan")}, "deadline is nan but must be", id="no number"),
        pytest.param({"deadline": True}, "deadline is True but must be", id="a boolean deadline"),
        pytest.param(
            {"copies": "none"}, "copies is 'none' but must be one of auto, never", id="a wrong word"
        ),
        pytest.param({"user": " "}, "user is ' ' but must be text that is not empty", id="a blank user"),
        pytest.param({"job_class": ""}, "job_class is '' but must be text", id="no class, said so"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(given, sentence):
    with pytest.raises(BadInputError) as refused:
        _marks(**given)
    assert sentence in str(refused.value)


def test_a_job_needs_a_name():
    with pytest.raises(BadInputError, match="name is '' but must be text that is not empty"):
        job_marks("", job_id="j1", now_ms=0)


@pytest.mark.filterwarnings("ignore::spark_sched.errors.SparkSchedWarning")
def test_the_inner_of_two_blocks_wins_and_the_outer_marks_come_back():
    context = StockContext()
    context.setLocalProperty("spark.sched.job.user", "from before")
    with job(context, "outer", priority=5, isolation=0.5):
        outer = dict(context.properties)
        with job(context, "inner", user="me"):
            assert context.properties["spark.sched.job.name"] == "inner"
            assert context.properties["spark.sched.job.priority"] == "0"
            assert "spark.sched.job.isolation" not in context.properties
        assert context.properties == outer
        assert "spark.sched.job.user" not in outer
    assert context.properties == {"spark.sched.job.user": "from before"}


def shown(context):
    """What Spark's own pages show: description, job group, tags."""
    return tuple(
        map(context.getLocalProperty, ("spark.job.description", "spark.jobGroup.id", "spark.job.tags"))
    )


@pytest.mark.filterwarnings("ignore::spark_sched.errors.SparkSchedWarning")
def test_sparks_pages_show_the_name_where_the_program_shows_nothing_itself():
    context = StockContext()
    context.setLocalProperty("spark.jobGroup.id", "the program's")
    context.setLocalProperty("spark.job.tags", "mine")
    before = dict(context.properties)
    with job(context, "outer"):
        assert shown(context) == ("outer", "the program's", "mine,sched-job:outer")
        with job(context, "a, b"):
            assert shown(context) == ("a, b", "the program's", "mine,sched-job:a_ b")
        assert shown(context) == ("outer", "the program's", "mine,sched-job:outer")
        with job(context, "outer"):
            context.setLocalProperty("spark.job.description", "of the block")
            context.setLocalProperty("spark.job.tags", "mine,sched-job:outer,more")
        assert shown(context) == ("of the block", "the program's", "mine,more,sched-job:outer")
        context.setLocalProperty("spark.job.tags", "mine,sched-job:outer")
        context.setLocalProperty("spark.job.description", "outer")
    assert context.properties == before


@pytest.mark.filterwarnings("ignore::spark_sched.errors.SparkSchedWarning")
def test_marks_come_back_after_an_exception_too():
    context = StockContext()

    def fail():
        with job(context, "a", priority=5):
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        fail()
    assert context.properties == {}


def test_stock_spark_is_told_once_that_marks_do_nothing():
    context = StockContext()
    with pytest.warns(SparkSchedWarning, match="with the properties of `spark-sched conf`") as warned:
        for _ in range(3):
            with job(context, "a"):
                pass
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_each_block_is_a_job_of_its_own():
    session = ConnectSession()
    ids = []
    for _ in range(2):
        with job(session, "a") as job_id:
            ids.append(job_id)
    assert len(set(ids)) == 2


def test_a_connect_session_carries_marks_as_tags_and_keeps_its_own():
    session = ConnectSession()
    with job(session, "outer", priority=10) as outer_id:
        outer = {"sched:name=outer", "sched:priority=10", f"sched:id={outer_id}", "sched-job:outer"}
        assert session.tags == {"mine"} | outer
        with job(session, "inner"):
            assert "sched:name=outer" not in session.tags
            assert "sched:priority=0" in session.tags
        assert session.tags == {"mine"} | outer
    assert session.tags == {"mine"}


def test_a_length_of_time_travels_in_a_tag():
    session = ConnectSession()
    with job(session, "a", deadline="1h30m"):
        assert "sched:deadline=5400000ms" in session.tags


def test_the_end_of_a_connect_block_runs_a_statement_whose_tag_says_so():
    session = ConnectSession()
    with job(session, "a") as job_id:
        assert session.statements == []
    assert session.statements == [("SET spark.sched.job.id", {"mine", f"sched:ended={job_id}"})]
    session.sql = None  # it was stopped
    with job(session, "a"):
        pass
    assert session.tags == {"mine"}


def test_a_comma_cannot_travel_in_a_tag():
    session = ConnectSession()
    with pytest.raises(BadInputError, match="has a comma"), job(session, "a,b"):
        pass
    assert session.tags == {"mine"}


def test_something_that_is_no_session_is_refused():
    with pytest.raises(BadInputError, match="must be a SparkSession or SparkContext"), job("spark", "a"):
        pass
