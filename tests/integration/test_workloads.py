"""The foreground jobs compute what they say, on a real Spark, whatever the scheduling."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from spark_sched_lab.runs.workloads.foreground import (
    CLUSTERS,
    DAMPING,
    FEATURES,
    WORKLOADS,
    ForegroundSize,
    same_results,
)
from spark_sched_lab.runs.workloads.sparkbench import checksum
from spark_sched_lab.runs.workloads.storage import SlowStorage

pytestmark = pytest.mark.integration

STORAGE = SlowStorage(partitions=4, min_read_s=0.0, max_read_s=0.02, seed=5)
SIZE = ForegroundSize(STORAGE, passes=4, rows=25)


@pytest.fixture(scope="session")
def results(spark_session: SparkSession):
    return {name: run(spark_session.sparkContext, SIZE) for name, run in WORKLOADS.items()}


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_a_second_run_gives_the_same_numbers(workload, results, spark_session):
    assert same_results(results[workload], WORKLOADS[workload](spark_session.sparkContext, SIZE))


def test_pagerank_is_the_power_iteration_over_the_same_links(results):
    partitions, rows = STORAGE.partitions, SIZE.rows
    pages = partitions * rows
    links = np.zeros((pages, pages))
    for partition in range(partitions):
        targets = STORAGE.data_rng(partition).integers(0, pages, size=(rows, 4))
        for row, linked in enumerate(targets):
            for target in linked:
                links[target, row * partitions + partition] += 1 / 4
    received = np.zeros(pages)
    for _ in range(SIZE.passes):
        received = links @ ((1 - DAMPING) + DAMPING * received)
    expected = [received[p::partitions].sum() for p in range(partitions)]
    assert results["pagerank"] == pytest.approx(expected)


def test_kmeans_ends_with_centres_near_the_clusters_the_points_were_drawn_around(results):
    centres = np.array(results["kmeans"]).reshape(CLUSTERS, FEATURES)
    # Drawn around 0, 4, 8 and 12 with unit variance: a centre is the mean of points of one or two of them.
    assert centres.min() > -2
    assert centres.max() < 14
    assert np.ptp(centres[:, 0]) > 3


def test_svm_finds_the_direction_that_made_the_labels(results):
    weights, truth = np.array(results["svm"]), np.linspace(-1.0, 1.0, FEATURES)
    cosine = weights @ truth / (np.linalg.norm(weights) * np.linalg.norm(truth))
    assert cosine > 0.9


EXACT = {"key": "id", "word": "concat('word ', id)", "many": "array(double(id))"}


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        pytest.param({"share": "(1d / (id + 1) - 0.3d) * (1d + 1e-14d)"}, True, id="last bits"),
        pytest.param({"share": "if(id = 7, 0.9d, 1d / (id + 1) - 0.3d)"}, False, id="a float"),
        pytest.param({"word": "if(id = 7, 'another', concat('word ', id))"}, False, id="a text"),
        pytest.param({"many": "if(id = 7, null, array(double(id)))"}, False, id="an array that is missing"),
    ],
)
def test_a_checksum_sees_every_column_but_not_the_last_bits_of_floats(spark_session, changed, same):
    def summed(columns):
        named = [f"{text} as {name}" for name, text in columns.items()]
        return checksum(spark_session.range(0, 20, 1, 1).selectExpr(*named))

    columns = {**EXACT, "share": "1d / (id + 1) - 0.3d"}
    assert same_results(summed(columns), summed(columns | changed)) is same


def test_a_checksum_of_no_rows_is_zero_in_every_column(spark_session):
    assert checksum(spark_session.sql("select 1 as a, 2d as b where false")) == (0.0, 0.0, 0.0, 0.0)
    assert checksum(spark_session.sql("select double('nan') as a, float(2) as a")) == (
        1.0,
        0.0,
        0.0,
        0.0,
        2.0,
        1.0,
    )
