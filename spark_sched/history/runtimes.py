"""What 3SigmaPredict has learned of runtimes, in the history."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from spark_sched.history.database import Database
from spark_sched.history.lessons import LessonLog, LessonTables, lesson_of, lesson_row
from spark_sched.history.outbox import Outbox
from spark_sched.predict import LIVE_VALUES_KEPT, Lesson, ThreeSigmaPredict

_TABLES = LessonTables.named("sigma")


class StoredRuntimes(LessonLog[ThreeSigmaPredict, Lesson]):
    """A `spark_sched.predict.RuntimeStore`: one row per ended job."""

    def __init__(self, database: Database, log: logging.Logger | None, outbox: Outbox) -> None:
        super().__init__(database, log, outbox, _TABLES)

    def _new(self) -> ThreeSigmaPredict:
        return ThreeSigmaPredict(LIVE_VALUES_KEPT)

    def _predictor(self, state: ThreeSigmaPredict) -> ThreeSigmaPredict:
        return state

    def _take(self, state: ThreeSigmaPredict, lesson: Lesson) -> Iterable[tuple[str, str]]:
        return (*lesson.features, *state.take(lesson))

    def _row(self, lesson: Lesson) -> dict[str, Any]:
        return lesson_row(lesson)

    def _lesson(self, runtime_s: float, document: Mapping[str, Any]) -> Lesson:
        return lesson_of(runtime_s, document)
