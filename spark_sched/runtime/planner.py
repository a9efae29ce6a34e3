"""The planner process: ``python -m spark_sched.runtime.planner``, started by the driver and by nobody else.

Imports are kept few: the first jobs of an application run by configured rules until the planner is up.
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

import numpy as np

from spark_sched.config import Settings, keys, validate
from spark_sched.errors import BadInputError
from spark_sched.policies import PolicySettings, create
from spark_sched.predict import PhaseHistory, RunStore
from spark_sched.runtime.handshake import Handshake, read_handshake, wait_for_end
from spark_sched.runtime.log import make_log
from spark_sched.runtime.loop import PlannerLoop
from spark_sched.runtime.recorder import EventRecorder
from spark_sched.runtime.transport import Driver, DriverLostError, Py4jDriver

__all__ = ["main", "make_loop"]

EXIT_BAD_INPUT = 2
EXIT_PROTOCOL = 3
EXIT_DRIVER_LOST = 4


def make_loop(driver: Driver, log: logging.Logger) -> PlannerLoop:
    """The loop as the driver's settings want it. Raises BadInputError for a wrong setting."""
    settings = _settings(driver)
    policy = create(settings[keys.PLANNER_POLICY], PolicySettings.from_config(settings))
    predictor = PhaseHistory(
        _run_store(settings, log),
        prior_alpha=settings[keys.RESERVATION_ALPHA],
        prior_weight=settings[keys.RESERVATION_ALPHA_WEIGHT],
    )
    events_path = settings[keys.EVENTS_PATH]
    return PlannerLoop(
        driver,
        policy,
        predictor,
        np.random.default_rng(settings[keys.SEED]),
        interval_ms=settings[keys.PLANNER_INTERVAL],
        validity_ms=settings[keys.PLANNER_PLAN_VALIDITY],
        clock_ms=lambda: time.monotonic() * 1_000.0,
        sleep_ms=lambda ms: time.sleep(ms / 1_000.0),
        log=log,
        recorder=EventRecorder(events_path, log) if events_path else None,
    )


def main(stdin_fd: int = 0) -> int:
    """Run until the driver is gone. Returns the exit status."""
    # 1. The handshake, and from then on the pipe's end means: leave at once.
    log = make_log(sys.stderr)
    try:
        handshake = read_handshake(stdin_fd)
    except BadInputError as error:
        log.error("%s", error)
        return EXIT_BAD_INPUT
    log = make_log(sys.stderr, handshake.secret)
    _leave_with_the_driver(stdin_fd)
    # 2. Connect, read the settings, build the loop.
    try:
        loop = _start(handshake, log)
    except BadInputError as error:
        log.error("%s", error)
        return EXIT_BAD_INPUT
    except DriverLostError as error:
        log.error("the driver of %s cannot be reached: %s", handshake.app, error)
        return EXIT_DRIVER_LOST
    # 3. What was imported stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    # 4. Plan.
    try:
        loop.run()
    except BadInputError as error:
        log.error("%s", error)
        return EXIT_PROTOCOL
    except DriverLostError as error:
        log.error("the driver of %s is lost: %s", handshake.app, error)
    return EXIT_DRIVER_LOST


def _start(handshake: Handshake, log: logging.Logger) -> PlannerLoop:
    loop = make_loop(Py4jDriver(handshake.port, handshake.secret), log)
    log.info("planning for %s", handshake.app)
    return loop


def _settings(driver: Driver) -> Settings:
    given = json.loads(driver.config())
    return validate({str(name): str(text) for name, text in given.items()})


def _run_store(settings: Settings, log: logging.Logger) -> RunStore | None:
    path = settings[keys.HISTORY_PATH]
    if not path:
        return None
    # SQLite is not imported by those who do not use it.
    from spark_sched.runtime.history import SqliteRuns

    return SqliteRuns(path, log)


def _leave_with_the_driver(fd: int) -> None:
    # Ctrl-C in a terminal reaches the whole process group; the driver decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait_for_end(fd)
        # Not sys.exit: the main thread may be waiting in a call that the dead driver never answers.
        os._exit(0)

    threading.Thread(target=watch, name="spark-sched-driver-watch", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
