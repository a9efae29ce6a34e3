"""Marks and ordinary threads, and deadlines that count from the start of the job they mark."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from pyspark import InheritableThread
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

import spark_sched
from spark_sched.errors import BadInputError, UnusedMarkWarning
from spark_sched.view.status import Status
from tests.integration.scenarios import wait_until

pytestmark = pytest.mark.integration
HOUR_MS = 3_600_000


@pytest.fixture
def name():
    """Each name is warned of once per process."""
    return f"report-{uuid.uuid4().hex}"


def explained(context, name):
    """All jobs of the name, those that ended included."""
    entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    return Status.from_text(entry.explain(context._jsc.sc(), name)).jobs


def counted(context):
    return lambda rows: context.parallelize(range(rows), 2).count()


def own_name(context):
    return context.getLocalProperty("spark.sched.job.name")


def test_a_mark_that_covers_no_work_warns_once_where_its_block_ends(spark_context, name):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            with spark_sched.job(spark_context, name), ThreadPoolExecutor(2) as pool:
                assert list(pool.map(counted(spark_context), (3, 4))) == [3, 4]
    (warning,) = [each for each in told if each.category is UnusedMarkWarning]
    assert warning.filename == __file__
    assert name in str(warning.message)
    assert "InheritableThread" in str(warning.message)
    assert "spark_sched.propagate" in str(warning.message)
    assert explained(spark_context, name) == ()


def test_a_block_that_failed_does_not_warn(spark_context, name):
    def fail():
        with spark_sched.job(spark_context, name):
            raise OSError("disk")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OSError, match="disk"):
            fail()


def _in_pool(context, work):
    with ThreadPoolExecutor(2) as pool:
        # Its threads are there before the block and know no mark.
        list(pool.map(lambda _: time.sleep(0.01), range(2)))
        assert list(spark_sched.propagate(context, pool).map(work, (3, 4))) == [3, 4]
        assert list(pool.map(lambda _: own_name(context), range(2))) == [None, None]


def _in_thread(context, work):
    thread = threading.Thread(target=spark_sched.propagate(context, work), args=(3,))
    thread.start()
    thread.join()


def _in_event_loop(context, work):
    assert asyncio.run(asyncio.to_thread(spark_sched.propagate(context, work), 3)) == 3


def _inherited(context, work):
    thread = InheritableThread(target=work, args=(3,))
    thread.start()
    thread.join()


@pytest.mark.parametrize("way", [_in_pool, _in_thread, _in_event_loop, _inherited])
def test_work_in_other_threads_belongs_to_the_job(spark_context, name, way):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedMarkWarning)
        with spark_sched.job(spark_context, name, priority=3):
            way(spark_context, counted(spark_context))
    (job,) = explained(spark_context, name)
    assert job.marks.priority == 3
    assert job.outcome == "ended"


def test_models_that_are_fitted_in_parallel_belong_to_the_job(spark_session, name):
    rows = [(Vectors.dense([float(n)]), float(n % 2)) for n in range(12)]
    frame = spark_session.createDataFrame(rows, ["features", "label"]).coalesce(1)
    model = LogisticRegression(maxIter=1)
    grid = ParamGridBuilder().addGrid(model.regParam, [0.1, 0.2]).build()
    validator = CrossValidator(
        estimator=model,
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(),
        numFolds=2,
        parallelism=2,
        seed=1,
    )
    stages_before = {job.job for job in spark_sched.status(spark_session).jobs}
    with spark_sched.job(spark_session, name):
        validator.fit(frame)
        others = {job.job for job in spark_sched.status(spark_session).jobs if job.name != name}
    assert others <= stages_before
    assert len(explained(spark_session.sparkContext, name)) == 1


def test_a_pool_of_processes_has_no_marks(spark_context):
    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(BadInputError, match="have no Spark session: use a ThreadPoolExecutor"),
    ):
        spark_sched.propagate(spark_context, pool)
    with pytest.raises(BadInputError, match="work is 3 but must be a function or an executor"):
        spark_sched.propagate(spark_context, 3)


def test_a_length_of_time_counts_from_the_start_of_the_job(spark_context, name):
    with spark_sched.job(spark_context, name, deadline="1h"):
        first_ms = int(1000 * time.time()) + 200
        wait_until(lambda: 1000 * time.time() > first_ms, "time was to pass")
        spark_context.parallelize(range(2), 2).count()
        (job,) = explained(spark_context, name)
        deadline_ms = job.marks.deadline_ms
        # Later stages of the job do not move it.
        spark_context.parallelize(range(2), 2).count()
        (job,) = explained(spark_context, name)
    assert job.marks.deadline_ms == deadline_ms
    assert first_ms + HOUR_MS <= deadline_ms <= job.times.submitted_ms + HOUR_MS


def test_each_micro_batch_of_a_stream_has_the_length_of_time_from_its_own_start(
    spark_session, tmp_path, name
):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(2):
        (source / f"{number}.json").write_text(json.dumps({"n": number}))
    stream = spark_session.readStream.schema("n int").option("maxFilesPerTrigger", 1).json(str(source))

    def write(batch, _):
        batch.collect()
        time.sleep(0.05)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedMarkWarning)
        with spark_sched.job(spark_session, name, deadline="1h"):
            query = (
                stream.writeStream.foreachBatch(write)
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
    query.awaitTermination()
    batches = explained(spark_session.sparkContext, name)
    assert len(batches) == 2
    assert len({batch.marks.deadline_ms for batch in batches}) == 2
    for batch in batches:
        assert batch.marks.deadline_ms > batch.times.ended_ms
        assert batch.marks.deadline_ms <= batch.times.submitted_ms + HOUR_MS
