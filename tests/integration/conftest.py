"""Spark applications and clusters that several tests share."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_sched_lab.runs.clusters import LocalCluster
from tests.integration.attached import ONCE
from tests.integration.harness import Driver, Scenario
from tests.integration.processes import processes_naming, until


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    """The driver program in which scenarios run."""
    program = Driver()
    yield program
    program.stop()


@pytest.fixture
def scenario(request: pytest.FixtureRequest, driver: Driver) -> Scenario:
    """``scenario(name)`` runs it on the master and with the settings of the test's ``on(…)``."""
    mark = request.node.get_closest_marker("application")
    return functools.partial(_run, driver, mark.args)


def _run(driver: Driver, where: tuple[str, ...], name: str, *settings: str, **how: Any) -> dict[str, Any]:
    return driver.run(name, *where, *settings, **how)


@pytest.fixture(scope="session")
def standalone() -> Iterator[LocalCluster]:
    """A standalone cluster of two workers with two cores each, of which nothing is left afterwards.

    Tests that use it are in one file, so that there is one.
    """
    with LocalCluster(workers=2, cores_per_worker=2, memory="1g", start_timeout_s=300) as cluster:
        directory = cluster._directory
        yield cluster
    assert until(lambda: not directory.exists())
    assert until(lambda: not processes_naming(directory.name))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the event logs of a module's application are."""
    return tmp_path_factory.mktemp("event-logs")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A script whose session is attached by configuration alone; it prints what `assert_attached` checks."""
    path = tmp_path / "app.py"
    path.write_text(ONCE)
    return path
