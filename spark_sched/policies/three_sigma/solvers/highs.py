"""HiGHS through its own Python package (`pip install 'spark-sched[solvers]'`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.policies.three_sigma.milp import LinearProgram
from spark_sched.policies.three_sigma.solvers.linear import LinearSolution, LinearSolver


class Highs(LinearSolver):
    """HiGHS's branch and cut.

    HiGHS checks its time limit only occasionally, so it exceeds the limit on large problems. Importing
    highspy and ortools into one process crashes, so this module imports it when it is made.
    """

    name = "highs"

    def __init__(self) -> None:
        try:
            import highspy
        except ImportError:
            raise BadInputError(
                "the solver 'highs' needs the package highspy: pip install 'spark-sched[solvers]', or choose "
                "'prices'"
            ) from None
        self._highspy: Any = highspy
        _to_stderr(highspy.Highs)

    def maximise(self, program: LinearProgram, gap: float, limit_s: float | None = None) -> LinearSolution:
        highs = self._highspy.Highs()
        highs.silent()
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("mip_rel_gap", gap)
        if limit_s is not None:
            highs.setOptionValue("time_limit", limit_s)
        highs.passModel(self._model(program))
        highs.run()
        info, status = highs.getInfo(), highs.getModelStatus()
        found = int(info.primal_solution_status) == 2  # feasible
        return LinearSolution(
            np.array(highs.getSolution().col_value) if found else None,
            float(info.mip_dual_bound) if np.isfinite(info.mip_dual_bound) else np.inf,
            status == self._highspy.HighsModelStatus.kOptimal,
            highs.modelStatusToString(status),
        )

    def _model(self, milp: LinearProgram) -> Any:
        h = self._highspy
        model = h.HighsLp()
        model.num_col_, model.num_row_ = milp.columns, milp.rows
        model.sense_ = h.ObjSense.kMaximize
        model.col_cost_ = milp.objective
        model.col_lower_ = np.zeros(milp.columns)
        model.col_upper_ = np.where(np.isinf(milp.upper), h.kHighsInf, milp.upper)
        model.row_lower_ = np.where(np.isinf(milp.row_lower), -h.kHighsInf, milp.row_lower)
        model.row_upper_ = milp.row_upper
        model.a_matrix_.format_ = h.MatrixFormat.kRowwise
        model.a_matrix_.start_ = milp.row_start.astype(np.int32)
        model.a_matrix_.index_ = milp.column.astype(np.int32)
        model.a_matrix_.value_ = milp.value
        kinds = h.HighsVarType
        model.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in milp.whole.tolist()]
        return model


def _to_stderr(first: Callable[[], object]) -> None:
    """Call it with the process's standard output going to standard error.

    HiGHS 1.16 prints its name when a process makes its first solver, before any option can silence it. On
    standard output that line would stand before a command's JSON.
    """
    try:
        kept = os.dup(1)
    except OSError:  # closed: nothing can be printed there
        first()
        return
    try:
        with contextlib.suppress(OSError):  # no standard error
            os.dup2(2, 1)
        first()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
