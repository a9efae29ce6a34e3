"""The status document of a live application, read and printed for people."""

# A status prints itself by these, and cannot import them: they import it.
from spark_sched.view import html as _html  # noqa: F401
from spark_sched.view import text as _text  # noqa: F401
