"""Jobs that wait for each other, and what the application says about when they start and end.

Run like those of `scenarios`, with the UI switched on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.view.status import JobStatus
from tests.integration.scenarios import (
    Result,
    counters,
    planner_pid,
    release,
    settled,
    sleeper,
    sleeper_after,
    wait_until,
)
from tests.integration.status_scenarios import command, page

TASK_S = 0.5
JOBS = 10
#: So that a run ends that starves the other team.
MOST_RUNS = 30


def ten_equal_jobs(spark: SparkSession) -> Result:
    """First a job of which nothing is known, and one behind it; then ten of the name of the second."""
    sc = spark.sparkContext
    wait_until(lambda: spark_sched.status(spark).planner.alive, "the planner was to come")
    ends_s: dict[int, float] = {}

    def equal(number: int) -> None:
        with spark_sched.job(spark, "equal", user="ada"):
            sc.parallelize(range(8), 8).map(sleeper(lambda _: TASK_S)).collect()
        ends_s[number] = time.time()

    def named(name: str) -> list[JobStatus]:
        return [each for each in spark_sched.status(spark).jobs if each.name == name]

    with release() as end:

        def unknown() -> None:
            with spark_sched.job(spark, "unknown", user="ada"):
                sc.parallelize(range(4), 4).map(sleeper_after(end, lambda _: 0.0)).collect()

        threads = [InheritableThread(target=unknown), InheritableThread(target=lambda: equal(-1))]
        threads[0].start()
        wait_until(lambda: any(j.slots.running == 4 for j in named("unknown")), "it was to run")
        threads[1].start()
        wait_until(lambda: any(j.after_jobs == 1 for j in named("equal")), "nobody was to know its end")
        (behind,) = named("equal")
        url = sc.uiWebUrl
        assert url is not None
        words = {
            "explain": str(spark_sched.explain(spark, "equal")),
            "status": str(spark_sched.status(spark)),
            "top": command("top", url, "--once")[1],
            "tab": page(f"{url}/scheduling/"),
            "forecast": behind.forecast is None,
        }
        end.touch()
        for thread in threads:
            thread.join()
    settled(sc)
    with release() as begin:

        def first() -> None:
            with spark_sched.job(spark, "equal", user="ada"):
                sc.parallelize(range(8), 8).map(sleeper_after(begin, lambda _: TASK_S)).collect()
            ends_s[0] = time.time()

        threads = [InheritableThread(target=first)]
        threads[0].start()
        wait_until(lambda: any(j.slots.running == 4 for j in named("equal")), "the first was to run")
        for number in range(1, JOBS):
            threads.append(InheritableThread(target=equal, args=(number,)))
            threads[-1].start()
            wait_until(lambda here=number + 1: len(named("equal")) == here, "the next was to come")
        wait_until(
            lambda: all(j.forecast is not None for j in named("equal")) and len(named("equal")) == JOBS,
            "all ten were to have a forecast",
        )
        status = spark_sched.status(spark)
        last = max((j for j in status.jobs if j.name == "equal"), key=lambda j: j.order.arrival)
        story = page(f"{url}/scheduling/job/?name={quote(last.job)}")
        text = str(spark_sched.explain(spark, last.job))
        began_s = time.time()
        begin.touch()
        for thread in threads:
            thread.join()
    assert last.forecast is not None
    return {
        "words": words,
        "ends_in_s": (last.forecast.end_p50_ms - status.now_ms) / 1000.0,
        "starts_in_s": ((last.forecast.start_p50_ms or 0) - status.now_ms) / 1000.0,
        "took_s": ends_s[JOBS - 1] - began_s,
        "story": story,
        "text": text,
    }


def two_teams(spark: SparkSession) -> Result:
    """Two teams with ceilings on four slots; the planner is killed on the way, and one job waits for a place.

    Returns the times between which tasks really ran, by team.
    """
    sc = spark.sparkContext
    ran: dict[str, list[tuple[int, float, float]]] = {"etl": [], "bi": []}

    def work(team: str, name: str, tasks: int) -> None:
        with spark_sched.job(spark, name, user=team):
            for _ in range(2):
                ran[team] += sc.parallelize(range(tasks), tasks).map(sleeper(lambda _: TASK_S)).collect()

    def start(team: str, name: str, tasks: int) -> InheritableThread:
        thread = InheritableThread(target=work, args=(team, name, tasks))
        thread.start()
        wait_until(lambda: any(j.name == name for j in spark_sched.status(spark).jobs), f"{name} was to come")
        return thread

    pid = planner_pid(sc)
    threads = [start("etl", "load", 9)]
    wait_until(
        lambda: any(q.queue == "etl" and q.running_slots == 1 for q in spark_sched.status(spark).queues),
        "its queue was to be at its ceiling",
    )
    story = str(spark_sched.explain(spark, "load"))
    os.kill(pid, signal.SIGKILL)
    threads += [start("bi", "first", 4), start("bi", "second", 2)]
    status = spark_sched.status(spark)
    waiting = [job for job in status.jobs if job.name == "second"]
    for thread in threads:
        thread.join()
    queues = {each.queue: each for each in spark_sched.status(spark).queues}
    return {
        "ran": ran,
        "load": story,
        "second": [(job.order.queue_name, job.state, job.notes.why, job.reason) for job in waiting],
        "peaks": {name: (each.peak_slots, each.ceiling_slots) for name, each in queues.items()},
        "slot_s": {name: each.slot_ms / 1000.0 for name, each in queues.items()},
        "left": {name: each.running_slots + each.running_jobs for name, each in queues.items()},
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def refused_job(spark: SparkSession) -> Result:
    """A queue with one place for a job and none to wait: the second job is cancelled, and runs later."""
    sc = spark.sparkContext

    def run(name: str, begin: Path) -> None:
        with spark_sched.job(spark, name, user="bi"):
            sc.parallelize(range(2), 2).map(sleeper_after(begin, lambda _: 0.0)).collect()

    with release() as begin:
        first = InheritableThread(target=run, args=("first", begin))
        first.start()
        wait_until(lambda: any(j.slots.running for j in spark_sched.status(spark).jobs), "it was to run")
        said = ""
        try:
            run("second", begin)
        except Exception as error:
            said = str(error)
        begin.touch()
        first.join()
        run("second", begin)
    return {"said": said, "refused": [q.refused_jobs for q in spark_sched.status(spark).queues]}


def floors(spark: SparkSession) -> Result:
    """A team floods four slots with jobs of a high priority; then one comes whose queue is promised two.

    Returns the times between which tasks really ran, by job; the first four wait until all jobs are there.
    """
    sc = spark.sparkContext
    ran: dict[str, list[tuple[int, float, float]]] = {}

    def running(queue: str) -> int:
        return sum(q.running_slots for q in spark_sched.status(spark).queues if q.queue == queue)

    with release() as begin:

        def work(team: str, name: str, tasks: int, priority: int) -> None:
            with spark_sched.job(spark, name, user=team, priority=priority):
                body = sleeper_after(begin, lambda _: TASK_S)
                ran[name] = sc.parallelize(range(tasks), tasks).map(body).collect()

        def start(team: str, name: str, tasks: int, priority: int) -> InheritableThread:
            thread = InheritableThread(target=work, args=(team, name, tasks, priority))
            thread.start()
            wait_until(
                lambda: any(j.name == name for j in spark_sched.status(spark).jobs), f"{name} was to come"
            )
            return thread

        threads = [start("bulk", "first", 12, 9)]
        wait_until(lambda: running("bulk") == 4, "the flood was to have all slots")
        threads += [start("bulk", "second", 12, 9), start("team", "late", 8, 0)]
        begin.touch()
        for thread in threads:
            thread.join()
    queues = {each.queue: each for each in spark_sched.status(spark).queues}
    return {
        "ran": ran,
        "floors": {name: each.floor_slots for name, each in queues.items()},
        "peaks": {name: each.peak_slots for name, each in queues.items()},
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def weights(spark: SparkSession) -> Result:
    """A team's jobs of high priority hold their slots from stage to stage; another team's job comes."""
    sc = spark.sparkContext
    over = threading.Event()

    def sleeps(value: int) -> tuple[int, int]:
        time.sleep(TASK_S)
        return value % 4, value

    def crowd(number: int) -> None:
        for run in range(MOST_RUNS):
            if over.is_set():
                break
            with spark_sched.job(spark, f"chain-{number}-{run}", user="bulk", priority=9):
                first = sc.parallelize(range(4), 4).map(sleeps)
                first.reduceByKey(max, 4).map(lambda each: sleeps(each[0])).count()
        in_time.append(over.is_set())

    in_time: list[bool] = []
    threads = [InheritableThread(target=crowd, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    wait_until(
        lambda: any(q.running_slots + q.held_slots == 4 for q in spark_sched.status(spark).queues),
        "the crowd was to have all slots",
    )
    with spark_sched.job(spark, "late", user="team"):
        sc.parallelize(range(12), 12).map(sleeps).count()
    over.set()
    for thread in threads:
        thread.join()
    return {
        "in_time": in_time,
        "peaks": {each.queue: each.peak_slots for each in spark_sched.status(spark).queues},
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def floor_evictions(spark: SparkSession) -> Result:
    """A job has all slots and does not end before the second team's is over: that gets slots by evictions."""
    sc = spark.sparkContext

    def running(queue: str) -> int:
        return sum(q.running_slots for q in spark_sched.status(spark).queues if q.queue == queue)

    results: dict[str, list[int]] = {}
    with release() as end:

        def bulk() -> None:
            with spark_sched.job(spark, "bulk", user="bulk", priority=9):
                ran = sc.parallelize(range(4), 4).map(sleeper_after(end, lambda _: 0.0)).collect()
                results["bulk"] = [partition for partition, _, _ in ran]

        thread = InheritableThread(target=bulk)
        thread.start()
        wait_until(lambda: running("bulk") == 4, "it was to have all slots")
        with spark_sched.job(spark, "late", user="team"):
            ran = sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.1)).collect()
            results["late"] = [partition for partition, _, _ in ran]
        before_end, story = counters(sc), str(spark_sched.explain(spark, "bulk"))
        end.touch()
        thread.join()
    return {
        "results": results,
        "evictions": before_end["evictions"],
        "story": story,
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def observed_floor_evictions(spark: SparkSession) -> Result:
    """The same, but evictions are only observed: the job of the second team waits."""
    sc = spark.sparkContext
    with release() as end:

        def bulk() -> None:
            with spark_sched.job(spark, "bulk", user="bulk", priority=9):
                sc.parallelize(range(4), 4).map(sleeper_after(end, lambda _: 0.0)).collect()

        def late() -> None:
            with spark_sched.job(spark, "late", user="team"):
                sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.1)).collect()

        threads = [InheritableThread(target=each) for each in (bulk, late)]
        threads[0].start()
        wait_until(
            lambda: any(q.queue == "bulk" and q.running_slots == 4 for q in spark_sched.status(spark).queues),
            "it was to have all slots",
        )
        threads[1].start()
        wait_until(lambda: counters(sc).get("floor_evictions_observed", 0) > 0, "it was to be observed")
        story = str(spark_sched.explain(spark, "bulk"))
        end.touch()
        for thread in threads:
            thread.join()
    found = counters(sc)
    return {"observed": found["floor_evictions_observed"], "evictions": found["evictions"], "story": story}


def _jobs(spark: SparkSession) -> dict[str, JobStatus]:
    """The jobs that the status shows, by name."""
    return {job.name: job for job in spark_sched.status(spark).jobs}


def _running(spark: SparkSession) -> list[str]:
    return sorted(name for name, job in _jobs(spark).items() if job.slots.running)


def _jobs_of_one_task(spark: SparkSession, end: Path, *names: str) -> list[InheritableThread]:
    """Threads, not started yet, whose jobs run until the file is there."""
    sc = spark.sparkContext

    def work(name: str) -> None:
        with spark_sched.job(spark, name):
            sc.parallelize(range(1), 1).map(sleeper_after(end, lambda _: 0.0)).collect()

    return [InheritableThread(target=work, args=(name,)) for name in names]


def changed_queues(spark: SparkSession) -> Result:
    """Three jobs in a queue that runs one: the file, then an operator lets one more run each.

    Between the two the file has a fault. At last the queue itself goes.
    """
    sc = spark.sparkContext
    file = Path(sc.getConf().get("spark.sched.queues.file"))
    url = sc.uiWebUrl
    assert url is not None

    def write(most: int) -> None:
        file.write_text(f'default = "team"\n[queues.team]\nmax_running_jobs = {most}\n')

    with release() as end:
        threads = _jobs_of_one_task(spark, end, "a", "b", "c")
        for here, thread in enumerate(threads, start=1):
            thread.start()
            wait_until(lambda here=here: len(_jobs(spark)) == here, "the job was to come")
        wait_until(lambda: _running(spark) == ["a"], "one job was to run")
        write(2)
        wait_until(lambda: _running(spark) == ["a", "b"], "the changed file was to admit the next job")
        write(-1)
        wait_until(lambda: bool(spark_sched.status(spark).warnings), "the fault was to be told")
        fault = spark_sched.status(spark).warnings
        shown = command("queue", "show", url)[1]
        tab = page(f"{url}/scheduling/")
        top = command("top", url, "--once")[1]
        unknown = command("queue", "set", url, "teem", "max_running_jobs=3")
        done = command("queue", "set", url, "team", "max_running_jobs=3", "ceiling=4")
        wait_until(
            lambda: _running(spark) == ["a", "b", "c"], "the operator's change was to admit the last job"
        )
        file.write_text(
            'default = "rest"\n[queues.rest]\n[queues.other]\n[[rules]]\nqueue="other"\nname="b"\n'
        )
        wait_until(lambda: _jobs(spark)["a"].order.queue_name == "rest", "the queue was to go")
        queues = {name: job.order.queue_name for name, job in _jobs(spark).items()}
        story = str(spark_sched.explain(spark, "b"))
        warnings = spark_sched.status(spark).warnings
        after = command("queue", "show", url)[1]
        stale = command("queue", "load", url, str(file))[1]
        end.touch()
        for thread in threads:
            thread.join()
    return {
        "fault": fault,
        "shown": shown,
        "tab": tab,
        "top": top,
        "unknown": unknown,
        "done": done,
        "queues": queues,
        "story": story,
        "warnings": warnings,
        "after": after,
        "stale": stale,
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def queues_come_and_go(spark: SparkSession) -> Result:
    """An application without queues, whose file comes later. They are removed and put in force again."""
    sc = spark.sparkContext
    file = Path(sc.getConf().get("spark.sched.queues.file"))
    url = sc.uiWebUrl
    assert url is not None

    shown = [command("queue", "show", url)[1]]
    no_queue = command("queue", "set", url, "team", "ceiling=1")
    file.write_text("# nothing yet\n")
    with release() as end:
        threads = _jobs_of_one_task(spark, end, "a", "b", "c")
        for thread in threads[:2]:
            thread.start()
        wait_until(lambda: _running(spark) == ["a", "b"], "two jobs were to run")
        before = [job.order.queue_name for job in _jobs(spark).values()]
        file.write_text('default = "team"\n[queues.team]\nmax_running_jobs = 1\n')
        wait_until(
            lambda: _jobs(spark)["a"].order.queue_name == "team", "the file was to put queues in force"
        )
        (queue,) = spark_sched.status(spark).queues
        story = str(spark_sched.explain(spark, "a"))
        threads[2].start()
        wait_until(
            lambda: "c" in _jobs(spark) and _jobs(spark)["c"].slots.waiting == 1, "the third job was to come"
        )
        waits, both = _jobs(spark)["c"].notes.why, _running(spark)
        file.write_text("")
        wait_until(lambda: bool(spark_sched.status(spark).warnings), "an empty file was to be told of")
        warnings = spark_sched.status(spark).warnings
        cleared = command("queue", "clear", url)
        wait_until(lambda: _running(spark) == ["a", "b", "c"], "without queues the third job was to run")
        after = str(spark_sched.explain(spark, "c"))
        shown.append(command("queue", "show", url)[1])
        other = file.with_suffix(".other.toml")
        other.write_text('default = "rest"\n[queues.rest]\nceiling = 1\n')
        loaded = command("queue", "load", url, str(other))
        other.unlink()
        rest = {job.order.queue_name for job in _jobs(spark).values()}
        end.touch()
        for thread in threads:
            thread.join()
    return {
        "shown": shown,
        "no_queue": no_queue,
        "before": before,
        "queue": (queue.running_jobs, queue.running_slots, queue.waiting_jobs),
        "story": story,
        "waits": waits,
        "both": both,
        "warnings": warnings,
        "cleared": cleared,
        "after": after,
        "loaded": loaded,
        "rest": sorted(map(str, rest)),
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def stage_wider_than_its_queue(spark: SparkSession) -> Result:
    """A barrier stage of three in a queue of two slots says so until an operator raises the ceiling."""
    sc = spark.sparkContext
    url = sc.uiWebUrl
    assert url is not None
    results: list[int] = []

    def gang() -> None:
        with spark_sched.job(spark, "gang", user="etl"):
            results.extend(sc.parallelize(range(3), 3).barrier().mapPartitions(list).collect())

    thread = InheritableThread(target=gang)
    thread.start()
    wait_until(
        lambda: any(j.name == "gang" and j.slots.waiting for j in spark_sched.status(spark).jobs),
        "the stage was to come",
    )
    # Looks are about a second apart.
    wait_until(lambda: "at once" in str(spark_sched.explain(spark, "gang")), "the story was to tell")
    status = spark_sched.status(spark)
    found: Result = {
        "why": [job.notes.why for job in status.jobs],
        "warnings": list(status.warnings),
        "top": command("top", url, "--once")[1],
        "tab": page(f"{url}/scheduling/"),
        "story": str(spark_sched.explain(spark, "gang")),
    }
    command("queue", "set", url, "etl", "ceiling=3")
    thread.join()
    return {**found, "results": results, "after": list(spark_sched.status(spark).warnings)}


def gangs_of_two_queues(spark: SparkSession) -> Result:
    """Two jobs hold two slots each, the floors of their queues, and each starts a barrier stage of three. The
    queue above them may have four of eight slots."""
    sc = spark.sparkContext
    results: dict[str, list[int]] = {}
    go = threading.Event()

    def gang(user: str) -> None:
        with spark_sched.job(spark, user, user=user, priority=5):
            sc.parallelize(range(2), 2).map(sleeper(lambda _: TASK_S)).collect()
            go.wait()
            results[user] = sc.parallelize(range(3), 3).barrier().mapPartitions(list).collect()

    threads = [InheritableThread(target=gang, args=(user,)) for user in ("a", "b")]
    for thread in threads:
        thread.start()
    wait_until(
        lambda: [job.slots.held for job in spark_sched.status(spark).jobs] == [2, 2],
        "both were to hold their slots",
    )
    go.set()
    for thread in threads:
        thread.join()
    found = counters(sc)
    return {
        "results": results,
        "given_way": found["holds_given_way"],
        "violations": found["invariant_violations"],
        "failed_open": found["failed_open"],
    }


def groups_of_users(spark: SparkSession) -> Result:
    """A job of this process's user, and one of an unknown user: queue, priority, story."""
    sc = spark.sparkContext
    found: Result = {}
    with release() as end:

        def work(name: str, user: str | None) -> None:
            with spark_sched.job(spark, name, user=user, priority=9):
                sc.parallelize(range(1), 1).map(sleeper_after(end, lambda _: 0.0)).collect()

        people = {"own": None, "strange": "no-such-user"}
        threads = [InheritableThread(target=work, args=each) for each in people.items()]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(spark_sched.status(spark).jobs) == 2, "both jobs were to come")
        for job in spark_sched.status(spark).jobs:
            story = str(spark_sched.explain(spark, job.name))
            found[job.name] = (job.order.queue_name, job.marks.priority, story)
        end.touch()
        for thread in threads:
            thread.join()
    return found


def slot_hours(spark: SparkSession) -> Result:
    """A job uses the slot time that its queue has in a day and goes on; a second one waits."""
    sc = spark.sparkContext
    url = sc.uiWebUrl
    assert url is not None
    ran: list[str] = []
    with release() as end:

        def work(name: str, tasks: int) -> None:
            with spark_sched.job(spark, name):
                sc.parallelize(range(tasks), tasks).map(sleeper_after(end, lambda _: 0.0)).collect()
            ran.append(name)

        threads = [InheritableThread(target=work, args=each) for each in (("runs", 2), ("later", 1))]
        threads[0].start()

        def used_up() -> bool:
            (queue,) = spark_sched.status(spark).queues
            return queue.day_frees_ms is not None

        wait_until(used_up, "the queue was to use its slot time")
        threads[1].start()
        wait_until(lambda: len(spark_sched.status(spark).jobs) == 2, "the second job was to come")
        status = spark_sched.status(spark)
        (queue,) = status.queues
        shown = command("queue", "show", url)[1]
        command("queue", "set", url, "q", "slot_hours_per_day=none")
        end.touch()
        for thread in threads:
            thread.join()
    return {
        "now_ms": status.now_ms,
        "most_ms": queue.day_most_slot_ms,
        "used_ms": queue.day_slot_ms,
        "frees_ms": queue.day_frees_ms,
        "running": [job.name for job in status.jobs if job.slots.running],
        "why": next(job.notes.why for job in status.jobs if job.name == "later"),
        "shown": shown,
        "ran": sorted(ran),
    }


def users_in_a_queue(spark: SparkSession) -> Result:
    """Ann's two jobs come before Bob's one, all in one queue, and Cat's last of all, in another one.

    A first job has all slots until they are all there. A run before taught what each user's jobs do: so much
    that the time until all are there changes no order.
    """
    sc = spark.sparkContext
    ran: dict[str, list[tuple[int, float, float]]] = {}

    def run(
        label: str, user: str, name: str, tasks: int, body: Callable[[int], tuple[int, float, float]]
    ) -> None:
        with spark_sched.job(spark, name, user=user):
            ran[label] = sc.parallelize(range(tasks), tasks).map(body).collect()

    wait_until(lambda: spark_sched.status(spark).planner.alive, "the planner was to come")
    long = sleeper(lambda _: 1.0)
    earlier = [
        InheritableThread(target=run, args=(user, user, "work", 8, long)) for user in ("ann", "bob", "cat")
    ]
    for thread in earlier:
        thread.start()
    for thread in earlier:
        thread.join()
    settled(sc)
    with release() as begin:
        people = {"first": "zoe", "ann-1": "ann", "ann-2": "ann", "bob": "bob", "cat": "cat"}
        threads = []
        for here, (label, user) in enumerate(people.items(), start=1):
            first = label == "first"
            body = sleeper_after(begin, lambda _, first=first: 0.0 if first else 1.0)
            given = (label, user, "first" if first else "work", 4 if first else 8, body)
            threads.append(InheritableThread(target=run, args=given))
            threads[-1].start()
            wait_until(lambda here=here: len(spark_sched.status(spark).jobs) == here, f"{label} was to come")
        wait_until(
            lambda: all(j.order.rank is not None for j in spark_sched.status(spark).jobs if j.name == "work"),
            "a plan was to rank all jobs",
        )
        jobs = [job for job in spark_sched.status(spark).jobs if job.name == "work"]
        begin.touch()
        for thread in threads:
            thread.join()
    return {
        "ranks": [(job.marks.user, job.order.rank, job.order.queue_name) for job in jobs],
        "ran": ran,
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }


def one_job_beside_many(spark: SparkSession) -> Result:
    """Five jobs of Ann wait when Bob's one comes.

    A run before taught what Ann's do, and of Bob's nothing is known. A first job has all slots until they are
    all there.
    """
    sc = spark.sparkContext
    begins: dict[str, list[float]] = {}

    def run(
        label: str, user: str, name: str, tasks: int, body: Callable[[int], tuple[int, float, float]]
    ) -> None:
        with spark_sched.job(spark, name, user=user):
            found = sc.parallelize(range(tasks), tasks).map(body).collect()
        begins[label] = sorted(begin for _, begin, _ in found)

    wait_until(lambda: spark_sched.status(spark).planner.alive, "the planner was to come")
    run("earlier", "ann", "work", 16, sleeper(lambda _: 0.5))
    settled(sc)
    with release() as begin:
        people = [("first", "zoe")] + [(f"ann-{n}", "ann") for n in range(1, 6)] + [("bob", "bob")]
        threads = []
        for here, (label, user) in enumerate(people, start=1):
            body = sleeper_after(begin, lambda _, first=label == "first": 0.0 if first else 0.5)
            given = (label, user, "work" if user == "ann" else label, 4 if label == "first" else 16, body)
            threads.append(InheritableThread(target=run, args=given))
            threads[-1].start()
            wait_until(lambda here=here: len(spark_sched.status(spark).jobs) == here, f"{label} was to come")
        wait_until(
            lambda: all(j.order.rank is not None for j in spark_sched.status(spark).jobs),
            "a plan was to rank all jobs",
        )
        begin.touch()
        for thread in threads:
            thread.join()
    return {
        "begins": begins,
        "violations": counters(sc)["invariant_violations"],
        "failed_open": counters(sc)["failed_open"],
    }
