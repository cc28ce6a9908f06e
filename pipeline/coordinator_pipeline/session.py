"""The Spark session of a run, with the data source `coordinator_log` registered."""

import logging
import os
import sys
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import coordinator_protocol
from coordinator_pipeline.errors import PipelineError
from coordinator_pipeline.java import java_home
from coordinator_pipeline.source.datasource import register

DEFAULT_MASTER: Final = "local[*]"
_PROTOCOL: Final = str(coordinator_protocol.__file__)
_FOLDERS: Final = [str(Path(package).resolve().parent.parent) for package in (__file__, _PROTOCOL)]
"""The folders of both packages: a checkout that is not installed has two."""
_LOGGING: Final = Path(__file__).resolve().with_name("log4j2.properties")


def open_session(
    master: str | None = None, *, partitions: int | None = None, name: str = "coordinator-pipeline"
) -> SparkSession:
    """Open a session, or configure the active one.

    An active session keeps its master, memory and interpreter: they are fixed at its start.

    Args:
        master: Spark's master; None is that of spark-submit, else `local[*]`.
        partitions: The number of tasks of a shuffle, by default two for each core.
        name: The name of the application.

    Raises:
        PipelineError: there is no Java, or Spark does not start.
    """
    running = SparkSession.getActiveSession()
    if running is None:
        _prepare_environment()
        running = _start(master, name)
    cores = int(running.sparkContext.defaultParallelism)
    running.conf.set("spark.sql.shuffle.partitions", str(partitions or max(2, 2 * cores)))
    running.conf.set("spark.sql.session.timeZone", "UTC")
    running.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    running.sparkContext.setLogLevel("OFF")
    # This logger prints the error of a wrong query as JSON; the command line prints one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # The query raises the error of a failed batch.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    register(running)
    return running


def _start(master: str | None, name: str) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    given = "spark.master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or _submitted()
    if master or not given:
        builder = builder.master(master or DEFAULT_MASTER)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise PipelineError(
            f"Spark did not start (master {master or DEFAULT_MASTER!r}): {reason}"
        ) from None


_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "false",
    "spark.sql.parquet.compression.codec": "snappy",
    # Cached rows stay partitioned by group, so queries by group need no shuffle.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
    # A log has few days: Spark opens a file for each instead of sorting all rows by day.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # The driver lists files faster than a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Every batch of a stream has the same queries: the cache keeps their compiled code.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Runs are short: the driver's C2 compiler costs more time than it saves. Executors use it.
    "spark.driver.extraJavaOptions": (
        f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} -XX:TieredStopAtLevel=1"
        " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
    ),
    "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
}


def _submitted() -> bool:
    """Whether spark-submit has started this process and chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _prepare_environment() -> None:
    """Set the Java, the interpreter of the workers, and the path of their modules."""
    if home := java_home():
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [*_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
