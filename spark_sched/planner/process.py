"""The planner process: ``main``, run by `spark_sched.isolated`. Only the driver starts it.

Few modules are imported, because the first jobs of an application run by configured rules until the planner
is up.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_sched.config import Settings, keys, validate
from spark_sched.errors import BadInputError
from spark_sched.history import check_installed
from spark_sched.planner.handshake import Handshake, read_handshake, wait_for_end
from spark_sched.planner.log import blot_out, make_log
from spark_sched.planner.loop import PlannerLoop
from spark_sched.planner.outlook import Outlook
from spark_sched.planner.recorder import EventRecorder
from spark_sched.planner.transport import Driver, DriverLostError, Py4jDriver
from spark_sched.policies import PolicySettings, check_settings, create
from spark_sched.policies.budget import Budget
from spark_sched.policies.registry import for_use
from spark_sched.predict import Forecast
from spark_sched.predict.build import build_live
from spark_sched.state import Snapshot

if TYPE_CHECKING:
    from spark_sched.history.store import History

#: Share of spark.sched.planner.drainTimeout in which the planner tries to store what waits. In the rest it
#: tells the driver what it could not.
_DRAIN_SHARE = 0.8

#: New objects between two collections of garbage.
_COLLECT_EVERY = 50_000

EXIT_BAD_INPUT = 2
EXIT_PROTOCOL = 3
EXIT_DRIVER_LOST = 4


def make_loop(driver: Driver, log: logging.Logger, session: str = "") -> PlannerLoop:
    """The loop that the settings of the driver with this session describe. Raises BadInputError for a wrong
    setting.

    The driver may wait for the check, so it is notified as soon as all settings are known to be valid.
    """
    settings = _settings(driver)
    blot_out(log, settings[keys.HISTORY_PASSWORD])
    check_settings(settings)
    budget = Budget.before_stall(settings[keys.PLANNER_STALL_TIMEOUT], _monotonic_ms)
    policy_settings = replace(PolicySettings.from_config(settings), budget=budget)
    policy = create(settings[keys.PLANNER_POLICY], policy_settings)
    history = _history(settings, log, session)
    driver.settings_taken()
    policy.capabilities.warm_up()
    predictor, runtimes = build_live(
        settings,
        task_times=policy.capabilities.task_times,
        runs=None if history is None else history.runs,
        past=None if history is None else history.runtimes,
        past_tasks=None if history is None else history.task_times,
    )

    # On a busy machine a computation lasts longer than it works, and forecasts would grow old.
    outlook = Outlook(_monotonic_ms, work_ms=_worked_ms, tree=settings[keys.QUEUES])

    def answer(
        text: str, snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int, memory: Any
    ) -> Mapping[str, object]:
        if name := asked_policy(text):
            # The driver would start a planner with this policy.
            create(name, policy_settings)
            return {"policy": name}
        # Questions are rare: planners that never get one do not import what answers need.
        from spark_sched.planner import admission

        asked = admission.Asked.from_text(text)
        return admission.answer(policy, runtimes, outlook, snapshot, forecasts, now_ms, memory, asked)

    # Last: other packages' policies are looked for.
    driver.policies_known(for_use())
    events_path = settings[keys.EVENTS_PATH]
    return PlannerLoop(
        driver,
        policy,
        predictor,
        np.random.default_rng(settings[keys.SEED]),
        interval_ms=settings[keys.PLANNER_INTERVAL],
        validity_ms=settings[keys.PLANNER_PLAN_VALIDITY],
        clock_ms=_monotonic_ms,
        outlook=outlook,
        budget=budget,
        sleep_ms=lambda ms: time.sleep(ms / 1_000.0),
        log=log,
        recorder=EventRecorder(events_path, log) if events_path else None,
        answer=answer,
        keeper=history,
    )


def _monotonic_ms() -> float:
    return time.monotonic() * 1_000.0


def _worked_ms() -> float:
    return time.thread_time() * 1_000.0


def asked_policy(text: str) -> str | None:
    """The policy name that the question asks to check; None: it is another question."""
    question = json.loads(text)
    return str(question["name"]) if question.get("ask") == "policy" else None


def main(stdin_fd: int = 0) -> int:
    """Run until the driver is gone. Returns the exit status."""
    # 1. Read the handshake. From then on the end of the pipe means that the planner must exit at once.
    log = make_log(sys.stderr)
    started_in = _working_directory()
    try:
        handshake = read_handshake(stdin_fd)
    except BadInputError as error:
        log.error("%s", error)
        _remove(started_in)
        return EXIT_BAD_INPUT
    log = make_log(sys.stderr, handshake.secret)
    _leave_with_the_driver(stdin_fd, started_in)
    _go_to(handshake.folder, log)
    # 2. Connect, read the settings, build the loop.
    try:
        loop = _start(handshake, log)
    except BadInputError as error:
        log.error("%s", error)
        return EXIT_BAD_INPUT
    except DriverLostError as error:
        log.error("the driver of %s cannot be reached: %s", handshake.app, error)
        return EXIT_DRIVER_LOST
    # 3. Imported objects stay for good.
    settle_collector()
    # 4. Plan.
    try:
        loop.run()
    except BadInputError as error:
        log.error("%s", error)
        return EXIT_PROTOCOL
    except DriverLostError as error:
        log.error("the driver of %s is lost: %s", handshake.app, error)
    else:
        return 0
    return EXIT_DRIVER_LOST


def settle_collector() -> None:
    """Exclude the objects that exist now from the collection of cyclic garbage, and collect rarely: a planner
    creates almost no cycles, and a collection looks at all running tasks and jobs."""
    gc.collect()
    gc.freeze()
    every, *others = gc.get_threshold()
    if 0 < every < _COLLECT_EVERY:
        gc.set_threshold(_COLLECT_EVERY, *others)


def _start(handshake: Handshake, log: logging.Logger) -> PlannerLoop:
    driver = Py4jDriver(handshake.address, handshake.port, handshake.secret)
    with signs_of_life(driver):
        loop = make_loop(driver, log, handshake.session)
    log.info("planning for %s", handshake.app)
    return loop


@contextmanager
def signs_of_life(driver: Driver, every_s: float = 2.0, most_s: float = 180.0) -> Iterator[None]:
    """Report to the driver that the planner is busy, not hung, while the block runs; for ``most_s`` at most.

    On its first run on a machine a policy may compile its inner loops, which takes longer than a planner may
    be silent.
    """
    over = threading.Event()

    def tell() -> None:
        for _ in range(int(most_s / every_s)):
            if over.wait(every_s):
                return
            try:
                driver.alive()
            except DriverLostError:
                return  # the main thread finds out by itself

    threading.Thread(target=tell, name="spark-sched-signs-of-life", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _settings(driver: Driver) -> Settings:
    given = json.loads(driver.config())
    return validate({str(name): str(text) for name, text in given.items()})


def _go_to(folder: str, log: logging.Logger) -> None:
    """Change to the driver's working directory, because paths in settings are relative to it. The planner
    starts in another folder, and Python has made its search path absolute by now, so nothing is imported from
    here."""
    try:
        os.chdir(folder)
    except OSError as error:
        log.warning("the driver's working directory %s cannot be entered: %s", folder, error.strerror)


def _history(settings: Settings, log: logging.Logger, session: str) -> History | None:
    where, password = settings[keys.HISTORY_PATH], settings[keys.HISTORY_PASSWORD]
    if not where:
        return None
    check_installed()
    # SQLAlchemy is imported only if it is used.
    from spark_sched.history.store import History

    drain_s = _DRAIN_SHARE * settings[keys.PLANNER_DRAIN_TIMEOUT] / 1_000.0
    return History(where, log, password, session, drain_s=drain_s)


def _working_directory() -> str | None:
    """The empty folder that the driver made to start this process in; None if it is gone already."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _remove(folder: str | None) -> None:
    """Remove the folder that a killed driver leaves behind, if it still exists and is empty."""
    if folder is not None:
        with suppress(OSError):
            os.rmdir(folder)


def _leave_with_the_driver(fd: int, started_in: str | None) -> None:
    # The driver's children also get the signals of Ctrl-C in a terminal and of a service manager. Only the
    # driver reacts to them: the planner may still have to learn from the jobs that end now.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        wait_for_end(fd)
        _remove(started_in)
        # Not sys.exit: the main thread may be waiting in a call that the dead driver never answers.
        os._exit(0)

    threading.Thread(target=watch, name="spark-sched-driver-watch", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
