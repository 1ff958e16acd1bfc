"""A quiet Spark session on any master, with this package and what it needs on every executor."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict, Field

from corpus.problems import UserError
from corpus.workspace import fingerprint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where the shipped packages are unpacked, in an executor's working folder.
SHIPPED = "millrace_packages"

LOG_CONFIG = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


class ClusterConfig(BaseModel):
    """Where a corpus is computed. Nothing here changes what it contains."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = Field("local[*]", description="Spark master: local[N], spark://host:port, yarn, k8s://...")
    driver_memory: str = Field("4g", description="heap of the driver")
    executor_memory: str = Field("4g", description="heap of an executor; Python workers come on top")
    python: str | None = Field(
        None, description="interpreter on the executors; none: the same path if local, else python of this version"
    )
    shuffle_partitions: int | None = Field(
        None, gt=0, description="none: four for each core of a local master, else 256"
    )
    cache: str = Field("~/.cache/millrace", description="where packed packages for executors are kept")
    spark: dict[str, str] = Field(default_factory=dict, description="any further Spark properties")


def is_local(master: str) -> bool:
    """Whether executors run on this machine, and so see this interpreter and its packages."""
    return master.startswith("local")


@contextlib.contextmanager
def spark_session(cluster: ClusterConfig, logs: Path) -> Iterator[SparkSession]:
    """A Spark session; its log, and whatever the JVM prints, go to files in `logs`."""
    logs.mkdir(parents=True, exist_ok=True)
    if is_local(cluster.master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    python = cluster.python or (
        sys.executable if is_local(cluster.master) else f"python{sys.version_info.major}.{sys.version_info.minor}"
    )
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with _stderr_to(logs / "jvm.log"):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(cluster.master).appName("millrace")
        for key, value in _properties(cluster, logs).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _properties(cluster: ClusterConfig, logs: Path) -> dict[str, str]:
    log_config = logs / "log4j2.properties"
    log_config.write_text(LOG_CONFIG.format(path=(logs / "spark.log").resolve()))
    properties = {
        "spark.driver.memory": cluster.driver_memory,
        "spark.executor.memory": cluster.executor_memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_config.resolve().as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cluster.shuffle_partitions or 4 * cores(cluster.master)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
        # The first pass writes documents, failures and file accounts side by side: without sorting them first.
        "spark.sql.maxConcurrentOutputFileWriters": "8",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.python.worker.reuse": "true",
        # Each core has a task of its own.
        "spark.executorEnv.TOKENIZERS_PARALLELISM": "false",
    }
    if is_local(cluster.master):
        properties["spark.driver.bindAddress"] = "127.0.0.1"
    else:
        archive = pack_packages(Path(cluster.cache).expanduser())
        properties["spark.archives"] = f"{archive.resolve().as_uri()}#{SHIPPED}"
        properties["spark.executorEnv.PYTHONPATH"] = f"./{SHIPPED}"
    return properties | cluster.spark


def cores(master: str) -> int:
    """Cores that a master's name tells of; for a real cluster, where it does not, a number fit for a small one."""
    if found := re.fullmatch(r"local-cluster\[(\d+),\s*(\d+),\s*\d+\]", master):
        return int(found[1]) * int(found[2])
    if found := re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master):
        return int(found[1])
    if master == "local":
        return 1
    return os.cpu_count() or 1 if master.startswith("local") else 64


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send what this process and the JVM that it starts print to stderr into a file; the JVM keeps the file for good."""
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def pack_packages(cache: Path) -> Path:
    """A .tar.gz of this project and of every package that it needs on an executor, made once for each set of versions.

    Executors bring their own interpreter, of this version, and nothing else. pyspark is left out: Spark has its own.
    """
    packages = _needed("millrace", "corpus")
    own = [Path(__file__).resolve().parent, Path(__file__).resolve().parent.parent / "pipelines"]
    stamp = fingerprint(
        sorted((dist.metadata["Name"], dist.version) for dist in packages),
        sorted((str(path), path.stat().st_mtime_ns) for folder in own for path in folder.rglob("*.py")),
        sys.version_info[:3],
    )
    archive = cache / f"packages-{stamp}.tar.gz"
    if archive.exists():
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f"{archive.name}.{os.getpid()}.partial")
    with tarfile.open(partial, "w:gz", compresslevel=3) as tar:
        for folder in own:
            tar.add(folder, folder.name, filter=_no_caches)
        for dist in packages:
            for file in dist.files or ():
                if ".." not in file.parts and file.suffix != ".pyc" and Path(str(dist.locate_file(file))).is_file():
                    tar.add(str(dist.locate_file(file)), str(file))
    partial.rename(archive)
    return archive


def _no_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


def _needed(name: str, extra: str) -> list[importlib.metadata.Distribution]:
    """The installed packages that `name[extra]` needs, itself and pyspark left out, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [(name, {extra})]
    while waiting:
        current, extras = waiting.pop()
        dist = importlib.metadata.distribution(current)
        for line in dist.requires or ():
            requirement = Requirement(line)
            key = requirement.name.lower().replace("_", "-")
            wanted = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}
            )
            if not wanted or key in found or key in {"pyspark", "py4j", name}:
                continue
            try:
                found[key] = importlib.metadata.distribution(requirement.name)
            except importlib.metadata.PackageNotFoundError as error:
                raise UserError(
                    f"{requirement.name} cannot be shipped to executors, it is not installed: pip install 'millrace[corpus]'"
                ) from error
            waiting.append((requirement.name, set(requirement.extras)))
    return [found[key] for key in sorted(found)]
