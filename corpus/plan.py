"""From a config to the steps that make the corpus, each with a fingerprint of all that its output depends on."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpus.config import CorpusConfig
from corpus.problems import UserError
from corpus.registry import BUILT_IN
from corpus.sources.files import InputFile
from corpus.stage import CorpusStage, DocumentStage, Stage
from corpus.workspace import file_stamp, fingerprint

#: Changes whenever the frame around the stages changes what it writes.
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Step:
    """What is run, written and resumed as one: a pass of fused document stages, or one corpus stage."""

    number: int
    name: str
    fingerprint: str
    stages: tuple[Stage, ...]

    @property
    def directory(self) -> str:
        """Name of the step's folder."""
        return f"{self.number:02d}-{self.name}-{self.fingerprint}"


def document_steps(config: CorpusConfig, files: Sequence[InputFile]) -> list[Step]:
    """Steps up to the last stage. The first one reads the sources and runs the document stages that follow in one pass."""
    groups: list[list[Stage]] = [[]]
    for stage in config.stages:
        alone = isinstance(stage, CorpusStage)
        after_corpus_stage = bool(groups[-1]) and isinstance(groups[-1][-1], CorpusStage)
        if alone or after_corpus_stage or (isinstance(stage, DocumentStage) and stage.starts_pass):
            groups.append([])
        groups[-1].append(stage)
    upstream = fingerprint(
        FORMAT_VERSION, config.seed, [source.model_dump(mode="json") for source in config.sources], _inputs(files)
    )
    steps = []
    for number, group in enumerate(groups):
        name = "+".join(stage.name for stage in group)
        if number == 0:
            name = f"ingest+{name}" if name else "ingest"
        upstream = fingerprint(upstream, config.keep_rejected, [_identity(stage) for stage in group])
        steps.append(Step(number, name, upstream, tuple(group)))
    return steps


def _inputs(files: Sequence[InputFile]) -> list[Any]:
    return [(file.source, file.relative, file.size, file.mtime_ns, file.format) for file in files]


def _identity(stage: Stage) -> dict[str, Any]:
    kind = type(stage)
    identity: dict[str, Any] = {
        "class": f"{kind.__module__}:{kind.__qualname__}",
        "version": kind.version,
        "config": stage.config.model_dump(mode="json"),
    }
    try:
        identity["reads"] = [file_stamp(path) for path in stage.reads()]
    except OSError as error:
        raise UserError(f"stage {stage.name}: cannot read {error.filename}: {error.strerror}") from error
    if identity["class"] not in BUILT_IN.values():
        source = inspect.getsource(importlib.import_module(kind.__module__))
        identity["source"] = hashlib.sha256(source.encode()).hexdigest()
    return identity
