"""A live progress bar for Spark work: tasks and documents done, the rate, the time left."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

INTERVAL_SECONDS = 0.5


@contextlib.contextmanager
def spark_progress(
    context: SparkContext,
    console: Console,
    title: str,
    documents: Accumulator[int] | None = None,
    total: int = 0,
) -> Iterator[None]:
    """Show the jobs that are started inside, as one bar. `documents` counts for the eye only: retries count again.

    `total` is the number of tasks to expect, where not all jobs start at once.

    On a console that is no terminal nothing is drawn; the caller's own lines say when a step begins and ends.
    """
    if not console.is_terminal:
        yield
        return
    progress = Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("tasks {task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    group = f"millrace-{title}-{id(progress)}"
    context.setJobGroup(group, title)
    stopped = threading.Event()

    def follow() -> None:
        bar = progress.add_task(title, total=None, note="")
        while not stopped.wait(INTERVAL_SECONDS):
            done, known = _tasks(context, group)
            note = ""
            if documents is not None and documents.value:
                elapsed = max(progress.tasks[0].elapsed or 0.0, INTERVAL_SECONDS)
                note = f"· {documents.value:,} documents · {documents.value / elapsed:,.0f}/s"
            progress.update(bar, completed=done, total=max(known, total) or None, note=note)

    with progress:
        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Tasks done and tasks known of the jobs in a group."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage_id in info.stageIds if info else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return done, total
