"""Exact duplicates: documents whose texts are equal, across all sources.

Only ids and digests are shuffled. The one survivor of each text is that of the source that stands first in `priority`,
then that with the smallest id. The others are dropped, with the survivor's id in their metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from corpus.stage import CorpusStage, StageConfig

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Metadata key of a dropped duplicate: the id of the document that was kept.
DUPLICATE_OF = "duplicate_of"


class ExactDedupConfig(StageConfig):
    """How texts are compared, and who survives."""

    compare: Literal["text", "normalised"] = Field(
        "text", description="text: every character counts; normalised: case and runs of white space do not"
    )
    priority: list[str] = Field(
        default_factory=list, description="sources, best first; those not named come after, all alike"
    )


class ExactDedup(CorpusStage):
    """Drop all but one of the documents with the same text (`exact_dedup:duplicate`)."""

    name = "exact_dedup"
    version = 1
    Config: ClassVar[type[StageConfig]] = ExactDedupConfig

    def unmatched(self, sources: Sequence[str]) -> list[tuple[str, str]]:
        priority = [("priority", name) for name in self.config.priority if name not in sources]
        return super().unmatched(sources) + priority

    def run(self, documents: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        live = documents.where(F.col("dropped").isNull() & F.col("text").isNotNull())
        if self.config.sources is not None:
            names = [row.source for row in live.select("source").distinct().collect() if self.applies_to(row.source)]
            live = live.where(F.col("source").isin(names))
        keyed = live.select(
            "id", self._rank(F.col("source")).alias("rank"), self._digest(F.col("text")).alias("digest")
        )
        survivors = (
            keyed.groupBy("digest")
            .agg(F.min(F.struct("rank", "id")).alias("best"), F.count("*").alias("members"))
            .where("members > 1")
            .select("digest", F.col("best.id").alias("survivor"))
        )
        losers = keyed.join(survivors, "digest").where("id != survivor").select("id", "survivor")
        duplicate = F.col("survivor").isNotNull()
        others = F.map_filter("metadata", lambda key, _: key != DUPLICATE_OF)
        link = F.map_from_arrays(F.array(F.lit(DUPLICATE_OF)), F.array("survivor"))
        return (
            documents.join(losers, "id", "left")
            .withColumn("dropped", F.when(duplicate, F.lit("exact_dedup:duplicate")).otherwise(F.col("dropped")))
            .withColumn("metadata", F.when(duplicate, F.map_concat(others, link)).otherwise(F.col("metadata")))
            .select(*documents.columns)
        )

    def _rank(self, source: Column) -> Column:
        from pyspark.sql import functions as F

        rank = F.lit(len(self.config.priority))
        for place, name in reversed(list(enumerate(self.config.priority))):
            rank = F.when(source == name, F.lit(place)).otherwise(rank)
        return rank

    def _digest(self, text: Column) -> Column:
        """SHA-256 of the text: a page made to collide with another must not be able to remove it."""
        from pyspark.sql import functions as F

        if self.config.compare == "normalised":
            text = F.trim(F.regexp_replace(F.lower(text), r"(?U)\s+", " "))
        return F.unhex(F.sha2(text, 256))
