"""Spark's history server shows the event log of a stranger: what it says is text, and has a length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from spark_sched import attach
from spark_sched.plain_text import plain, short
from tests.integration.history import HistoryServer, history_server
from tests.integration.scenarios import wait_until
from tests.properties.test_hostile_names import NAMES, PARTS, Structure

pytestmark = pytest.mark.integration

#: A link to the story of a job: whatever its key is, it stays in the one value of the one parameter.
STORY = re.compile(r"/history/hostile/scheduling/job/\?name=[\w.*+%-]*")
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
EXTREMES = (-(2**63), -1, 0, 2**63 - 1)
#: Of a page of the tab.
ROWS = 50
LONG = "<pwn>" * 400_000
#: Spark itself shows nothing of a log in which the name of a JSON field has more than 50,000 characters.
MOST_FIELD = 40_000
#: Spark's list of applications has none from before 2010.
STARTED_MS = 1_700_000_000_000


def drawn() -> list[str]:
    """Hostile names, the same ones each time."""
    found: list[str] = ["".join(PARTS), *PARTS]

    @settings(
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(NAMES)
    def draw(name: str) -> None:
        found.append(name)

    draw()
    return list(dict.fromkeys(name for name in found if name))


HOSTILE = drawn()


def job(name: str, at_ms: Any = 1000) -> dict[str, Any]:
    return {
        "job": name,
        "name": name,
        "user": name,
        "class": name,
        "queue_name": name,
        "priority": name,
        "outcome": name,
        "submitted_ms": at_ms,
        "begun_ms": at_ms,
        "ended_ms": at_ms,
        "deadline_ms": at_ms,
        "slot_ms": {"run": at_ms, name: at_ms},
        "story": [{"at_ms": at_ms, "text": f"stage 0.0 of 1 tasks is ready: {name}"}],
    }


def entries(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names:
        yield "job", job(name)
        yield "change", {"by": name, "what": name, "job": name}
        yield "plan", {"plan": {"number": name, "policy": name}, "planner": {"alive": True, "restarts": name}}
        yield f"kind {name}", job(name)
    last = names[0]
    yield (
        "end",
        {
            "application": {"slots": last, "executors": last, "scheduling": False},
            "planner": {"restarts": last, "plans_accepted": last},
            "plan": {"number": last, "policy": last},
            "left_out": {"jobs": 1},
            "classes": [{"class": name, "jobs_ended": name, "slot_ms": {"run": 1}} for name in names],
            "queues": [
                {"queue": name, "floor_slots": name, "weight": name, "sums": job(name)} for name in names
            ],
            "counters": dict.fromkeys(names, 1),
        },
    )


def write(folder: Path, app: str, logged: list[tuple[str, Any, Any]]) -> None:
    """An event log of nothing but these entries: kind, time and body."""
    ours = "org.apache.spark.scheduler.sparksched.SchedulingEvent"
    events = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": "app",
            "App ID": app,
            "Timestamp": STARTED_MS,
            "User": "ada",
        },
        *({"Event": ours, "schema": 1, "kind": k, "timeMs": at, "body": body} for k, at, body in logged),
        {"Event": "SparkListenerApplicationEnd", "Timestamp": STARTED_MS + 9000},
    ]
    # The server finds an application by the first bytes of a line, which has no spaces.
    lines = (json.dumps(event, separators=(",", ":")) + "\n" for event in events)
    (folder / app).write_text("".join(lines))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryServer]:
    folder = tmp_path_factory.mktemp("logs")
    for app, names in {"hostile": HOSTILE, "harmless": ["plain", "also plain"]}.items():
        write(folder, app, [(kind, 2000, body) for kind, body in entries(names)])
    # Wrong in size, in number or in type.
    huge = job(LONG)
    huge["slot_ms"] = {"run": 1, LONG[:MOST_FIELD]: 1}
    huge["story"] = [{"at_ms": 1, "text": LONG}, *({"at_ms": n, "text": f"news {n}"} for n in range(5000))]
    classes = [{"class": f"c{n}"} for n in range(5000)]
    queues = [
        {"queue": LONG[:MOST_FIELD], "sums": "none", "weight": 1e308},
        *({"queue": f"q{n}"} for n in range(5000)),
    ]
    counters = {LONG[:MOST_FIELD]: 1, **{f"counter {n}": n for n in range(5000)}}
    odd: list[tuple[str, Any, Any]] = [("job", at, job(f"at {at}", at)) for at in EXTREMES]
    odd += [
        ("job", 5, {"name": value, "job": value, "story": value}) for value in (None, 1e308, [], {}, True)
    ]
    odd += [("job", 5, {}), ("job", 5, None), ("job", 5, [1]), (None, 5, {}), ("plan", 5, {"plan": []})]
    odd += [
        ("job", 5, huge),
        ("change", 5, {"by": LONG, "what": LONG}),
        ("plan", 5, {"plan": {"policy": LONG}}),
    ]
    last = {"classes": classes, "queues": queues, "counters": counters, "application": LONG}
    odd += [("end", -(2**63), last)]
    write(folder, "odd", odd)
    with history_server(folder, attach.build().as_posix()) as found:

        def listed() -> bool:
            every = found.get("/api/v1/applications")
            return all(f'"{app}"' in every for app in ("hostile", "harmless", "odd"))

        wait_until(listed, "the server was to find all logs")
        yield found


def check(page: str, like: str) -> None:
    found, known = Structure(page), Structure(like)
    # Links to other pages, and what was chosen in a list.
    allowed = {("a", ("href",)), ("p", ()), ("option", ("selected",))}
    assert found.elements <= known.elements | allowed
    assert not [name for _, names in found.elements for name in names if name.startswith("on")]
    assert [value for value in found.values if "pwn" in value and not STORY.fullmatch(value)] == []
    assert [text for text in found.others if "pwn" in text] == []
    assert HIDDEN.search(page) is None
    assert all(HIDDEN.search(value) is None for value in found.values)


def test_no_element_and_no_attribute_of_the_jobs_page_comes_from_a_log(server):
    numbers = range(1, len(HOSTILE) // ROWS + 2)
    pages = [server.get(f"/history/hostile/scheduling/?page={n}&plans={n}&changes={n}") for n in numbers]
    harmless = server.get("/history/harmless/scheduling/")
    for page in pages:
        check(page, harmless)
    cells = {cell for page in pages for cell in Cells(page).cells}
    for name in HOSTILE:
        assert words(plain(short(name))) in cells
    # Only the known kinds of entries are there: each name once as a job.
    assert sum(page.count("/scheduling/job/?name=") for page in pages) == len(HOSTILE)


@pytest.mark.parametrize("name", ["".join(PARTS), *HOSTILE[len(PARTS) + 1 :: 10]])
def test_no_element_and_no_attribute_of_a_story_comes_from_a_log(server, name):
    key = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # what a URL can say
    page = server.get(f"/history/hostile/scheduling/job/?name={quote_plus(key)}")
    known = "plain" if key == name else "not there"
    check(page, server.get(f"/history/harmless/scheduling/job/?name={quote_plus(known)}"))
    if key == name:
        assert words(plain(f"stage 0.0 of 1 tasks is ready: {name}")) in Cells(page).cells


def test_what_is_wrong_in_size_number_or_type_breaks_no_page_and_fills_none(server):
    page = server.get("/history/odd/scheduling/")
    cells = Cells(page).cells
    assert {f"at {at}" for at in EXTREMES} <= set(cells)
    assert max(map(len, cells)) < 1000
    assert len(page) < 2_000_000
    assert {"q10", "counter 10"} <= set(cells)
    assert "q4999" not in cells
    assert "counter 4999" not in cells
    for at in EXTREMES:
        assert "stage 0.0 of 1 tasks" in server.get(f"/history/odd/scheduling/job/?name=at+{at}")


def test_a_key_that_no_link_can_hold_is_shown_without_one(server):
    _, *rows = server.get("/history/odd/scheduling/").split("<tr")
    rows = [row for row in rows if "&lt;pwn&gt;" in row]
    assert rows
    assert not [row for row in rows if "<a " in row]


class Cells(HTMLParser):
    """The text of each cell of a page's tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "td":
            self.cells.append("")
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self.cells[-1] = words(self.cells[-1])
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.cells[-1] += data


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
