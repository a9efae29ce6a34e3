"""What was learned of task times, in the history."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from spark_sched.history.database import Database
from spark_sched.history.lessons import LessonLog, LessonTables, lesson_of, lesson_row
from spark_sched.history.outbox import Outbox
from spark_sched.predict import LIVE_VALUES_KEPT, ThreeSigmaPredict
from spark_sched.predict.tasks.times import StageLesson, TaskTimes

_TABLES = LessonTables.named("task")


class StoredTaskTimes(LessonLog[TaskTimes, StageLesson]):
    """A `spark_sched.predict.tasks.times.TaskTimeStore`: one row per stage of an ended job."""

    def __init__(self, database: Database, log: logging.Logger | None, outbox: Outbox) -> None:
        super().__init__(database, log, outbox, _TABLES)

    def _new(self) -> TaskTimes:
        return TaskTimes(ThreeSigmaPredict(LIVE_VALUES_KEPT))

    def _predictor(self, state: TaskTimes) -> ThreeSigmaPredict:
        return state.predictor

    def _take(self, state: TaskTimes, lesson: StageLesson) -> Iterable[tuple[str, str]]:
        return (*lesson.mean.features, *state.take(lesson))

    def _row(self, lesson: StageLesson) -> dict[str, Any]:
        return lesson_row(lesson.mean, recurs=lesson.recurs, spread=lesson.spread, errors=lesson.errors)

    def _lesson(self, runtime_s: float, document: Mapping[str, Any]) -> StageLesson:
        user, name = document["recurs"]
        errors = document["errors"]
        return StageLesson(
            lesson_of(runtime_s, document),
            (_text(user), _text(name)),
            None if document["spread"] is None else float(document["spread"]),
            None if errors is None else (float(errors[0]), float(errors[1])),
        )

    def _more(self, state: TaskTimes) -> str | None:
        return json.dumps(state.sums(), separators=(",", ":"))

    def _restore_more(self, state: TaskTimes, text: str | None) -> None:
        state.restore_sums(None if text is None else json.loads(text))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
