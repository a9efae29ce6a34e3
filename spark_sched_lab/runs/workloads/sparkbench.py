"""SparkBench's workloads that read or write data sets, in PySpark, and a sort like TeraSort's.

Each function returns numbers that depend on its parameters and the seed only, so that results can be compared
between schedulers. Files are Parquet or CSV by the ending of their name, graphs text lines ``from to``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DAMPING = 0.85
_PI_POINTS = 100_000
LABEL = "label"


def run_sparkpi(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """π from random points, as many for each slice; returns the estimate."""
    slices = int(parameters["slices"])

    def inside(number: int) -> int:
        points = np.random.default_rng([seed, number]).uniform(-1.0, 1.0, (2, _PI_POINTS))
        return int(np.count_nonzero((points**2).sum(axis=0) <= 1.0))

    count = spark.sparkContext.parallelize(range(slices), slices).map(inside).sum()
    return (4.0 * float(count) / (_PI_POINTS * slices),)


def run_cachetest(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Count the input without a cache, while caching it, and from the cache; returns the counts."""
    import time

    data = read_data(spark, parameters["input"])
    counts = [data.count()]
    cached = data.cache()
    try:
        for _ in range(2):
            time.sleep(parameters["sleepms"] / 1000)
            counts.append(cached.count())
    finally:
        cached.unpersist()
    return tuple(float(count) for count in counts)


def run_sql(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """The query over the table ``input``; returns what `checksum` says of its rows."""
    # A view belongs to a session: queries side by side each have their own table of that name.
    session = spark.newSession()
    data = read_data(session, parameters["input"])
    if parameters["cache"]:
        data = data.cache()
    try:
        data.createOrReplaceTempView("input")
        found = session.sql(parameters["query"])
        if parameters["output"] is not None:
            parts = parameters["partitions"]
            write_data(found if parts is None else found.repartition(parts), parameters)
        return checksum(found)
    finally:
        data.unpersist()


def run_kmeans(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """MLlib's KMeans over the numbers of ``input``, or over slow storage without one."""
    from spark_sched_lab.runs.workloads import foreground

    if parameters.get("input") is None:
        return foreground.run_kmeans(spark, parameters, seed)
    from pyspark.ml.clustering import KMeans

    own = parameters["seed"]
    trainer = KMeans(
        k=parameters["k"], maxIter=parameters["maxiterations"], seed=seed if own is None else own
    )
    model = trainer.fit(_features(read_data(spark, parameters["input"])))
    return tuple(sorted(float(x) for centre in model.clusterCenters() for x in centre))


def run_pagerank(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """PageRank over the graph of ``input``, or over slow storage without one; returns the ranks' sum."""
    from spark_sched_lab.runs.workloads import foreground

    if parameters.get("input") is None:
        return foreground.run_pagerank(spark, parameters, seed)
    partitions = int(parameters["partitions"])
    lines = spark.sparkContext.textFile(parameters["input"], partitions)
    edges: Any = lines.map(lambda line: tuple(map(int, line.split()))).distinct(partitions)
    links: Any = edges.groupByKey(partitions).mapValues(lambda targets: sorted(set(targets))).cache()
    ranks: Any = links.mapValues(lambda _: 1.0)

    def shares(page: Any) -> Iterator[tuple[int, float]]:
        targets, rank = page[1]
        return ((target, rank / len(targets)) for target in targets)

    for _ in range(int(parameters["maxiterations"])):
        received = links.join(ranks, partitions).flatMap(shares).reduceByKey(lambda a, b: a + b, partitions)
        ranks = received.mapValues(lambda rank: (1.0 - _DAMPING) + _DAMPING * rank)
    total = ranks.values().sum()
    links.unpersist()
    return (float(total),)


def run_logistic_regression(
    spark: SparkSession, parameters: Mapping[str, Any], seed: int
) -> tuple[float, ...]:
    """MLlib's logistic regression of ``label``; returns the share of right answers on ``testfile``."""
    from pyspark.ml.classification import LogisticRegression

    train, test = (
        _features(read_data(spark, parameters[name])).repartition(int(parameters["numpartitions"]))
        for name in ("input", "testfile")
    )
    if parameters["cacheenabled"]:
        train, test = train.cache(), test.cache()
    model = LogisticRegression(labelCol=LABEL, maxIter=parameters["maxiterations"]).fit(train)
    answers = model.transform(test)
    right, rows = answers.where(f"prediction = {LABEL}").count(), answers.count()
    train.unpersist()
    test.unpersist()
    return (right / max(1, rows), float(rows))


def run_sort(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Sort rows of a random key and 90 bytes by key, as TeraSort does, and check their order.

    Returns the number of rows and of partitions that are out of order, which is 0.
    """
    rows, partitions = int(parameters["rows"]), int(parameters["partitions"])
    data = spark.range(0, rows, 1, partitions).selectExpr(
        f"xxhash64(id, {seed}L) as key", "repeat(cast(id % 10 as string), 90) as value"
    )
    ordered = data.repartitionByRange(partitions, "key").sortWithinPartitions("key")

    def ends(number: int, part: Iterable[Any]) -> Iterator[tuple[int, int, int, int]]:
        keys = np.fromiter((row[0] for row in part), dtype=np.int64)
        if len(keys):
            wrong = int(np.count_nonzero(keys[1:] < keys[:-1]))
            yield int(keys[0]), int(keys[-1]), len(keys), wrong

    found = ordered.rdd.mapPartitionsWithIndex(ends).collect()
    wrong = sum(part[3] for part in found)
    wrong += sum(after[0] < before[1] for before, after in itertools.pairwise(found))
    return float(sum(part[2] for part in found)), float(wrong)


def run_generate_kmeans(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Points around ``k`` random centres; returns the number of rows."""
    cols, clusters, scaling = int(parameters["cols"]), int(parameters["k"]), parameters["scaling"]

    def rows_of(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        centres = np.random.default_rng([seed, 1]).normal(scale=1.0 / scaling, size=(clusters, cols))
        return centres[rng.integers(clusters, size=count)] + rng.normal(scale=scaling, size=(count, cols))

    return _generate(spark, parameters, seed, rows_of, [f"c{n}" for n in range(cols)])


def run_generate_lr(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Rows with a label of 0 or 1 that depends linearly on the others but for noise."""
    cols, eps, intercept = int(parameters["cols"]), parameters["eps"], parameters["intercepts"]

    def rows_of(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        weights = np.random.default_rng([seed, 1]).normal(size=cols)
        x = rng.normal(size=(count, cols))
        label = x @ weights + intercept + eps * rng.normal(size=count) > 0
        return np.column_stack([label.astype(float), x])

    return _generate(spark, parameters, seed, rows_of, [LABEL, *(str(n) for n in range(cols))])


def run_generate_graph(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """A graph whose out-degrees are log-normal, as lines ``from to``; returns the number of vertices."""
    own, vertices = parameters["seed"], int(parameters["vertices"])
    chosen = seed if own is None or own < 0 else int(own)
    partitions = int(parameters["partitions"]) or spark.sparkContext.defaultParallelism
    mu, sigma = parameters["mu"], parameters["sigma"]

    def edges(vertex: int) -> list[str]:
        rng = np.random.default_rng([chosen, vertex])
        degree = min(vertices, max(1, int(rng.lognormal(mu, sigma))))
        return [f"{vertex} {target}" for target in rng.integers(vertices, size=degree).tolist()]

    lines = spark.sparkContext.parallelize(range(vertices), partitions).flatMap(edges)
    text = spark.createDataFrame(lines.map(lambda line: (line,)), "value string")
    text.write.mode(parameters["save-mode"]).text(parameters["output"])
    return (float(vertices),)


def _generate(
    spark: SparkSession, parameters: Mapping[str, Any], seed: int, rows_of: Any, names: list[str]
) -> tuple[float, ...]:
    rows, partitions = int(parameters["rows"]), int(parameters["partitions"])

    def part(number: int, _: Iterable[int]) -> Iterator[tuple[float, ...]]:
        count = rows // partitions + (number < rows % partitions)
        for row in rows_of(np.random.default_rng([seed, 2, number]), count):
            yield tuple(float(x) for x in row)

    made = spark.sparkContext.parallelize(range(partitions), partitions).mapPartitionsWithIndex(part)
    schema = ", ".join(f"`{name}` double" for name in names)
    write_data(spark.createDataFrame(made, schema), parameters)
    return (float(rows),)


def read_data(spark: SparkSession, path: str) -> DataFrame:
    """A data set: CSV with a header if the name ends so, else Parquet."""
    if path.endswith(".csv"):
        return spark.read.csv(path, header=True, inferSchema=True)
    return spark.read.parquet(path)


def write_data(data: DataFrame, parameters: Mapping[str, Any]) -> None:
    """Write to ``output`` in the format of its ending."""
    writer = data.write.mode(parameters["save-mode"])
    if parameters["output"].endswith(".csv"):
        writer.csv(parameters["output"], header=True)
    else:
        writer.parquet(parameters["output"])


def checksum(data: DataFrame) -> tuple[float, ...]:
    """Numbers that depend on every column but not on the rows' order, to be compared with a tolerance.

    The number of rows; a sum of hashes of the columns that are exact; and for each column of floating-point
    numbers the sum of their sizes, and their own sum as a part of it. Floating-point numbers are in no hash:
    their last bits depend on the order in which a shuffle delivers rows.
    """
    exact, inexact = [], []
    # By place: a query may give two columns one name.
    for place, field in enumerate(data.schema.fields):
        kind = field.dataType.simpleString()
        if kind in ("float", "double"):
            inexact.append(f"_{place}")
        else:
            floats = "float" in kind or "double" in kind  # inside an array, a map or a struct
            exact.append(f"_{place} is null" if floats else f"_{place}")
    renamed = data.toDF(*(f"_{place}" for place in range(len(data.columns))))
    hashed = f"sum(pmod(xxhash64({', '.join(exact)}), 1000003))" if exact else "0"
    sums = []
    for name in inexact:
        number = f"nanvl(cast({name} as double), 0d)"
        sums += [f"sum(abs({number})) as a{name}", f"sum({number}) as s{name}"]
    row = renamed.selectExpr("count(*) as n", f"coalesce({hashed}, 0) as h", *sums).first()
    assert row is not None
    found = [float(row["n"]), float(row["h"])]
    for name in inexact:
        size, total = row[f"a{name}"] or 0.0, row[f"s{name}"] or 0.0
        found += [size, total / size if size and np.isfinite(size) else 0.0]
    return tuple(found)


def _features(data: DataFrame) -> DataFrame:
    from pyspark.ml.feature import VectorAssembler

    numbers = [name for name in data.columns if name != LABEL]
    kept = [LABEL] if LABEL in data.columns else []
    return VectorAssembler(inputCols=numbers, outputCol="features").transform(data).select(*kept, "features")
