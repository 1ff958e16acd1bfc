"""Extraction: the page as the crawler stored it becomes its main text."""

from __future__ import annotations

import importlib.util
import re
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from corpus.document import DOCUMENT, drop, set_column, set_text
from corpus.documents import extractors
from corpus.documents.sandbox import Fault, Sandbox
from corpus.stage import DocumentStage, StageConfig

#: Metadata key: the charset that a page was read in, and what told of it.
CHARSET = "charset"

_HTML = re.compile(r"(text/html|application/xhtml\+xml|application/xml|text/xml)\b", re.IGNORECASE)
_PLAIN = re.compile(r"text/(plain|markdown|x-)", re.IGNORECASE)
#: Types that say nothing, or are known to be sent for anything.
_UNKNOWN = re.compile(r"\s*$|application/octet-stream|unknown|text/\*|\*/\*", re.IGNORECASE)
_MARKUP = re.compile(rb"\s*(\xef\xbb\xbf)?\s*<(!doctype html|html|head|body|\?xml|!--)", re.IGNORECASE)


class ExtractConfig(StageConfig):
    """Which extractor, and how much a page may cost."""

    extractor: Literal["millrace", "resiliparse", "trafilatura", "justext"] = Field(
        "millrace", description="the last two are other packages: pip install 'millrace[extractors]'"
    )
    timeout_seconds: float = Field(10.0, gt=0, description="a page that takes more CPU time is dropped")
    memory_mb: int = Field(2048, ge=256, description="a page that takes more is dropped")
    max_bytes: int = Field(20_000_000, gt=0, description="a longer page is dropped unread")


class Extract(DocumentStage):
    """Main text of pages, charset handled; each in a child process with limits of time and memory."""

    name = "extract"
    version = 1
    Config: ClassVar[type[StageConfig]] = ExtractConfig
    makes_text = True

    def open(self) -> None:
        config: ExtractConfig = self.config
        if config.extractor in ("trafilatura", "justext") and not importlib.util.find_spec(config.extractor):
            raise ModuleNotFoundError(f"{config.extractor} is not installed: pip install 'millrace[extractors]'")
        self._sandbox = Sandbox("corpus.documents.extractors:answer", config.timeout_seconds, config.memory_mb)

    def close(self) -> None:
        if hasattr(self, "_sandbox"):
            self._sandbox.close()

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if "content" not in batch.schema.names or batch["content"].null_count == batch.num_rows:
            return batch
        rows = list(zip(batch["content"].to_pylist(), batch["content_type"].to_pylist(), strict=True))
        reasons = [self._refusal(content, content_type) for content, content_type in rows]
        pages = [i for i, (content, _) in enumerate(rows) if content is not None and reasons[i] is None]
        texts, metadata = batch["text"].to_pylist(), batch["metadata"].to_pylist()
        requests = (
            extractors.request(rows[i][0], rows[i][1], self._extractor(rows[i][0], rows[i][1] or "")) for i in pages
        )
        for i, answer in zip(pages, self._sandbox.map(requests), strict=True):
            if isinstance(answer, Fault):
                reasons[i] = f"extract:{answer.kind}"
                continue
            charset, _, text = answer.decode().partition("\n")
            texts[i] = text
            metadata[i] = [*(metadata[i] or []), (CHARSET, charset)]
            if not text.strip():
                reasons[i] = "extract:empty"
        batch = set_column(batch, DOCUMENT.field("metadata"), pa.array(metadata, DOCUMENT.field("metadata").type))
        return drop(set_text(batch, texts), reasons)

    def _refusal(self, content: bytes | None, content_type: str | None) -> str | None:
        if content is None:
            return None
        if not content.strip():
            return "extract:empty"
        if len(content) > self.config.max_bytes:
            return "extract:too_large"
        kind = content_type or ""
        if _HTML.match(kind) or _PLAIN.match(kind) or (_UNKNOWN.match(kind) and not _binary(content)):
            return None
        return "extract:content_type"

    def _extractor(self, content: bytes, content_type: str) -> str:
        """Plain text is only decoded; so is what has no type and no markup."""
        if _PLAIN.match(content_type) or (_UNKNOWN.match(content_type) and not _MARKUP.match(content)):
            return "none"
        return str(self.config.extractor)


def _binary(content: bytes) -> bool:
    """Whether the beginning of a file of unknown type is no text in any charset: control characters but few zero bytes."""
    sample = content[:1024]
    controls = sum(byte < 9 or 13 < byte < 27 for byte in sample)
    return 0 < controls < 0.3 * len(sample) or content.startswith((b"%PDF", b"\x89PNG", b"PK\x03\x04", b"\xff\xd8\xff"))
