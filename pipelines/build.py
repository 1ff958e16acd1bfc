"""`millrace corpus build` and `demo-crawl`: config in, corpus out, and what a person wants to know on the way."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

from rich.console import Console

from corpus.config import CorpusConfig
from corpus.indexed import IndexedDatasetError
from corpus.ledger import ConservationError
from corpus.manifest import Manifest, ManifestError
from corpus.plan import Plan, make_plan
from corpus.problems import UserError
from corpus.session import ClusterConfig, spark_session
from corpus.tokenizer import TokenizerError
from corpus.workspace import Workspace
from pipelines.configuration import load_config
from pipelines.inspect import print_corpus

#: Faults of the input that stages find; their messages say what to do.
FAULTS = (ConservationError, IndexedDatasetError, ManifestError, TokenizerError)


def build(options: argparse.Namespace) -> int:
    """Build or continue a corpus."""
    config = load_config(CorpusConfig, options.config, options.overrides)
    return _build(config, _cluster(options), dry_run=options.dry_run)


def demo_crawl(options: argparse.Namespace) -> int:
    """Make the demo crawl, unless it is there."""
    from corpus.sources.demo import make_demo_crawl

    folder = Path(options.folder)
    if not folder.exists():
        print(f"Making a crawl of this machine's own texts in {folder} (once) ...", flush=True)
        make_demo_crawl(folder)
    return 0


def _cluster(options: argparse.Namespace) -> ClusterConfig:
    cluster = load_config(ClusterConfig, options.cluster) if options.cluster else ClusterConfig()
    return cluster.model_copy(update={"master": options.master}) if options.master else cluster


def _build(config: CorpusConfig, cluster: ClusterConfig, *, dry_run: bool) -> int:
    console = Console(highlight=False)
    workspace = Workspace(Path(config.workspace))
    plan = make_plan(config)
    _print_plan(console, plan, workspace, cluster)
    if dry_run:
        return 0
    from corpus.engine import Engine

    try:
        workspace.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"workspace {workspace.root}: cannot be made: {error.strerror}") from error
    with _only_run(workspace):
        try:
            with spark_session(cluster, workspace.logs) as spark:
                manifest: Manifest = Engine(plan, spark, console).run()
        except FAULTS as error:
            raise UserError(str(error)) from error
        except Exception as error:
            raise UserError(f"{_root_cause(error)}\nSpark's logs: {workspace.logs}") from error
    print_corpus(console, workspace, manifest)
    return 0


def _print_plan(
    console: Console,
    plan: Plan,
    workspace: Workspace,
    cluster: ClusterConfig,
) -> None:
    count = Counter(file.source for file in plan.files)
    size: Counter[str] = Counter()
    for file in plan.files:
        size[file.source] += file.size
    for source in plan.config.sources:
        console.print(f"{source.name}: {count[source.name]:,} files, {size[source.name] / 1e6:,.1f} MB")
    for step in plan.steps:
        state = "done before" if workspace.is_done(step.directory) else "to do"
        console.print(f"  step {step.number}: {step.name} [dim]({state})[/dim]")
    console.print(f"  then: tokenizer, tokenise, datasets; on {cluster.master}, in {workspace.root}")
    console.print()


class _only_run:
    """A workspace belongs to one run at a time: two would remove each other's half-written steps."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.root / "lock"

    def __enter__(self) -> None:
        import fcntl

        self.file = self.path.open("a")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"{self.path.parent}: another run is using this workspace; wait for it or stop it"
            ) from error

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _root_cause(error: Exception) -> str:
    """The one line of a worker's traceback that says what happened; any other error is raised as it is."""
    lines = [line.strip() for line in str(error).splitlines()]
    if "JAVA_GATEWAY_EXITED" in lines[0]:
        return "Java did not start: Spark needs Java 17 or newer, on PATH or in JAVA_HOME"
    for line in reversed(lines):
        if line.startswith(("corpus.", "pipelines.")) and ": " in line:
            return line.split(": ", 1)[1]
    if type(error).__module__.split(".")[0] in {"pyspark", "py4j"}:
        named = [line for line in lines if re.match(r"(: )?[\w.]*(Error|Exception)\b", line)]
        return named[-1].removeprefix(": ") if named else lines[0]
    raise error
