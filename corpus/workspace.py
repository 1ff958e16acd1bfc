"""The folder of a run: where finished steps lie, how a step is published, and what its fingerprint covers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.problems import UserError


def fingerprint(*parts: Any) -> str:
    """12 hex digits that change when any of `parts` (JSON values) does."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def file_stamp(path: str | Path) -> dict[str, Any]:
    """What stands for a local file in a fingerprint: its path, size in bytes and modification time."""
    status = Path(path).stat()
    return {"path": str(path), "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def file_sha256(path: str | Path) -> str:
    """Hex digest of a file's content."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Workspace:
    """The folder of a run.

    `stages/NN-name-FINGERPRINT/` holds a finished step and its `stage.json`; `datasets/` the token files; `corpus.yaml`
    is the manifest. A step is written under a name that ends in `.partial` and renamed when it is whole.
    """

    root: Path

    @property
    def stages(self) -> Path:
        return self.root / "stages"

    @property
    def datasets(self) -> Path:
        return self.root / "datasets"

    @property
    def manifest(self) -> Path:
        return self.root / "corpus.yaml"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def step(self, directory: str) -> Path:
        """The final folder of a step."""
        return self.stages / directory

    def is_done(self, directory: str) -> bool:
        """Whether a step is whole: only a published one has its final name."""
        return (self.step(directory) / "stage.json").is_file()

    def resume(self, directory: str) -> Path:
        """The folder to write a step into, with what a killed run left there."""
        partial = self.stages / f"{directory}.partial"
        partial.mkdir(parents=True, exist_ok=True)
        return partial

    def finished(self) -> list[Path]:
        """The folders of all finished steps, of this run or another."""
        folders = self.stages.glob("*")
        return sorted(path for path in folders if path.suffix != ".partial" and self.is_done(path.name))

    def begin(self, directory: str) -> Path:
        """An empty folder to write a step into. What a killed run left there is removed."""
        shutil.rmtree(self.resume(directory))
        return self.resume(directory)

    def publish(self, directory: str, record: dict[str, Any]) -> None:
        """Give a whole step its final name. `record` becomes its `stage.json`, with the sizes of its files."""
        partial = self.stages / f"{directory}.partial"
        files = {str(path.relative_to(partial)): path.stat().st_size for path in data_files(partial)}
        write_aside(partial / "stage.json", json.dumps(record | {"files": files}, indent=2, sort_keys=True) + "\n")
        final = self.step(directory)
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)

    def record(self, directory: str) -> dict[str, Any]:
        """The `stage.json` of a finished step. Raises: UserError if it is damaged."""
        path = self.step(directory) / "stage.json"
        try:
            record: dict[str, Any] = json.loads(path.read_text())
        except ValueError as error:
            raise UserError(f"{path}: damaged: {error}; remove {path.parent}, and the step runs again") from error
        return record


def data_files(folder: Path) -> list[Path]:
    """Every file below `folder` but Spark's checksums and markers, by name."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith((".", "_")) and path.name != "stage.json"
    )


def write_aside(path: Path, text: str) -> None:
    """Write a small file so that no reader ever sees half of it."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.rename(path)
