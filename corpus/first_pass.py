"""The first pass on Spark: files in, documents, failures and file accounts out, in chunks that a killed run keeps.

A chunk is one Spark job over some of the files. When it is whole, its three kinds of rows move into place, the accounts
of its files last: a chunk without them was not finished, and is read again.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
from rich.console import Console

from corpus.document import DOCUMENT
from corpus.progress import spark_progress
from corpus.session import cores
from corpus.sources.config import SourceConfig
from corpus.sources.files import InputFile
from corpus.sources.ingest import OUTCOME, ingest, ingest_schema, pack
from corpus.stage import DocumentStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Length of a chunk: what a killed run may have to do again.
CHUNK_TASKS_PER_CORE = 32

#: The next chunk takes the cores that the last tasks of one leave idle.
CHUNKS_AT_ONCE = 2

#: Folder of each outcome; accounts are moved last.
FOLDERS = {"document": "documents", "failure": "failures", "file": "files"}


class FirstPass:
    """Reads sources and runs the stages that are fused to reading, into `folder`.

    Inputs, config and stages are those of the step whose folder it is: what a run before left there is of the same step.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Sequence[SourceConfig],
        stages: Sequence[DocumentStage],
        *,
        keep_rejected: bool,
        folder: Path,
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.cores = max(spark.sparkContext.defaultParallelism, cores(spark.sparkContext.master))
        self.schema = ingest_schema(stages)
        self.counter = spark.sparkContext.accumulator(0)
        by_name = {source.name: source for source in sources}
        self.work = partial(_ingest_task, by_name, stages, keep_rejected, self.counter)

    def run(self, files: Sequence[InputFile], console: Console, title: str) -> None:
        """Read `files` that are not yet read."""
        from pyspark import inheritable_thread_target

        done = self._resume()
        if done:
            console.print(f"  {len(done):,} of {len(files):,} files were read before")
        tasks = pack([file for file in files if file.id not in done], self.cores)
        length = CHUNK_TASKS_PER_CORE * self.cores
        chunks = [tasks[start : start + length] for start in range(0, len(tasks), length)]
        first = 1 + max((int(path.name) for path in self._place("file").iterdir()), default=-1)
        with (
            spark_progress(self.spark.sparkContext, console, title, self.counter, total=len(tasks)),
            ThreadPoolExecutor(CHUNKS_AT_ONCE) as pool,
        ):
            in_thread = inheritable_thread_target(self.spark)
            futures = [pool.submit(in_thread(self._write_chunk), n, chunk) for n, chunk in enumerate(chunks, first)]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.spark.sparkContext.cancelAllJobs()
                raise
        shutil.rmtree(self.folder / "chunks", ignore_errors=True)
        for outcome in ("document", "failure"):
            if not any(self._place(outcome).iterdir()):
                self._write_empty(self._place(outcome) / "none")

    def _place(self, outcome: str) -> Path:
        return self.folder / FOLDERS[outcome]

    def _resume(self) -> set[str]:
        """Ids of the files that whole chunks hold; what other chunks left is removed."""
        shutil.rmtree(self.folder / "chunks", ignore_errors=True)
        for outcome in FOLDERS:
            self._place(outcome).mkdir(exist_ok=True)
            for chunk in self._place(outcome).iterdir():
                if not (self._place("file") / chunk.name).is_dir():
                    shutil.rmtree(chunk)
        accounts = pads.dataset(self._place("file"), pa.schema([DOCUMENT.field("id")]))
        return set(accounts.to_table()["id"].to_pylist())

    def _write_chunk(self, number: int, tasks: Sequence[Sequence[InputFile]]) -> None:
        name = f"{number:05d}"
        aside = self.folder / "chunks" / name
        listing = self.spark.createDataFrame(
            self.spark.sparkContext.parallelize([(_to_json(task),) for task in tasks], len(tasks)), "files string"
        )
        rows = listing.mapInArrow(self.work, spark_schema(self.schema))
        rows.write.partitionBy(OUTCOME.name).parquet(local_uri(aside))
        for outcome in FOLDERS:
            written = aside / f"{OUTCOME.name}={outcome}"
            if written.exists():
                written.rename(self._place(outcome) / name)
        shutil.rmtree(aside)

    def _write_empty(self, folder: Path) -> None:
        columns = pa.schema([field for field in self.schema if field.name != OUTCOME.name])
        self.spark.createDataFrame([], spark_schema(columns)).write.parquet(local_uri(folder))


def _ingest_task(
    sources: Mapping[str, SourceConfig],
    stages: Sequence[DocumentStage],
    keep_rejected: bool,
    counter: Any,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    files = (
        InputFile(**entry) for batch in batches for text in batch["files"].to_pylist() for entry in json.loads(text)
    )
    for batch in ingest(files, sources, stages, keep_rejected):
        counter.add(batch.num_rows)
        yield batch


def _to_json(task: Sequence[InputFile]) -> str:
    return json.dumps([dataclasses.asdict(file) for file in task])


def local_uri(path: Path) -> str:
    """A path of the workspace for Spark, whatever file system Hadoop takes for its default."""
    return f"file://{path.resolve()}"


def spark_schema(schema: pa.Schema) -> Any:
    """An Arrow schema as Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
