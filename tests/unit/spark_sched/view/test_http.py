"""Reading the document from a UI, and what is said where there is none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched.view.http import fetch_jobs, fetch_status, ui_address

EXAMPLES = Path(__file__).parents[4] / "protocol" / "examples"
STATUS = (EXAMPLES / "status.json").read_text()
STORY = (EXAMPLES / "status.job.json").read_text()
NO_JOBS = json.dumps(json.loads(STATUS) | {"jobs": []})
API = "/sched/api/v1"
ATTACHED = {
    f"{API}/status": (200, STATUS),
    f"{API}/jobs?name=nightly-report": (200, STORY),
    f"{API}/jobs?name=nightly%2Freport%20%C3%A9": (200, STORY),
}
#: An application's UI leads unknown paths to its first page.
STOCK = {"/api/v1/version": (200, '{"spark" : "4.3.0"}'), "*": (200, "<html>Spark Jobs</html>")}


class _Site:
    """A UI with fixed answers: status and body by path, ``*`` for all others."""

    def __init__(self) -> None:
        self.answers: Mapping[str, tuple[int, str]] = {}
        self.posted: list[tuple[str, dict[str, str], bytes]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = site.answers.get(self.path, site.answers.get("*", (404, "Not Found")))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def do_POST(self) -> None:
                site.posted.append(
                    (self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
                )
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site() -> Iterator[_Site]:
    found = _Site()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def test_the_drivers_sentence_about_the_host_is_shown(site):
    sentence = "the request's host is 'gateway', which is not known: add it to spark.sched.ui.hosts\x1b[31m"
    body = json.dumps({"error": sentence, "code": "not_allowed"})
    site.answers = {"*": (403, body)}
    with pytest.raises(
        BadInputError, match="but the driver refuses: the request's host is 'gateway'"
    ) as said:
        fetch_status(site.url)
    assert str(said.value).endswith("spark.sched.ui.hosts\ufffd[31m")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("localhost:4040", "http://localhost:4040"),
        ("http://h:4040/", "http://h:4040"),
        ("https://h:4040/jobs/job/?id=3", "https://h:4040"),
        ("https://h:4040/scheduling/job/?name=report", "https://h:4040"),
        ("http://h:8088/proxy/application_1_2/SQL/", "http://h:8088/proxy/application_1_2"),
        ("http://h:8088/proxy/application_1_2", "http://h:8088/proxy/application_1_2"),
        ("http://[::1]:4040/stages", "http://[::1]:4040"),
    ],
)
def test_a_page_of_the_ui_and_host_and_port_are_addresses(given: str, address: str):
    assert ui_address(given) == address


@pytest.mark.parametrize(
    "given", ["", "ftp://h:1", "http://", "http://h:port", "file:///etc/passwd", "http://[x"]
)
def test_what_is_no_address_is_refused(given: str):
    with pytest.raises(BadInputError, match="must be the address of a running application's UI"):
        ui_address(given)


@pytest.mark.parametrize("given", ["http://h:1/a b", "h:40\t40", "http://h:4040/\x00", "http://h\n.org:1"])
def test_blanks_and_control_characters_are_refused(given: str):
    with pytest.raises(BadInputError, match="must not contain blanks or control characters"):
        ui_address(given)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", "BadStatusLine", id="no HTTP server"),
        pytest.param(
            b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"schema":1', "IncompleteRead", id="breaks off"
        ),
        pytest.param(
            b"HTTP/1.1 403 No\r\nContent-Length: 50\r\n\r\n{", "IncompleteRead", id="a refusal breaks off"
        ),
        pytest.param(b"", "RemoteDisconnected", id="closes"),
    ],
)
@pytest.mark.parametrize("command", [["top", "--once"], ["explain"], ["set"]])
def test_a_peer_that_is_no_http_server_is_named(sent: bytes, error: str, command: list[str]):
    arguments = {"top": [], "explain": ["report"], "set": ["report", "--priority", "3"]}[command[0]]
    with socket.create_server(("127.0.0.1", 0)) as peer:
        answering = threading.Thread(target=_answer_once, args=(peer, sent))
        answering.start()
        url = f"http://127.0.0.1:{peer.getsockname()[1]}"
        done = CliRunner().invoke(app, [*command, url, *arguments])
        answering.join()
    assert done.exit_code == 2
    assert f"{url!r} but the answer is not HTTP or is incomplete ({error})" in done.output


def _answer_once(peer: socket.socket, sent: bytes) -> None:
    caller, _ = peer.accept()
    with caller:
        # A POST comes in two parts; what is not read would make the close a reset.
        caller.settimeout(10)
        request = b""
        while b"\r\n\r\n" not in request or (request.startswith(b"POST") and not request.endswith(b"}")):
            request += caller.recv(4096)
        caller.sendall(sent)


def test_status_and_stories_are_read(site: _Site):
    site.answers = ATTACHED
    assert [job.name for job in fetch_status(site.url).jobs] == ["nightly-report", "etl"]
    assert fetch_jobs(site.url, "nightly-report")[0].story
    assert fetch_jobs(site.url, "nightly/report é")[0].story


def test_an_unknown_job_is_answered_with_the_names_that_there_are(site: _Site):
    site.answers = {**ATTACHED, "*": (404, NO_JOBS)}
    with pytest.raises(BadInputError, match="did you mean 'nightly-report'"):
        fetch_jobs(site.url, "nightly-raport")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param(STOCK, "runs without spark_sched", id="stock"),
        pytest.param({**STOCK, "*": (404, "")}, "runs without spark_sched", id="stock, 404"),
        pytest.param({}, "no Spark application's UI answers there", id="another site"),
        pytest.param({"*": (200, "[1]")}, "no Spark application's UI answers there", id="another JSON"),
        pytest.param({"*": (403, "")}, "denies access", id="view ACLs"),
        pytest.param({"*": (200, '{"schema": 2}')}, "schema is 2, not 1", id="a newer driver"),
    ],
)
def test_each_wrong_address_has_a_sentence_of_its_own(
    site: _Site, answers: dict[str, tuple[int, str]], said: str
):
    site.answers = answers
    with pytest.raises(BadInputError, match=said):
        fetch_status(site.url)


def test_an_address_where_nothing_listens_is_named():
    with socket.socket() as unused:  # keeps the port from others
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        done = CliRunner().invoke(app, ["top", "--once", f"127.0.0.1:{port}"])
    assert done.exit_code == 2
    assert "nothing answers there" in done.output
    assert f"'http://127.0.0.1:{port}'" in done.output


def test_top_prints_the_table_once(site: _Site):
    site.answers = ATTACHED
    done = CliRunner().invoke(app, ["top", "--once", site.url], env={"COLUMNS": "250"})
    assert done.exit_code == 0
    for part in ("nightly-report", "runs on 4 slots", "planner: alive", "plan: 12 of policy 3sigma"):
        assert part in done.output


def usage(site: _Site, *arguments: str) -> dict[str, Any]:
    site.answers = ATTACHED
    done = CliRunner().invoke(app, ["usage", site.url, "--json", *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_usage_of_a_live_application_has_all_jobs_by_class(site: _Site):
    found = usage(site, "--by", "class", "--rate", "3600EUR")
    (row,) = found["rows"]
    classes = json.loads(STATUS)["classes"]
    assert [each["class"] for each in classes] == [row["class"]] == ["batch"]
    assert (row["jobs"], row["run_slot_s"], row["held_slot_s"], row["copies_slot_s"]) == (3, 58.0, 3.0, 0.7)
    assert found["total"]["cost"] == row["cost"] == row["total_slot_s"] == 61.7
    assert found["ended"] is None


def test_usage_by_user_has_jobs_that_ended(site: _Site):
    found = usage(site, "--by", "user")
    (row,) = found["rows"]
    assert (row["user"], row["jobs"], row["run_slot_s"], found["ended"]) == ("ada", 3, 58.0, None)
    # The driver of an older version has no sums of users.
    document = json.loads(STATUS)
    del document["users"]
    site.answers = {**ATTACHED, f"{API}/status": (200, json.dumps(document))}
    done = CliRunner().invoke(app, ["usage", site.url, "--json", "--by", "user"])
    assert json.loads(done.stdout)["ended"]["jobs"] == 1


def test_usage_by_queue_has_jobs_that_ended_of_the_lowest_queues(site: _Site):
    found = usage(site, "--by", "queue")
    rows = [(row["queue"], row["jobs"], row["run_slot_s"]) for row in found["rows"]]
    assert (rows, found["ended"]) == ([("reports.nightly", 3, 58.0)], None)
    found = usage(site, "--by", "queue,name")
    assert ("reports.nightly", "nightly-report") in {(row["queue"], row["name"]) for row in found["rows"]}
    # An older driver has no sums of queues, and an application may have no queues.
    document = json.loads(STATUS)
    for queue in document["queues"]:
        del queue["sums"]
    site.answers = {**ATTACHED, f"{API}/status": (200, json.dumps(document))}
    done = CliRunner().invoke(app, ["usage", site.url, "--json", "--by", "queue"])
    assert json.loads(done.stdout)["ended"]["jobs"] == 1
    del document["queues"]
    site.answers = {**ATTACHED, f"{API}/status": (200, json.dumps(document))}
    done = CliRunner().invoke(app, ["usage", site.url, "--by", "queue"])
    assert (done.exit_code, "the application has no queues" in done.stderr) == (2, True)


@pytest.mark.parametrize("address", ["{host}", "{host}/", "{host}/jobs/", "{url}", "{url}/scheduling/"])
def test_usage_takes_the_addresses_that_top_takes(site: _Site, address: str):
    site.answers = ATTACHED
    given = address.format(host=site.url.removeprefix("http://"), url=site.url)
    assert CliRunner().invoke(app, ["top", "--json", given]).exit_code == 0
    done = CliRunner().invoke(app, ["usage", given, "--json", "--by", "user"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["live"] is True


def test_a_file_whose_name_looks_like_an_address_is_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("day:1").write_text("")
    done = CliRunner().invoke(app, ["usage", "day:1"])
    assert "URL is" not in done.stderr


def test_usage_by_user_adds_up_ended_jobs_without_dividing_them(site: _Site):
    found = usage(site, "--by", "user,name")
    jobs = json.loads(STATUS)["jobs"]
    rows = {(row["user"], row["name"]): row["total_slot_s"] for row in found["rows"]}
    asked = json.loads(STATUS)["application"]["user"]  # who has no user of his own
    assert rows == {(job["user"] or asked, job["name"]): sum(job["slot_ms"].values()) / 1000 for job in jobs}
    assert found["ended"]["run_slot_s"] == 10.0
    assert sum(rows.values()) + found["ended"]["total_slot_s"] == pytest.approx(
        found["total"]["total_slot_s"]
    )


def test_the_usage_table_says_what_a_live_application_cannot_tell(site: _Site, tmp_path: Path):
    site.answers = ATTACHED
    out = tmp_path / "usage.csv"
    done = CliRunner().invoke(app, ["usage", site.url, "--by", "name", "--out", str(out)])
    text = " ".join(done.output.split())
    for part in (
        "62 slot-seconds so far",
        "(ended jobs)",
        "by class, by user or by queue alone",
        "run includes what failed",
    ):
        assert part in text
    assert out.read_text().startswith('"name","jobs"')


def test_live_usage_has_what_equation_4_expects_where_the_driver_tells(site: _Site):
    document = json.loads(STATUS)
    document["jobs"][0]["slot_ms"] |= {"held_idle_at_most": 4_500}
    site.answers = {**ATTACHED, f"{API}/status": (200, json.dumps(document))}
    done = CliRunner().invoke(app, ["usage", site.url, "--by", "name", "--json"])
    found = json.loads(done.stdout)
    bounds = {row["name"]: row["held_at_most_slot_s"] for row in found["rows"]}
    assert bounds == {"nightly-report": 4.5, "etl": None}
    assert found["ended"]["held_at_most_slot_s"] is None
    text = CliRunner().invoke(app, ["usage", site.url, "--by", "name"]).output
    assert "held by eq. 4" in text
    assert "≤ 4.5" in text
    # One that held slots without a bound leaves its whole group without one.
    document["jobs"][1]["slot_ms"] |= {"held_idle": 100_000}
    document["jobs"][1]["user"] = document["jobs"][0]["user"]
    site.answers = {**ATTACHED, f"{API}/status": (200, json.dumps(document))}
    done = CliRunner().invoke(app, ["usage", site.url, "--by", "user", "--json"])
    assert [row["held_at_most_slot_s"] for row in json.loads(done.stdout)["rows"]] == [None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "stage"], "does not add up slot time by stage"),
        (["--energy", "conf/energy/thesis.toml"], "--energy needs the times of attempts"),
        (["events.jsonl"], "must be logs, or one URL alone"),
    ],
)
def test_what_a_url_cannot_answer_is_refused(site: _Site, arguments: list[str], said: str):
    site.answers = ATTACHED
    done = CliRunner().invoke(app, ["usage", site.url, *arguments])
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert said in done.stderr


def test_json_is_the_document_itself(site: _Site):
    site.answers = ATTACHED
    done = CliRunner().invoke(app, ["top", "--json", site.url])
    assert json.loads(done.stdout) == json.loads(STATUS)
    done = CliRunner().invoke(app, ["explain", "--json", site.url, "nightly-report"])
    assert json.loads(done.stdout) == json.loads(STORY)


def test_explain_tells_the_story_and_knows_near_names(site: _Site):
    site.answers = {**ATTACHED, "*": (404, NO_JOBS)}
    done = CliRunner().invoke(app, ["explain", site.url, "nightly-report"])
    assert done.exit_code == 0
    assert "submitted" in done.output
    assert "held idle" in done.output
    done = CliRunner().invoke(app, ["explain", site.url, "nightly"])
    assert done.exit_code == 2
    assert "no such job is known" in done.output


def test_changes_are_sent_with_the_header_that_pages_of_other_sites_cannot_send(site: _Site):
    site.answers = {f"{API}/steer/set": (200, '{"done": "job report: priority 1 -> 7"}')}
    done = CliRunner().invoke(app, ["set", f"{site.url}/jobs/", "report", "--priority", "7"])
    assert (done.exit_code, done.output) == (0, "job report: priority 1 -> 7\n")
    ((path, headers, body),) = site.posted
    assert path == f"{API}/steer/set"
    assert "X-Spark-Sched" in headers
    assert json.loads(body) == {"job": "report", "priority": "7"}


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (["hold", "report"], {"job": "report"}),
        (["resume", "report"], {"job": "report"}),
        (["cancel", "report"], {"job": "report"}),
        (["end", "report"], {"job": "report"}),
        (["pause"], {}),
        (["unpause"], {}),
        (["policy", "fair"], {"name": "fair"}),
        (["mode", "shadow"], {"name": "shadow"}),
    ],
)
def test_each_command_sends_its_action(site: _Site, command: list[str], sent: dict[str, str]):
    name, *rest = command
    site.answers = {f"{API}/steer/{name}": (200, '{"done": "so it is"}')}
    done = CliRunner().invoke(app, [name, site.url, *rest, "--json"])
    assert json.loads(done.output) == {"done": "so it is"}
    assert json.loads(site.posted[0][2]) == sent


def test_a_refused_change_is_the_drivers_sentence(site: _Site):
    site.answers = ATTACHED | {
        f"{API}/steer/hold": (
            404,
            '{"error": "job is \'x\' but no such job is known", "code": "unknown_job"}',
        ),
        f"{API}/steer/pause": (403, "<html>Forbidden</html>"),
    }
    done = CliRunner().invoke(app, ["hold", site.url, "x"])
    assert (done.exit_code, "job is 'x' but no such job is known" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["pause", site.url])
    assert (done.exit_code, "spark.modify.acls" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["set", site.url, "x"])
    assert (done.exit_code, "no change was given" in done.output) == (2, True)
