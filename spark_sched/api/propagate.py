"""Carrying a thread's marks to ordinary threads: ``spark_sched.propagate(spark, pool)``."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, overload

from spark_sched.api.attached import context_of, is_connect
from spark_sched.errors import BadInputError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Makes this thread one with the captured properties, until the end of the block.
_Carried: TypeAlias = Callable[[], AbstractContextManager[None]]


@overload
def propagate(spark: SparkSession | SparkContext, work: Executor) -> Executor: ...
@overload
def propagate(spark: SparkSession | SparkContext, work: Callable[_P, _T]) -> Callable[_P, _T]: ...
def propagate(spark: SparkSession | SparkContext, work: Any) -> Any:
    """Let work that ordinary threads do carry the marks of the thread that hands it to them.

    Marks, like all local properties of Spark, belong to a thread, and threads of a pool do not inherit them.
    With ``pool = propagate(spark, ThreadPoolExecutor(4))`` each ``pool.submit`` and ``pool.map`` carries the
    marks that its caller has then. With ``propagate(spark, function)`` the function carries the marks that
    the caller of ``propagate`` has, wherever it runs: ``threading.Thread(target=…)``,
    ``asyncio.to_thread(…)``, ``joblib.delayed(…)`` with ``backend="threading"``. Afterwards the thread has
    its own properties again.

    ``CrossValidator`` and ``TrainValidationSplit`` with ``parallelism``, and ``pyspark.InheritableThread``,
    carry marks by themselves.

    Args:
        spark: the session or context, of Spark or of Spark Connect.
        work: a function, or an executor of threads. Its threads may be there already.

    Returns:
        A function with the same signature, or an executor whose work runs in the given one.

    Raises:
        BadInputError: ``work`` is neither, or an executor of processes, which have no session.
    """
    if isinstance(work, ProcessPoolExecutor):
        raise BadInputError(
            f"work is {work!r}, whose processes have no Spark session: use a ThreadPoolExecutor"
        )
    if isinstance(work, Executor):
        return _CarryingExecutor(spark, work)
    if not callable(work):
        raise BadInputError(f"work is {work!r} but must be a function or an executor of threads")
    return _carrying(_captured(spark), work)


class _CarryingExecutor(Executor):
    """Runs work in another executor with the properties of the thread that submits it."""

    def __init__(self, spark: Any, inner: Executor) -> None:
        self._spark = spark
        self._inner = inner

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        return self._inner.submit(_carrying(_captured(self._spark), fn), *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait, cancel_futures=cancel_futures)


def _carrying(carried: _Carried, work: Callable[_P, _T]) -> Callable[_P, _T]:
    @functools.wraps(work)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with carried():
            return work(*args, **kwargs)

    return run


def _captured(spark: Any) -> _Carried:
    """The properties of this thread."""
    if is_connect(spark):
        of_thread = spark.client.thread_local
        return functools.partial(_with_attributes, of_thread, copy.deepcopy(vars(of_thread)))
    context = context_of(spark)
    return functools.partial(_with_properties, context, context._jsc.sc().getLocalProperties().clone())


@contextmanager
def _with_properties(context: Any, properties: Any) -> Iterator[None]:
    java_context = context._jsc.sc()
    own = java_context.getLocalProperties()
    # Several threads may run at once, and what one sets is its own.
    java_context.setLocalProperties(properties.clone())
    try:
        yield
    finally:
        if context._jsc is not None:  # else the work stopped the context
            java_context.setLocalProperties(own)


@contextmanager
def _with_attributes(of_thread: Any, attributes: dict[str, Any]) -> Iterator[None]:
    """A Connect client keeps its tags in attributes of the thread."""
    own = dict(vars(of_thread))
    vars(of_thread).clear()
    vars(of_thread).update(copy.deepcopy(attributes))
    try:
        yield
    finally:
        vars(of_thread).clear()
        vars(of_thread).update(own)
