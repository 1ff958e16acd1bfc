"""Who went where: each record is counted once, by source, as kept, dropped with a reason, or failed.

A step may only move documents from kept to dropped; `follow` fails the run when one was lost, added or moved back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Documents by (source, reason); the reason of a live document is None.
Counts = Mapping[tuple[str, str | None], int]


class ConservationError(RuntimeError):
    """Documents were lost or invented; the message says at which step, of which source, and how many."""


@dataclass(frozen=True)
class Row:
    """What one step did to one source."""

    step: str
    source: str
    entered: int
    kept: int
    dropped: Mapping[str, int]
    failed: Mapping[str, int]
    skipped: Mapping[str, int] = field(
        default_factory=dict
    )  #: Records that are no documents; not counted in `entered`.

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON values, reasons by name."""
        return {
            "step": self.step,
            "source": self.source,
            "in": self.entered,
            "kept": self.kept,
            "dropped": dict(sorted(self.dropped.items())),
            "failed": dict(sorted(self.failed.items())),
            "skipped": dict(sorted(self.skipped.items())),
        }


def follow(step: str, before: Counts, after: Counts) -> list[Row]:
    """One row a source for a step that found `before` and left `after`.

    Raises: ConservationError unless in = kept + dropped for every source, and no earlier drop was undone.
    """
    rows = []
    for source in sorted({source for source, _ in [*before, *after]}):
        old = {reason: count for (name, reason), count in before.items() if name == source}
        new = {reason: count for (name, reason), count in after.items() if name == source}
        if sum(old.values()) != sum(new.values()):
            raise ConservationError(
                f"{step}: {sum(old.values())} documents of {source!r} went in and {sum(new.values())} came out"
            )
        dropped = Counter({reason: count for reason, count in new.items() if reason is not None})
        dropped.subtract({reason: count for reason, count in old.items() if reason is not None})
        undone = {reason: count for reason, count in dropped.items() if count < 0}
        if undone:
            raise ConservationError(f"{step}: documents of {source!r} that were dropped came back: {undone}")
        rows.append(Row(step, source, old.get(None, 0), new.get(None, 0), +dropped, {}))
    return rows


def ingested(
    step: str, documents: Counts, failures: Counts, files: Iterable[Mapping[str, str]], expected: int
) -> list[Row]:
    """The rows of the first step.

    `files` are the accounts that readers gave, one a file: what the files held must be what was written. A source in
    whose files nothing was found has a row too.

    Raises: ConservationError if a file was lost or read twice, or if its records were.
    """
    accounts = list(files)
    names = Counter(account["id"] for account in accounts)
    if len(names) != expected or len(accounts) != expected:
        twice = [name for name, count in names.items() if count > 1]
        raise ConservationError(f"{step}: {expected} files were listed, {len(accounts)} read; read twice: {twice[:3]}")
    for kind, counts in (("documents", documents), ("failures", failures)):
        held = sum(int(account.get(kind, 0)) for account in accounts)
        written = sum(counts.values())
        if held != written:
            raise ConservationError(f"{step}: the files held {held} {kind} and {written} were written")
    rows = []
    passed_over = skipped(accounts)
    empty = {source for source, (read, failed) in records(accounts).items() if not read + failed}
    for source in sorted({source for source, _ in [*documents, *failures]} | empty):
        kept = documents.get((source, None), 0)
        dropped = {reason: n for (name, reason), n in documents.items() if name == source and reason is not None}
        failed = {str(reason).removeprefix("failed:"): n for (name, reason), n in failures.items() if name == source}
        entered = kept + sum(dropped.values()) + sum(failed.values())
        rows.append(Row(step, source, entered, kept, dropped, failed, passed_over.get(source, {})))
    return rows


def records(files: Iterable[Mapping[str, str]]) -> dict[str, tuple[int, int]]:
    """Documents and failures of each source, as the config names it."""
    total: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for account in files:
        documents, failures = total[account["source"]]
        total[account["source"]] = (
            documents + int(account.get("documents", 0)),
            failures + int(account.get("failures", 0)),
        )
    return dict(sorted(total.items()))


def broken_files(files: Iterable[Mapping[str, str]]) -> dict[str, tuple[int, int]]:
    """Files of each source that break off or cannot be read at all, and all its files."""
    total: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for account in files:
        broken, count = total[account["source"]]
        total[account["source"]] = (broken + int(account.get("broken", 0)), count + 1)
    return dict(sorted(total.items()))


def skipped(files: Iterable[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Records of each source that are no documents (redirects, error pages), by reason."""
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for account in files:
        for key, value in account.items():
            if key.startswith("skipped:"):
                total[account["source"]][key.removeprefix("skipped:")] += int(value)
    return {source: dict(sorted(counts.items())) for source, counts in sorted(total.items())}
