"""Whatever one item does, its neighbours come out, and no child is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus.documents.sandbox import Fault, Sandbox

WORK = """
import ctypes, os, sys, time

hoard = []

def work(item):
    if item == b"hang":
        while True: pass
    if item == b"sleep": time.sleep(1000)
    if item == b"eat":
        return b"x" * (1 << 40)
    if item == b"hoard": hoard.append(bytearray(400 << 20))
    if item == b"exit": os._exit(3)
    if item == b"crash": ctypes.string_at(0)
    if item == b"print":
        print("noise" * 1000, flush=True); os.write(1, b"more noise"); sys.stderr.write("and more")
    if item == b"raise": raise ValueError("no such page")
    return item[::-1]
"""


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    (tmp_path / "hostile_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    box = Sandbox("hostile_work:work", cpu_seconds=1, memory_mb=1024)
    yield box
    box.close()


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        (b"hang", Fault("timeout")),
        (b"sleep", Fault("timeout")),
        (b"eat", Fault("memory")),
        (b"exit", Fault("crash")),
        (b"crash", Fault("crash")),
        (b"raise", Fault("error", "ValueError: no such page")),
    ],
)
def test_only_the_offending_item_is_lost(sandbox: Sandbox, item: bytes, fault: Fault) -> None:
    assert list(sandbox.map([b"ab", item, b"cd", item, b"ef"])) == [b"ba", fault, b"dc", fault, b"fe"]


def test_what_earlier_items_left_behind_is_no_fault_of_a_later_one(sandbox: Sandbox) -> None:
    """A leak of 400 MB an item, under a limit of 1,024 MB."""
    assert list(sandbox.map([b"hoard"] * 6)) == [b"draoh"] * 6


def test_what_a_library_prints_is_not_taken_for_an_answer(sandbox: Sandbox) -> None:
    assert list(sandbox.map([b"print", b"ab"])) == [b"tnirp", b"ba"]


def test_large_and_empty_items_pass(sandbox: Sandbox) -> None:
    large = os.urandom(30 << 20)
    assert list(sandbox.map([large, b"", large])) == [large[::-1], b"", large[::-1]]


def test_no_child_is_left_after_close(sandbox: Sandbox) -> None:
    list(sandbox.map([b"ab", b"exit", b"hang", b"cd"]))
    assert sandbox._child is not None
    child = sandbox._child.pid
    sandbox.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_child_ends_when_its_parent_is_gone(sandbox: Sandbox) -> None:
    sandbox.open()
    assert sandbox._child is not None
    assert sandbox._child.stdin is not None
    sandbox._child.stdin.close()
    assert sandbox._child.wait(timeout=20) == 0


def test_a_function_that_is_not_there_is_an_error_at_the_start() -> None:
    with pytest.raises(ImportError, match="no_such_module:work cannot be loaded: No module named 'no_such_module'"):
        Sandbox("no_such_module:work", 1.0, 1024).open()
