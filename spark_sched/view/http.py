"""Reads the status document from an application's Spark UI, and sends changes to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from spark_sched.errors import BadInputError
from spark_sched.plain_text import plain
from spark_sched.view.status import JobStatus, Status

_API = "/sched/api/v1"
#: Header that every change must have: a page of another site cannot make a browser send it.
_CHANGES = "X-Spark-Sched"
_EXAMPLE = "http://localhost:4040"
_TIMEOUT_S = 10.0
#: Exceptions of a call without a usable answer. An HTTPException is neither an OSError nor a URLError.
_NO_ANSWER = (URLError, OSError, ValueError, HTTPException)
#: Pages of the UI that a user may have copied the address of.
_PAGES = (
    "jobs",
    "stages",
    "storage",
    "environment",
    "executors",
    "SQL",
    "connect",
    "StreamingQuery",
    "streaming",
    "scheduling",
)


def ui_address(url: str) -> str:
    """The UI's own address from what a user gives: a page of it, or host and port.

    Raises BadInputError if it is not an address.
    """
    text = url.strip()
    if any(char.isspace() or not char.isprintable() for char in text):
        # `urlsplit` would silently remove some of them.
        raise BadInputError(
            f"URL is {url!r} but must not contain blanks or control characters: give an address such as "
            f"{_EXAMPLE}"
        )
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise BadInputError(
            f"URL is {url!r} but must be the address of a running application's UI such as {_EXAMPLE}"
        )
    path = parts.path.rstrip("/")
    for page in _PAGES:
        base, found, rest = path.rpartition(f"/{page}")
        if found and (not rest or rest.startswith("/")):
            path = base
            break
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def fetch_document(url: str, job: str | None = None) -> Any:
    """The parsed status document of the application with this UI, or of its job with this key, or else of its
    jobs with this id or name.

    Raises BadInputError if the URL does not answer, is not the UI of an attached application, or the job is
    unknown.
    """
    base = ui_address(url)
    if job is None:
        return _document(base, "/status")
    found = _document(base, f"/jobs?name={quote(job, safe='')}")
    if not found.get("jobs"):
        raise fetch_status(base).unknown_job(job)
    return found


def fetch_status(url: str) -> Status:
    """The status of the application with this UI. Raises BadInputError as `fetch_document`."""
    return Status.from_json(fetch_document(url))


def fetch_jobs(url: str, job: str) -> tuple[JobStatus, ...]:
    """The job of this key, or else the jobs of this id or name, with their stories, the newest last; at least
    one.

    Raises BadInputError as `fetch_document`.
    """
    return Status.from_json(fetch_document(url, job)).jobs


def fetch_queues(url: str) -> Any:
    """The parsed document of the tenants' queues that are in force: ``tree`` as in the setting, None where
    the application has no queues; the ``version`` that a change of it names, and whose last change it was
    (``from``, ``since_ms``).

    Raises BadInputError as `fetch_document`.
    """
    # A driver of an earlier version has no more than the tree where it has no queues.
    return {"version": 0, "from": "", "since_ms": 0, "warnings": [], **_document(ui_address(url), "/queues")}


def send_change(url: str, action: str, given: Mapping[str, Any]) -> str:
    """Do ``action``, ``hold`` for example, with the arguments ``given``. Returns what was changed, in one
    sentence.

    Raises BadInputError as `fetch_document`, or with the driver's message if the driver refuses.
    """
    base = ui_address(url)
    body = json.dumps(dict(given)).encode()
    try:
        status, said = _get(f"{base}{_API}/steer/{action}", body)
    except _NO_ANSWER as error:
        raise _no_answer(base, error) from None
    answer = _parsed(said)
    if isinstance(answer, dict) and "done" in answer:
        return plain(str(answer["done"]))
    if isinstance(answer, dict) and "code" in answer and "error" in answer:
        raise BadInputError(str(answer["error"]))
    _document(base, "/status")  # This raises the error that says what is wrong with the address.
    raise BadInputError(
        f"URL is {base!r} but its UI refuses changes (status {status}): ask to be added to "
        "spark.modify.acls, or use the application's version of spark-sched"
    )


def _no_answer(base: str, error: Exception) -> BadInputError:
    if isinstance(error, HTTPException):
        return BadInputError(
            f"URL is {base!r} but the answer is not HTTP or is incomplete "
            f"({type(error).__name__}): give the address of a running application's UI such as {_EXAMPLE}"
        )
    why = getattr(error, "reason", None) or error
    return BadInputError(
        f"URL is {base!r} but nothing answers there ({why}): give the address of a running application's "
        f"UI such as {_EXAMPLE}"
    )


def _document(base: str, path: str) -> Any:
    """The parsed answer; a 404 may have a document, too."""
    try:
        status, body = _get(base + _API + path)
    except _NO_ANSWER as error:
        raise _no_answer(base, error) from None
    document = _parsed(body)
    if status == 403 and isinstance(document, dict) and "code" in document and "error" in document:
        raise BadInputError(f"URL is {base!r} but the driver refuses: {document['error']}")
    if status in (401, 403):
        raise BadInputError(
            f"URL is {base!r} but its UI denies access (status {status}): ask to be added to "
            "spark.ui.view.acls of the application"
        )
    if isinstance(document, dict) and "schema" in document:
        return document
    if _is_spark(base):
        raise BadInputError(
            f"URL is {base!r}, the UI of an application that runs without spark_sched: attach the scheduler "
            "with `spark-sched submit` or `spark-sched conf`"
        )
    raise BadInputError(
        f"URL is {base!r} but no Spark application's UI answers there: give an address such as {_EXAMPLE}"
    )


def _is_spark(base: str) -> bool:
    """Whether a Spark application's UI answers there: whether Spark's own REST calls work."""
    try:
        _, body = _get(base + "/api/v1/version")
    except _NO_ANSWER:
        return False
    found = _parsed(body)
    return isinstance(found, dict) and "spark" in found


def _get(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and body; with a body of its own the request is a POST that changes something."""
    headers = {"Accept": "application/json"}
    if body is not None:
        headers |= {"Content-Type": "application/json", _CHANGES: "1"}
    request = Request(url, data=body, headers=headers)
    try:
        # The planner checks a policy's name before the driver answers.
        with urlopen(request, timeout=_TIMEOUT_S if body is None else 2 * _TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
