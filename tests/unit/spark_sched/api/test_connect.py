"""What a client of Spark Connect asks for, and what it hears if it gets no document."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import spark_sched
from spark_sched.errors import BadInputError


class Session:
    """What the status uses of a Spark Connect session, whose server answers every query alike."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def sql(self, *query):
        self.asked.append(query)
        return self

    def collect(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return [(self.answer,)]


class Refused(IllegalArgumentException):
    """As the client makes it of a server that shows its stack traces."""

    def getMessage(self):
        return "user eve may not see it\n\nJVM stacktrace:\njava.lang.IllegalArgumentException: user eve"


@pytest.mark.parametrize("ask", [spark_sched.status, lambda spark: spark_sched.explain(spark, "nightly")])
def test_each_error_of_a_server_becomes_one_sentence(ask):
    with pytest.raises(BadInputError) as said:
        ask(Session(Refused("")))
    assert str(said.value) == "the Spark Connect server refuses the status: user eve may not see it"

    unknown = AnalysisException("could not resolve", errorClass="UNRESOLVABLE_TABLE_VALUED_FUNCTION")
    with pytest.raises(BadInputError, match="a Spark Connect server that runs without spark_sched"):
        ask(Session(unknown))

    other = AnalysisException("no such table", errorClass="TABLE_OR_VIEW_NOT_FOUND")
    with pytest.raises(AnalysisException, match="no such table"):
        ask(Session(other))


def test_a_job_s_name_is_a_parameter_of_the_query_and_not_a_part_of_its_text():
    session = Session("{}")
    with pytest.raises(BadInputError, match="schema is None"):
        spark_sched.explain(session, "a'); DROP TABLE b; --")
    assert session.asked == [("SELECT * FROM spark_sched_explain(:job)", {"job": "a'); DROP TABLE b; --"})]
