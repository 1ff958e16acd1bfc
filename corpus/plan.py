"""From a config to the steps that make the corpus, each with a fingerprint of all that its output depends on.

What can be wrong with a run and be known before it starts is found here.
"""

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
from corpus.sources.files import InputFile, list_files
from corpus.stage import CorpusStage, DocumentStage, Stage
from corpus.tokenizer import Tokenizer, TokenizerError
from corpus.tokenizer import load as load_tokenizer
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


@dataclass(frozen=True)
class Plan:
    """What a run of a config reads, does, and encodes with."""

    config: CorpusConfig
    files: tuple[InputFile, ...]
    steps: tuple[Step, ...]
    tokenizer: Tokenizer | None  #: None: one is trained.


def make_plan(config: CorpusConfig) -> Plan:
    """List the files and lay out the steps.

    Raises: UserError if files, models or the tokenizer to load are missing, or stages cannot work in this order.
    """
    wanted = config.tokenizer
    try:
        tokenizer = load_tokenizer(wanted.load, wanted.eod) if wanted.load is not None else None
    except FileNotFoundError as error:
        raise UserError(f"tokenizer.load: {wanted.load}: not found") from error
    except (OSError, TokenizerError) as error:
        raise UserError(f"tokenizer.load: {error}") from error
    files = tuple(file for source in config.sources for file in list_files(source))
    steps = tuple(document_steps(config, files))
    _check_extraction(files, steps[0].stages)
    return Plan(config, files, steps, tokenizer)


def _check_extraction(files: Sequence[InputFile], first_pass: Sequence[Stage]) -> None:
    """Pages have no text until a stage makes it, and the bytes that it is made from last for the first pass only."""
    for source in sorted({file.source for file in files if file.format == "warc"}):
        first = next((stage for stage in first_pass if stage.applies_to(source)), None)
        if first is None or not first.makes_text:
            raise UserError(
                f"stages: source {source} is WARC, its pages have no text: put `extract` before all other stages"
            )


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
