"""`millrace corpus check`, `show` and `stages`: what is there, and whether it is right."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpus.check import audit, document_id, find_document
from corpus.manifest import Manifest, ManifestError, load
from corpus.problems import UserError
from corpus.registry import BUILT_IN, stage_class
from corpus.workspace import Workspace

SHOWN_CHARACTERS = 3000


def check(options: argparse.Namespace) -> int:
    """Audit a finished corpus; 1 if anything is wrong."""
    workspace, manifest = _open(options.workspace)
    console = Console(highlight=False)
    faults = 0
    for fault in audit(workspace, manifest, options.samples):
        faults += 1
        console.print(_safe(fault), markup=False, soft_wrap=True)
    documents = sum(dataset.documents for dataset in manifest.datasets)
    tokens = sum(dataset.tokens for dataset in manifest.datasets)
    verdict = (
        f"{faults} faults" if faults else "all files whole, all counts agree, sampled tokens are those of their texts"
    )
    console.print(
        f"{workspace.root}: {len(manifest.datasets)} datasets, {documents:,} documents, {tokens:,} tokens: {verdict}",
        soft_wrap=True,
    )
    return 1 if faults else 0


def show(options: argparse.Namespace) -> int:
    """Show the corpus, or one document and what each step did to it."""
    workspace, manifest = _open(options.workspace)
    console = Console(highlight=False)
    if options.document is None:
        print_corpus(console, workspace, manifest)
        return 0
    id_ = _resolve(workspace, manifest, options.document)
    way = find_document(workspace, manifest, id_)
    if not way:
        raise UserError(
            f"{workspace.root}: no document has the id {id_!r}; `show` without a document says how to name one"
        )
    for step, row in way:
        fate = f"dropped: {row['dropped']}" if row["dropped"] else "kept"
        console.print(f"[bold]{step}[/bold]  {_safe(fate)}")
    last: dict[str, Any] = way[-1][1]
    for key, value in last.items():
        if key not in {"text", "dropped"} and value is not None and value != []:
            console.print(Text(f"{key}: {_safe(_plain(value))}"), soft_wrap=True)
    text = next((row["text"] for _, row in reversed(way) if row["text"]), None)
    if text is None:
        console.print("(its text was not kept: set keep_rejected)")
    else:
        console.print(Text("\n" + _safe(str(text)[:SHOWN_CHARACTERS])), soft_wrap=True)
        if len(str(text)) > SHOWN_CHARACTERS:
            console.print(f"... {len(str(text)) - SHOWN_CHARACTERS:,} more characters")
    return 0


def stages(options: argparse.Namespace) -> int:
    """List stages with their config values."""
    console = Console(highlight=False)
    for name in [options.stage] if options.stage else BUILT_IN:
        try:
            kind = stage_class(name)
        except ValueError as error:
            raise UserError(str(error)) from error
        console.print(
            Text.assemble((name, "bold"), f"  {next(iter((kind.__doc__ or '').strip().splitlines()), '')}"),
            soft_wrap=True,
        )
        for key, field in kind.Config.model_fields.items():
            default = "" if field.is_required() else f" = {field.get_default(call_default_factory=True)!r}"
            described = field.description or (
                "sources (names or globs) it works on; none: all" if key == "sources" else ""
            )
            console.print(Text(f"    {key}{default}  {described}"), soft_wrap=True)
    return 0


def print_corpus(console: Console, workspace: Workspace, manifest: Manifest) -> None:
    """The funnel, why documents went, the datasets with their blend, and what to do next."""
    console.print(_funnel_table(manifest.funnel))
    if any(row["dropped"] or row["failed"] or row["skipped"] for row in manifest.funnel):
        console.print(_reasons_table(manifest.funnel))
    budget = (manifest.config.get("blend") or {}).get("token_budget")
    console.print(_dataset_table(manifest, budget))
    limit = (manifest.config.get("blend") or {}).get("max_epochs", 4.0)
    for share in manifest.shares(budget):
        if share.epochs > limit:
            console.print(
                f"[yellow]warning[/yellow]: {share.name} is repeated {share.epochs:.1f} times, more than {limit:g}"
            )
    command = _command()
    for what, where in (
        ("datasets", f"{workspace.datasets} (.bin and .idx, Megatron's format)"),
        ("manifest", str(workspace.manifest)),
        ("look at a document", f"{command} corpus show {workspace.root} {manifest.datasets[0].name}:0"),
        ("audit the files", f"{command} corpus check {workspace.root}"),
    ):
        console.print(f"{what:<20}{where}", markup=False, soft_wrap=True)


def _command() -> str:
    """How this command is called from here: by its name, or by its path where the environment is not active."""
    return "millrace" if shutil.which("millrace") else os.path.relpath(Path(sys.executable).with_name("millrace"))


def _funnel_table(funnel: Sequence[Mapping[str, Any]]) -> Table:
    steps = list(dict.fromkeys(row["step"] for row in funnel))
    table = Table(title="documents kept, by source and step", title_justify="left")
    table.add_column("source")
    table.add_column("records", justify="right")
    for step in steps:
        table.add_column(step.replace("+", "\n"), justify="right")
    by_source: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in funnel:
        by_source[row["source"]].append(row)
    for source, rows in sorted(by_source.items()):
        kept = {row["step"]: row["kept"] for row in rows}
        table.add_row(source, f"{rows[0]['in']:,}", *(f"{kept[step]:,}" if step in kept else "" for step in steps))
    return table


def _reasons_table(funnel: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="why records went", title_justify="left")
    table.add_column("source")
    table.add_column("reason")
    table.add_column("records", justify="right")
    reasons: dict[tuple[str, str], int] = defaultdict(int)
    for row in funnel:
        for reason, count in row["dropped"].items():
            reasons[row["source"], reason] += count
        for reason, count in row["failed"].items():
            reasons[row["source"], f"failed:{reason}"] += count
        for reason, count in row["skipped"].items():
            reasons[row["source"], f"no document:{reason}"] += count
    for (source, reason), count in sorted(reasons.items()):
        table.add_row(source, reason, f"{count:,}")
    return table


def _dataset_table(manifest: Manifest, budget: int | None) -> Table:
    shares = {share.name: share for share in manifest.shares(budget)}
    total = budget or sum(dataset.tokens for dataset in manifest.datasets)
    table = Table(title=f"datasets, and their share of {total:,} training tokens", title_justify="left")
    for name in ("dataset", "documents", "tokens", "weight", "epochs"):
        table.add_column(name, justify="left" if name == "dataset" else "right")
    for dataset in manifest.datasets:
        epochs = f"{shares[dataset.name].epochs:.2f}" if dataset.name in shares else ""
        table.add_row(dataset.name, f"{dataset.documents:,}", f"{dataset.tokens:,}", f"{dataset.weight:.5f}", epochs)
    return table


def _open(path: str) -> tuple[Workspace, Manifest]:
    root = Path(path)
    workspace = Workspace(root.parent if root.name == "corpus.yaml" else root)
    try:
        return workspace, load(workspace.manifest)
    except ManifestError as error:
        raise UserError(str(error)) from error


def _resolve(workspace: Workspace, manifest: Manifest, document: str) -> str:
    """A document's id from itself, or from DATASET:NUMBER."""
    name, _, number = document.rpartition(":")
    if name in {dataset.name for dataset in manifest.datasets} and number.isdecimal():
        try:
            return document_id(workspace, manifest.dataset(name), int(number))
        except (IndexError, OSError) as error:
            raise UserError(str(error)) from error
    return document


def _plain(value: object) -> str:
    """A column's value for a person: maps as `key value`, numbers to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return _plain(list(value.items()))
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, tuple):
        return " ".join(map(_plain, value))
    return str(value)


def _safe(text: str) -> str:
    """Crawled text for a terminal: no control or format character can act on it."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"} else f"\\u{ord(c):04x}" for c in text
    )
