"""The status document over Spark Connect, from the table functions that the bridge adds to SQL."""

from __future__ import annotations

from typing import Any

from spark_sched.errors import BadInputError

_NO_FUNCTION = "UNRESOLVABLE_TABLE_VALUED_FUNCTION"


def fetch_document(session: Any, job: str | None = None) -> str:
    """The document of all jobs that are not over, or of those of this key, id or name with their stories.

    Raises:
        BadInputError: the server's application is not attached, or the session's user may not see it.
    """
    from pyspark.errors import AnalysisException, IllegalArgumentException

    try:
        if job is None:
            found = session.sql("SELECT * FROM spark_sched_status()")
        else:
            found = session.sql("SELECT * FROM spark_sched_explain(:job)", {"job": job})
        (row,) = found.collect()
    except AnalysisException as error:
        # Spark 3.5 has the older name only.
        if getattr(error, "getCondition", error.getErrorClass)() != _NO_FUNCTION:
            raise
        raise BadInputError(
            "spark is a session of a Spark Connect server that runs without spark_sched, or with an older "
            "one: start the server with the properties of `spark-sched conf`"
        ) from None
    except IllegalArgumentException as error:
        # A server may add its stack trace.
        sentence = error.getMessage().partition("\n\nJVM stacktrace:")[0]
        raise BadInputError(f"the Spark Connect server refuses the status: {sentence}") from None
    document: str = row[0]
    return document
