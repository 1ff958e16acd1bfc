"""Runs the plan of a corpus on Spark, step by step.

Each step is written aside, counted from what was written, checked for conservation and only then given its final name.
A step that is already there under its fingerprint is not run again.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
from rich.console import Console

from corpus import datasets, ledger
from corpus.first_pass import FirstPass, local_uri, spark_schema
from corpus.indexed import dtype_for
from corpus.manifest import Dataset, Manifest, ManifestError, blend_weights, check_weights
from corpus.manifest import load as load_manifest
from corpus.plan import FORMAT_VERSION, Plan, Step
from corpus.problems import UserError
from corpus.progress import spark_progress
from corpus.stage import CorpusStage, DocumentStage, fused, output_schema
from corpus.tokenizer import Tokenizer
from corpus.tokenizer import load as load_tokenizer
from corpus.tokenizer import train as train_tokenizer
from corpus.workspace import Workspace, fingerprint, write_aside

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Bad records of each source, and ids given twice, that a step's record names.
NAMED_FAILURES = 20

#: File name of the tokenizer, in its step and beside the datasets.
TOKENIZER = "tokenizer.model"


class Engine:
    """One run of one plan."""

    def __init__(self, plan: Plan, spark: SparkSession, console: Console) -> None:
        self.config, self.files, self.steps = plan.config, plan.files, plan.steps
        self.loaded_tokenizer = plan.tokenizer
        self.spark = spark
        self.console = console
        self.workspace = Workspace(Path(plan.config.workspace))

    def run(self) -> Manifest:
        """Build the corpus, or what is missing of it, and give its manifest.

        Raises: UserError if too many records are bad or a config value cannot work; ConservationError, StageError if a
        stage is broken.
        """
        self._ship_own_stages()
        counts: ledger.Counts = {}
        funnel: list[dict[str, Any]] = []
        for step in self.steps:
            if self.workspace.is_done(step.directory):
                self.console.print(f"[dim]{step.name}: done before, {step.directory}[/dim]")
            else:
                self.run_step(step, counts)
            record = self.workspace.record(step.directory)
            counts = {(source, reason): count for source, reason, count in record["counts"]}
            funnel += record["ledger"]
            if step.number == 0:
                self._check_bad(record)
                sources = sorted({source for source, _ in counts})
                self._warn_of_idle_stages(sources)
                whole = {source.name for source in self.config.sources if not source.split_field}
                check_weights(whole.union(sources), self.config.blend)
        return self._datasets(funnel)

    def documents(self, step: Step) -> DataFrame:
        """The documents that a finished step wrote."""
        return self._read(self.workspace.step(step.directory) / "documents")

    def _read(self, written: Path) -> DataFrame:
        """Parquet files of a folder and the folders in it: the first pass has one for each chunk."""
        return self.spark.read.parquet(local_uri(written), recursiveFileLookup=True)

    # --- document and corpus stages

    def run_step(self, step: Step, before: ledger.Counts) -> None:
        """Run a step and publish it; `before` counts what the step before it left."""
        started = time.monotonic()
        record = self._ingest(step) if step.number == 0 else self._transform(step, before)
        record |= {"name": step.name, "fingerprint": step.fingerprint, "seconds": round(time.monotonic() - started, 1)}
        self.workspace.publish(step.directory, record)
        rows = record["ledger"]
        entered, kept = sum(row["in"] for row in rows), sum(row["kept"] for row in rows)
        self.console.print(f"{step.name}: {kept:,} of {entered:,} documents kept, {record['seconds']:.0f} s")

    def _ingest(self, step: Step) -> dict[str, Any]:
        folder = self.workspace.resume(step.directory)
        stages, keep_rejected = _document_stages(step), self.config.keep_rejected
        first_pass = FirstPass(self.spark, self.config.sources, stages, keep_rejected=keep_rejected, folder=folder)
        first_pass.run(self.files, self.console, step.name)
        documents, failures = self._counts(folder / "documents"), self._counts(folder / "failures")
        files = self._read(folder / "files").select("id", "source", "metadata")
        accounts = [
            {"id": row["id"], "source": row["source"]} | dict(row["metadata"]) for row in files.toLocalIterator()
        ]
        rows = ledger.ingested(step.name, documents, failures, accounts, len(self.files))
        return {
            "ledger": [row.as_dict() for row in rows],
            "counts": _as_json(documents),
            "records": ledger.records(accounts),
            "broken_files": ledger.broken_files(accounts),
            "failures": self._named_failures(folder / "failures") if failures else [],
            "repeated_record_ids": self._repeated_ids(folder / "documents"),
        }

    def _transform(self, step: Step, before: ledger.Counts) -> dict[str, Any]:
        folder = self.workspace.begin(step.directory)
        upstream = self.documents(self.steps[step.number - 1])
        counter = None
        if isinstance(step.stages[0], CorpusStage):
            output = step.stages[0].run(upstream)
            if not self.config.keep_rejected:
                output = _without_dropped_text(output)
        else:
            stages = _document_stages(step)
            schema = output_schema(stages, _arrow_schema(upstream))
            counter = self.spark.sparkContext.accumulator(0)
            work = partial(_fused_task, stages, self.config.keep_rejected, counter)
            output = upstream.mapInArrow(work, spark_schema(schema))
        with spark_progress(self.spark.sparkContext, self.console, step.name, counter):
            output.write.parquet(local_uri(folder / "documents"))
        after = self._counts(folder / "documents")
        return {"ledger": [row.as_dict() for row in ledger.follow(step.name, before, after)], "counts": _as_json(after)}

    def _counts(self, written: Path) -> ledger.Counts:
        """Counted from what was written, never from what the writer thought it wrote."""
        rows = self._read(written).groupBy("source", "dropped").count().collect()
        return {(row["source"], row["dropped"]): row["count"] for row in rows}

    def _named_failures(self, written: Path) -> list[dict[str, str]]:
        """The first of each source."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        place = F.row_number().over(Window.partitionBy("source").orderBy("id"))
        rows = self._read(written).select("source", "id", "metadata", place.alias("place"))
        first = rows.where(F.col("place") <= NAMED_FAILURES).orderBy("source", "place").collect()
        return [{"source": row["source"]} | dict(row["metadata"]) for row in first]

    def _repeated_ids(self, written: Path) -> dict[str, Any]:
        """Ids that the sources themselves gave to more than one record: no harm here, but a sign of a bad shard."""
        from pyspark.sql import functions as F

        own = self._read(written).select("source", F.col("metadata")["record_id"].alias("own"), "id")
        repeated = (
            own.where("own is not null")
            .groupBy("source", "own")
            .agg(F.count("*").alias("times"), F.min("id").alias("first"))
        ).where("times > 1")
        examples = repeated.orderBy("source", "own").limit(NAMED_FAILURES).collect()
        ids, records = len(examples), sum(row["times"] for row in examples)
        if ids == NAMED_FAILURES:
            ids, records = repeated.agg(F.count("*"), F.sum("times")).first()
        return {
            "ids": ids,
            "records": records,
            "examples": [{"record_id": row["own"], "times": row["times"], "first": row["first"]} for row in examples],
        }

    def _check_bad(self, record: dict[str, Any]) -> None:
        """Of each source as the config names it; subsets that it was split into count together."""
        for source, (documents, failures) in record["records"].items():
            if failures:
                self.console.print(f"  {source}: {failures:,} of {documents + failures:,} records could not be read")
            broken, files = record["broken_files"][source]
            if failures > self.config.max_bad_fraction * (documents + failures):
                self._stop(record, source, f"{failures:,} of {documents + failures:,} records could not be read")
            if broken > max(1, self.config.max_bad_fraction * files):
                self._stop(record, source, f"{broken:,} of {files:,} files break off or could not be read")

    def _stop(self, record: dict[str, Any], source: str, what: str) -> NoReturn:
        first = next(failure for failure in record["failures"] if failure["source"] == source)
        raise UserError(
            f"source {source}: {what}, more than max_bad_fraction {self.config.max_bad_fraction:g}; the first: "
            f"{first['reason']} at {first['offset']} of {first['file']}; all are in "
            f"{self.workspace.step(self.steps[0].directory) / 'failures'}"
        )

    def _warn_of_idle_stages(self, sources: Sequence[str]) -> None:
        for stage in self.config.stages:
            for key, name in stage.unmatched(sources):
                self.console.print(
                    f"warning: stages: {stage.name}.{key} names {name!r}; the sources are {', '.join(sources)}",
                    markup=False,
                    soft_wrap=True,
                )

    # --- tokenizer, tokens, datasets

    def _datasets(self, funnel: list[dict[str, Any]]) -> Manifest:
        last = self.steps[-1]
        tokenizer, mark = self._tokenizer(last)
        tokens = fingerprint(FORMAT_VERSION, last.fingerprint, mark, self.config.seed)
        written = self._joined_before(tokens)
        if written is None:
            dtype = dtype_for(tokenizer.vocab_size)
            directory = f"{len(self.steps) + 1:02d}-tokenise-{tokens}"
            if not self.workspace.is_done(directory):
                self._tokenise(directory, last, tokenizer, dtype)
            written = self._join(directory, dtype, funnel, tokenizer)
        else:
            self.console.print("[dim]datasets: done before[/dim]")
        manifest = self._manifest(tokens, tokenizer, written, funnel)
        write_aside(self.workspace.manifest, manifest.to_yaml())
        return manifest

    def _joined_before(self, tokens: str) -> dict[str, dict[str, Any]] | None:
        """What the manifest says of datasets with these tokens; None if there are none, or not all of their files."""
        try:
            manifest = load_manifest(self.workspace.manifest)
        except ManifestError:
            return None
        files = [f"{dataset.prefix}.{ending}" for dataset in manifest.datasets for ending in dataset.sha256]
        files.append(manifest.tokenizer["path"])
        if manifest.fingerprint != tokens or not all((self.workspace.root / file).is_file() for file in files):
            return None
        return {
            dataset.name: {key: getattr(dataset, key) for key in ("documents", "tokens", "dtype", "sha256")}
            for dataset in manifest.datasets
        }

    def _tokenizer(self, last: Step) -> tuple[Tokenizer, str]:
        """The tokenizer, and what stands for it in fingerprints."""
        wanted = self.config.tokenizer
        if self.loaded_tokenizer is not None:
            return self.loaded_tokenizer, fingerprint(self.loaded_tokenizer.fingerprint, wanted.eod)
        mark = fingerprint(last.fingerprint, wanted.model_dump(mode="json"), self.config.seed)
        directory = f"{len(self.steps):02d}-tokenizer-{mark}"
        if self.workspace.is_done(directory):
            self.console.print(f"[dim]tokenizer: done before, {directory}[/dim]")
        else:
            started = time.monotonic()
            folder = self.workspace.begin(directory)
            with spark_progress(self.spark.sparkContext, self.console, "tokenizer"):
                trained = train_tokenizer(self._sample(last, wanted.sample_mb * 1e6), wanted, folder / TOKENIZER)
            seconds = round(time.monotonic() - started, 1)
            self.workspace.publish(directory, {"name": "tokenizer", "fingerprint": mark, "seconds": seconds})
            self.console.print(f"tokenizer: {wanted.kind}, {trained.vocab_size:,} tokens, {seconds:.0f} s")
        return load_tokenizer(self.workspace.step(directory) / TOKENIZER), mark

    def _sample(self, last: Step, sample_bytes: float) -> Iterator[str]:
        """At least `sample_bytes` UTF-8 bytes of texts if there are so many, drawn by a hash of (seed, id)."""
        from pyspark.sql import functions as F

        live = self._live(last).withColumn("draw", self._order())
        size = F.coalesce(F.sum(F.octet_length("text")), F.lit(0))
        total = live.agg(size).first()[0]
        if not total:
            raise UserError("no text was kept to train a tokenizer on: every document was dropped")
        share = min(1.0, 2 * sample_bytes / total)
        drawn = live.where(F.col("draw") <= min(int(-(2**63) + share * 2**64), 2**63 - 1))
        if share < 1 and drawn.agg(size).first()[0] < sample_bytes:
            drawn = live  # few and large documents
        return (row["text"] for row in drawn.select("text").toLocalIterator())

    def _order(self) -> Column:
        from pyspark.sql import functions as F

        return F.xxhash64(F.lit(self.config.seed).cast("long"), F.col("id"))

    def _live(self, step: Step) -> DataFrame:
        return self.documents(step).where("dropped is null and text is not null")

    def _tokenise(self, directory: str, last: Step, tokenizer: Tokenizer, dtype: np.dtype) -> None:
        started = time.monotonic()
        folder = self.workspace.begin(directory)
        live = self._live(last).withColumn("order", self._order())
        keys = ("source", "order", "id")
        ordered = live.repartitionByRange(*keys).sortWithinPartitions(*keys)
        columns = [name for name in datasets.PROVENANCE.names if name != "tokens"]
        counter = self.spark.sparkContext.accumulator(0)
        work = partial(_tokenise_task, tokenizer, dtype, counter)
        tokenised = ordered.select("source", *columns, "text").mapInArrow(work, spark_schema(datasets.TOKENISED))
        with spark_progress(self.spark.sparkContext, self.console, "tokenise", counter):
            tokenised.write.parquet(local_uri(folder / "tokens"))
        seconds = round(time.monotonic() - started, 1)
        self.workspace.publish(directory, {"name": "tokenise", "seconds": seconds})
        self.console.print(f"tokenise: {seconds:.0f} s")

    def _join(
        self, directory: str, dtype: np.dtype, funnel: list[dict[str, Any]], tokenizer: Tokenizer
    ) -> dict[str, dict[str, Any]]:
        self.workspace.manifest.unlink(missing_ok=True)
        shutil.rmtree(self.workspace.datasets, ignore_errors=True)
        parts = sorted((self.workspace.step(directory) / "tokens").glob("part-*.parquet"))
        written = datasets.join(parts, self.workspace.datasets, dtype)
        self._check_tokenised(written, funnel)
        tokenizer.save(self.workspace.datasets / TOKENIZER)
        return written

    def _manifest(
        self, tokens: str, tokenizer: Tokenizer, written: dict[str, dict[str, Any]], funnel: list[dict[str, Any]]
    ) -> Manifest:
        sources = {source.name for source in self.config.sources if not source.split_field}
        sources |= {row["source"] for row in funnel if row["kept"] or row["dropped"]}
        weights = blend_weights(
            {name: written[name]["tokens"] if name in written else 0 for name in sorted(sources)}, self.config.blend
        )
        return Manifest(
            fingerprint=tokens,
            tokenizer={
                "path": f"datasets/{TOKENIZER}",
                "fingerprint": tokenizer.fingerprint,
                "vocab_size": tokenizer.vocab_size,
                "eod": tokenizer.eod,
            },
            datasets=tuple(
                Dataset(name=name, prefix=f"datasets/{name}", weight=weights[name], **written[name])
                for name in sorted(written)
            ),
            steps=tuple(step.directory for step in self.steps),
            funnel=tuple(funnel),
            config=self.config.model_dump(mode="json", exclude={"workspace", "stages"})
            | {"stages": [{stage.name: stage.config.model_dump(mode="json")} for stage in self.config.stages]},
        )

    def _check_tokenised(self, written: dict[str, dict[str, Any]], funnel: list[dict[str, Any]]) -> None:
        """Every document that was kept is a sequence."""
        kept = {row["source"]: row["kept"] for row in funnel if row["step"] == self.steps[-1].name}
        for source, count in kept.items():
            found = written[source]["documents"] if source in written else 0
            if found != count:
                raise ledger.ConservationError(
                    f"datasets: {count} documents of {source!r} were kept and {found} were tokenised"
                )

    def _ship_own_stages(self) -> None:
        """Send modules of a user's own stages to the executors."""
        for stage in self.config.stages:
            top = type(stage).__module__.split(".")[0]
            if top not in {"corpus", "pipelines"}:
                self.spark.sparkContext.addPyFile(_zipped(top, self.workspace.root))


def _document_stages(step: Step) -> tuple[DocumentStage, ...]:
    return tuple(stage for stage in step.stages if isinstance(stage, DocumentStage))


def _without_dropped_text(documents: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return documents.withColumn("text", F.when(F.col("dropped").isNull(), F.col("text")))


def _fused_task(
    stages: Sequence[DocumentStage], keep_rejected: bool, counter: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in fused(stages, batches, keep_rejected=keep_rejected):
        counter.add(batch.num_rows)
        yield batch


def _tokenise_task(
    tokenizer: Tokenizer, dtype: np.dtype, counter: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        counter.add(batch.num_rows)
        yield datasets.tokenised(batch, tokenizer, dtype)


def _arrow_schema(documents: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(documents.schema, timezone="UTC")


def _as_json(counts: ledger.Counts) -> list[Any]:
    return sorted(([source, reason, count] for (source, reason), count in counts.items()), key=str)


def _zipped(module: str, folder: Path) -> str:
    """A zip of a user's top-level module or package, as Spark ships it."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise UserError(
            f"module {module!r} of a stage cannot be shipped to executors: it is no file or regular package"
        )
    origin = Path(found.origin)
    if not found.submodule_search_locations:
        return str(origin)
    archive = folder / "shipped" / module
    archive.parent.mkdir(parents=True, exist_ok=True)
    return shutil.make_archive(str(archive), "zip", origin.parent.parent, module)
