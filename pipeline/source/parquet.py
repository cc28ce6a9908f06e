"""The log to Parquet files without a detour over the JVM: Spark's tasks write what they decode.

Every row that Spark itself writes goes from Arrow to Java objects first, which costs several times
what decoding does. The files are plain Parquet for everybody. The directory must be one that
all executors share, as with `path`.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pipeline.source.datasource import LogReader, OffsetRange, open_log
from pipeline.source.options import parse


def write_parquet(spark: SparkSession, options: Mapping[str, str], directory: Path) -> int:
    """Write the log into a new directory, a file for each log partition; returns how many rows.

    `options` are those of `coordinator_log`. Raises SourceError, FileExistsError.
    """
    given = dict(options)
    ranges = LogReader(parse(given)).ranges()
    directory.mkdir(parents=True)
    if not ranges:
        return 0
    tasks = spark.sparkContext.parallelize(ranges, len(ranges))
    return int(tasks.map(lambda found: write_range(given, found, directory)).sum())


def write_range(options: Mapping[str, str], found: OffsetRange, directory: Path) -> int:
    """Write a range of one log partition into a file that is there when it is whole."""
    parsed = parse(options)
    path = directory / f"part-{found.log_partition:05d}-{found.start:020d}.parquet"
    unfinished = path.with_name(f".{path.name}.unfinished")
    log, rows = open_log(parsed), 0
    with pq.ParquetWriter(unfinished, parsed.schema, compression="snappy") as writer:
        for batch in log.read(found.log_partition, found.start, found.end, found.incarnation):
            writer.write_batch(batch)
            rows += batch.num_rows
    unfinished.rename(path)
    return rows
