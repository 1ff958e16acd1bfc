"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """A folder of real files that lie beside the checkout (or in $MILLRACE_TEST_DATA); the test is skipped without them."""
    base = Path(os.environ.get("MILLRACE_TEST_DATA", ROOT.parent / "shared" / "data"))

    def group(name: str) -> Path:
        folder = base / name
        if not folder.is_dir():
            pytest.skip(f"no real files in {folder}: set MILLRACE_TEST_DATA to the folder that holds {name}/")
        return folder

    return group


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the suite: two cores of this machine."""
    from corpus.session import ClusterConfig, spark_session

    cluster = ClusterConfig(master="local[2]", driver_memory="2g", shuffle_partitions=4)
    with spark_session(cluster, tmp_path_factory.mktemp("spark")) as session:
        yield session
