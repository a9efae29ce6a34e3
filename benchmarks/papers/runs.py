"""Runs: what each one is, their execution in several processes, and the store of finished ones."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import spark_sched
import spark_sched_lab
from spark_sched.errors import BadInputError
from spark_sched.files import write_whole

#: JSON results by the run that returned them.
Results = Mapping["RunSpec", Any]


@dataclass(frozen=True)
class Scale:
    """The size of a reproduction: its ``seeds``, and shorter horizons if ``quick``."""

    quick: bool
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class RunSpec:
    """One piece of work that can be done in another process and whose result is kept.

    Attributes:
        function: ``module:name`` of a function of JSON values that returns a JSON value.
        arguments: its keyword arguments as JSON text, keys sorted, so that equal runs are equal and shared.
        weight: its cost relative to others, for the remaining time.
    """

    function: str
    arguments: str
    weight: float = field(default=1.0, compare=False)

    def __call__(self) -> Any:
        module, name = self.function.split(":")
        return getattr(importlib.import_module(module), name)(**json.loads(self.arguments))

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.function}({self.arguments})".encode()).hexdigest()[:24]


def run_of(function: Callable[..., Any], weight: float = 1.0, **arguments: Any) -> RunSpec:
    """A run of a function of some module's top level."""
    name = f"{function.__module__}:{function.__qualname__}"
    return RunSpec(name, json.dumps(arguments, sort_keys=True), weight)


#: ``done(run, kept)``: a run is done; ``kept`` if its result was there already.
Done = Callable[[RunSpec, bool], None]


class Store:
    """Results of runs as files in a folder, written atomically, by the version of the code that made them.

    A result is reused only if the source files of this package are the same, so a change of the code can
    never show an old number.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / code_digest()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInputError(
                f"--out: {folder.parent} cannot be written ({error.strerror}): check the folder"
            ) from None

    def get(self, run: RunSpec) -> Any:
        """The result, or None if it is missing or unusable."""
        try:
            entry = json.loads(self._path(run).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        # The whole text, too: a key is only a digest of it.
        same = isinstance(entry, dict) and (entry.get("function"), entry.get("arguments")) == (
            run.function,
            run.arguments,
        )
        return entry["result"] if same else None

    def put(self, run: RunSpec, result: Any) -> None:
        entry = {"function": run.function, "arguments": run.arguments, "result": result}
        write_whole(self._path(run), json.dumps(entry))

    def _path(self, run: RunSpec) -> Path:
        return self._folder / f"{run.key}.json"


@cache
def code_digest() -> str:
    digest = hashlib.sha256()
    for file in (spark_sched.__file__, spark_sched_lab.__file__, __file__):
        assert file is not None
        root = Path(file).parent
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.json")]):
            digest.update(f"{root.name}/{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def execute(
    runs: Iterable[RunSpec], *, workers: int = 1, store: Store | None = None, done: Done | None = None
) -> Results:
    """The results of ``runs``; a run that is listed several times is executed once.

    With one worker they run in this process, otherwise in that many processes. These end with this one,
    by Ctrl-C or a kill; finished runs are in the store.
    """
    results: dict[RunSpec, Any] = {}
    todo: list[RunSpec] = []
    for run in dict.fromkeys(runs):
        kept = store.get(run) if store is not None else None
        if kept is None:
            todo.append(run)
            continue
        results[run] = kept
        if done is not None:
            done(run, True)
    # The longest runs start first, so that the processes end at about the same time.
    todo.sort(key=lambda run: -run.weight)
    in_turn = ((run, run()) for run in todo)
    for run, result in in_turn if workers == 1 or len(todo) < 2 else _at_once(todo, workers):
        results[run] = result
        if store is not None:
            store.put(run, result)
        if done is not None:
            done(run, False)
    return results


def _at_once(runs: list[RunSpec], workers: int) -> Iterator[tuple[RunSpec, Any]]:
    # Fresh interpreters: a fork of a process with threads (the progress bar's) may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(runs)), mp_context=context, initializer=_begin_worker)
    try:
        waiting = {pool.submit(run): run for run in runs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BaseException:
        # Running calls would continue for up to a minute; their results are not needed.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown()


def _begin_worker() -> None:
    """Ctrl-C reaches every process of the terminal; only the first one prints a message. This one ends with
    it, also if that is killed: nobody would take the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = multiprocessing.parent_process()
    assert first is not None, "only a process of the pool begins like this"

    def watch() -> None:
        first.join()
        os._exit(1)  # sys.exit would end this thread only

    threading.Thread(target=watch, name="spark-sched-first-process-watch", daemon=True).start()
