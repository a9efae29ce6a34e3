"""One application that is changed while it runs: over REST, on the command line and in its own Python.

Run like those of `scenarios`, with the UI switched on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.view.status import JobStatus
from tests.integration.browser import CHROMIUM, Page, browser
from tests.integration.processes import until
from tests.integration.scenarios import Result, release, settled, sleeper, straggling, wait_until, warm_up
from tests.integration.status_scenarios import command, is_so, raw

HEADER = {"X-Spark-Sched": "1", "Content-Type": "application/json"}


def post(url: str, action: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    request = Request(
        f"{url}/sched/api/v1/steer/{action}",
        data=json.dumps(body).encode(),
        headers=HEADER if headers is None else headers,
    )
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def steered(spark: SparkSession) -> Result:
    """A job that is cancelled at last, and one that holds three slots, changed in every way."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    wait_until(lambda: spark_sched.status(spark).planner.alive, "the planner was to come")
    url = sc.uiWebUrl
    found: Result = {}
    ended: list[str] = []
    last_begins = Event()
    with release() as last, release() as end:

        def batch() -> None:
            with spark_sched.job(spark, "batch", priority=1, isolation=1.0):
                while not last.exists():
                    sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.1)).count()
                last_begins.set()
                for _ in range(2):
                    try:
                        sc.parallelize(range(4), 4).map(straggling(end)).count()
                    except Exception as error:
                        ended.append(str(error))

        thread = InheritableThread(target=batch)
        thread.start()
        wait_until(lambda: is_so(spark, "batch", lambda j: j.slots.running > 0), "the batch was to run")
        found |= changed(spark, url)
        found |= on_hold(spark, url)
        found |= refused(spark, url)
        # Between two actions there is no Spark job to cancel.
        last.touch()
        last_begins.wait()
        # A copy may run beside the straggler.
        wait_until(lambda: len(stragglers(spark)) == 1, "the straggler was to run")
        cancelled = stragglers(spark)
        found["cancel"] = command("cancel", url, "batch")
        # The stage of the action before is there until its last task is killed.
        wait_until(
            lambda: len(stragglers(spark)) == 1 and stragglers(spark) != cancelled, "the next one was to run"
        )
        found["browser"] = None if CHROMIUM is None else by_buttons(spark, url)
        if found["browser"] is None:
            command("cancel", url, "batch")
        thread.join()
    found["raised"] = ended
    # The cancelled task's Python worker runs a little longer.
    wait_until(lambda: spark_sched.status(spark).application.running_slots == 0, "all slots were to be free")
    found |= paused(spark, url)
    found |= ended_by_an_operator(spark, url)
    return found


def stragglers(spark: SparkSession) -> list[str]:
    """Stages of the batch of whose tasks all but the last one are done; none while it has stages without."""
    stages = [each for job in spark_sched.status(spark).jobs if job.name == "batch" for each in job.stages]
    found = [each.stage for each in stages if each.done == 3]
    return found if len(found) == len(stages) else []


def wait_for(spark: SparkSession, condition: Callable[[JobStatus], bool], what: str) -> Any:
    wait_until(lambda: is_so(spark, "batch", condition), what)
    return raw(spark.sparkContext)


def changed(spark: SparkSession, url: str) -> Result:
    said = command("set", url, "batch", "--priority", "7", "--deadline", "1h", "--isolation", "0.5")
    document = raw(spark.sparkContext)
    again = spark_sched.steer.change(spark, "batch", priority=7)
    return {"set": said, "after_set": document, "set_again": again}


def on_hold(spark: SparkSession, url: str) -> Result:
    """On hold, under another planner with another policy, and resumed."""
    said = spark_sched.steer.hold(spark, "batch")
    # What ended was counted, too: that a task ended well is known some time after its slot is free.
    held = wait_for(
        spark,
        lambda j: j.state_text == "on hold" and j.slots.waiting == j.tasks - j.tasks_done > 0,
        "it was to wait on hold",
    )
    restarts = spark_sched.status(spark).planner.restarts

    def plans(policy: str) -> bool:
        status = spark_sched.status(spark)
        plan = status.plan
        return status.planner.restarts > restarts and plan is not None and plan.policy == policy

    switched = command("policy", url, "fair")
    wait_until(lambda: plans("fair"), "the other policy was to plan")
    still = raw(spark.sparkContext)
    resumed = post(url, "resume", {"job": "batch"})
    wait_for(spark, lambda j: j.state == "running", "it was to run again")
    story = [entry.text for entry in spark_sched.explain(spark, "batch").story]
    back = command("policy", url, "reservation")
    # A planner that is starting answers nobody.
    wait_until(lambda: plans("reservation"), "the first policy was to plan again")
    return {
        "hold": said, "held": held, "policy": switched, "still": still, "resume": resumed, "story": story,
        "back": back,
    }  # fmt: skip


def by_buttons(spark: SparkSession, url: str) -> Result:
    """All that the tab's buttons do, at last the cancelling of the batch."""
    with browser() as page:
        page.open(f"{url}/scheduling/")
        text = str(page.run("document.body.innerText"))
        found: Result = {"text": text, "columns": page.run(_COLUMNS)}
        questions: dict[str, str | None] = {}
        found["questions"] = questions
        for action in ("hold", "resume", "pause", "unpause"):
            found[action] = click(page, action, questions=questions)
        for mode in ("shadow", "on"):
            found[mode] = click(page, "mode", f'{{"name":"{mode}"}}', questions=questions, as_=mode)
        found["mode"] = spark_sched.status(spark).mode
        found["policies"] = page.run(_POLICIES)
        page.run(_OTHER_POLICY)
        found["policy"] = click(page, "policy", questions=questions)
        # The script replaces the picture by the newest one without a load of the page.
        page.run("document.getElementById('sched-slots').dataset.old = 'yes'")
        wait_until(lambda: page.run(_DRAWN), "the slots of the batch were to be drawn")
        found["drawn"] = page.run(_DRAWN)
        page.run(_STORY + ".click()")
        wait_until(lambda: bool(page.run(f"{_button('set')} !== null")), "the story was to open")
        type_in(page, "priority", "9")
        type_in(page, "isolation", "default")
        found["set"] = click(page, "set")
        page.run(_NEVER)
        page.run(_button("end") + ".click()")
        found["asked_to_end"] = page.run("window.asked")
        page.open(f"{url}/scheduling/")
        page.run(_NEVER)
        page.run(_button("cancel") + ".click()")
        found["asked"] = page.run("window.asked")
        # Cancelled, it would end no task.
        found["not_cancelled"] = until(lambda: is_so(spark, "batch", lambda j: j.tasks_done == 3))
        page.run("window.confirm = () => true")
        found["cancel"] = click(page, "cancel")
        # What is refused is shown on the page.
        page.open(f"{url}/scheduling/")
        page.run(_AGREE)
        page.run(f"{_PAUSE}.dataset.schedArguments = '[1]'")
        page.run(f"{_PAUSE}.click()")
        found["refused"] = answered(page)
    return found


_COLUMNS = "[...document.querySelector('table').querySelectorAll('th')].map(cell => cell.innerText.trim())"
#: Refuses what is asked for confirmation, and notes it.
_NEVER = "window.confirm = question => { window.asked = question; return false; }"
_STORY = "[...document.querySelectorAll('table a')].find(link => link.innerText.trim() === 'batch')"
_DRAWN = "document.querySelector('#sched-slots:not([data-old]) rect.sched-running') !== null"
_ANSWER = "(document.getElementById('sched-answer') || {}).textContent || ''"


def _button(action: str, arguments: str | None = None) -> str:
    selector = f'[data-sched-action="{action}"]'
    if arguments is not None:
        selector += f"[data-sched-arguments='{arguments}']"
    return f"document.querySelector({json.dumps(selector)})"


_PAUSE = _button("pause")
_LIST = "document.querySelector('[data-sched-form] select[name=name]')"
_POLICIES = f"[...{_LIST}.options].map(option => option.value)"
#: A policy that there is not, as of a planner that knew others.
_OTHER_POLICY = f"{_LIST}.add(new Option('fare')); {_LIST}.value = 'fare'"
#: Agrees to all that is asked, and notes it.
_AGREE = "window.asked = null; window.confirm = question => { window.asked = question; return true; }"


def type_in(page: Page, name: str, text: str) -> None:
    """Into the first input of this name."""
    page.run(f"document.querySelector('[data-sched-form] input[name={name}]').value = {json.dumps(text)}")


def click(
    page: Page,
    action: str,
    arguments: str | None = None,
    *,
    questions: dict[str, str | None] | None = None,
    as_: str | None = None,
) -> str:
    """What the page says after a click, which loads it again; what it asked before goes to ``questions``."""
    page.run("document.getElementById('sched-answer').textContent = ''")
    page.run(_AGREE)
    asked = page.run(f"{_button(action, arguments)}.click(); window.asked")
    if questions is not None:
        questions[as_ or action] = asked
    return answered(page)


def answered(page: Page) -> str:
    """The answer, as soon as there is one: a page that is being replaced has none."""
    said = ""

    def is_there() -> bool:
        nonlocal said
        try:
            said = str(page.run(_ANSWER))
        except AssertionError:  # the page was left meanwhile
            said = ""
        return bool(said)

    wait_until(is_there, "the page was to show an answer")
    return said


def paused(spark: SparkSession, url: str) -> Result:
    sc = spark.sparkContext
    with release() as end:

        def holder() -> None:
            with spark_sched.job(spark, "holder", priority=5, isolation=1.0, copies="never"):
                sc.parallelize(range(4), 4).map(straggling(end)).collect()

        twins = [InheritableThread(target=holder) for _ in range(2)]
        twins[0].start()
        wait_until(lambda: is_so(spark, "holder", lambda j: j.slots.held == 3), "three slots were to be held")
        said = command("pause", url)
        document = raw(sc)
        twins[1].start()
        wait_until(lambda: holders(spark) == 2, "a second job of the name was to come")
        ambiguous = command("hold", url, "holder")
        unpaused = spark_sched.steer.unpause(spark)
        end.touch()
        for thread in twins:
            thread.join()
    settled(sc)
    return {"pause": said, "paused": document, "unpause": unpaused, "ambiguous": ambiguous}


def ended_by_an_operator(spark: SparkSession, url: str) -> Result:
    """A job that a property alone marks, as a SQL session's settings do."""
    sc = spark.sparkContext
    with release() as end:

        def session() -> None:
            sc.setLocalProperty("spark.sched.job.name", "session")
            sc.parallelize(range(4), 4).map(straggling(end)).count()

        thread = InheritableThread(target=session)
        thread.start()
        wait_until(lambda: is_so(spark, "session", lambda j: j.slots.running > 0), "the session was to run")
        said = command("end", url, "session")
        end.touch()
        thread.join()
    wait_until(lambda: spark_sched.explain(spark, "session").state == "ended", "the job was to end")
    return {"end": said, "ended": spark_sched.explain(spark, "session").outcome}


def holders(spark: SparkSession) -> int:
    return sum(each.name == "holder" for each in spark_sched.status(spark).jobs)


def refused(spark: SparkSession, url: str) -> Result:
    def python(call: Callable[[], object]) -> str:
        try:
            call()
        except ValueError as error:
            return str(error)
        return ""

    steer = spark_sched.steer
    return {
        "without_header": post(url, "hold", {"job": "batch"}, {}),
        "form": post(url, "hold", {"job": "batch"}, {"X-Spark-Sched": "1"}),
        "no_object": post(url, "hold", [1]),
        "no_action": post(url, "delete", {}),
        "unknown_job": post(url, "hold", {"job": "nobody"}),
        "unknown_policy": command("policy", url, "fare"),
        "bad_deadline": command("set", url, "batch", "--deadline", "soon"),
        "past_deadline": command("set", url, "batch", "--deadline", "2001-01-01T00:00"),
        "bad_priority": command("set", url, "batch", "--priority", "high"),
        "nothing": command("set", url, "batch"),
        "bad_isolation": python(lambda: steer.change(spark, "batch", isolation=2.0)),
        "python_unknown": python(lambda: steer.end(spark, "nobody")),
    }
