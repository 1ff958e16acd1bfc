"""Runs a function on hostile input in a child process that can be killed.

One page can hang any extractor, eat all memory or crash the interpreter, and no time limit inside the process stops C
code. The child works on one item at a time under limits of memory and CPU time that the kernel enforces; the parent goes
on with a new one when it dies. Only the offending item is lost, with a name for its fault. CPU time, since that does not
depend on what else the machine does; an item that only waits is killed by the clock, after `WAITING` times as long.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

_FRAME = struct.Struct("<BQ")
_OK, _ERROR, _MEMORY = range(3)
#: A child may take so long to start, imports included, before its first answer.
START_SECONDS = 120.0
WAITING = 5


@dataclass(frozen=True)
class Fault:
    """Why an item has no result: `timeout`, `memory`, `crash` or `error` (the function raised)."""

    kind: str
    detail: str = ""


class Sandbox:
    """A child process that answers `function(item: bytes) -> bytes`, named as `module:function`."""

    def __init__(self, function: str, cpu_seconds: float, memory_mb: int) -> None:
        self.function = function
        self.cpu_seconds = cpu_seconds
        self.memory_mb = memory_mb
        self._child: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Start the child, unless it runs.

        Raises: ImportError with the child's message if it cannot import the function.
        """
        if self._child is None:
            limits = [str(self.memory_mb), str(math.ceil(self.cpu_seconds))]
            command = [sys.executable, "-m", "corpus.documents.sandbox", self.function, *limits]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
            )
            ready = self._receive(START_SECONDS)
            if isinstance(ready, Fault):
                self.close()
                raise ImportError(f"{self.function} cannot be loaded: {ready.detail or ready.kind}")

    def close(self) -> None:
        """Kill the child and forget it."""
        if self._child is not None:
            self._child.kill()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._child.wait()
            self._child = None

    def map(self, items: Iterable[bytes]) -> Iterator[bytes | Fault]:
        """The function's result for each item, in order, or the fault that it had."""
        for item in items:
            fresh = self._child is None
            answer = self._answer_to(item)
            if not fresh and isinstance(answer, Fault) and answer.kind in ("memory", "crash"):
                # It may have been what earlier items left behind: an item's fate must not depend on them.
                answer = self._answer_to(item)
            yield answer

    def _answer_to(self, item: bytes) -> bytes | Fault:
        """What the child makes of `item`; after any fault but `error` the next item gets a new child."""
        self.open()
        try:
            self._send(item)
            answer = self._receive(WAITING * self.cpu_seconds)
        except BrokenPipeError:
            answer = Fault("crash")
        assert self._child is not None
        if answer == Fault("crash") and self._child.wait() == -signal.SIGXCPU:
            answer = Fault("timeout")
        if isinstance(answer, Fault) and answer.kind != "error":
            self.close()
        return answer

    def _send(self, item: bytes) -> None:
        assert self._child is not None and self._child.stdin is not None
        for part in (_FRAME.pack(_OK, len(item)), item):
            view = memoryview(part)
            while view:
                view = view[self._child.stdin.write(view) :]

    def _receive(self, seconds: float) -> bytes | Fault:
        deadline = time.monotonic() + seconds
        head = self._read(_FRAME.size, deadline)
        if isinstance(head, Fault):
            return head
        status, size = _FRAME.unpack(head)
        body = self._read(size, deadline)
        if isinstance(body, Fault) or status == _OK:
            return body
        return Fault("memory" if status == _MEMORY else "error", body.decode("utf-8", "replace"))

    def _read(self, size: int, deadline: float) -> bytes | Fault:
        assert self._child is not None and self._child.stdout is not None
        pipe = self._child.stdout.fileno()
        parts = bytearray()
        while len(parts) < size:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return Fault("timeout")
            part = os.read(pipe, min(size - len(parts), 1 << 20))
            if not part:
                return Fault("crash")
            parts += part
        return bytes(parts)


def _serve(function: str, memory_mb: int, cpu_seconds: int) -> None:
    """The child: answer items from stdin until it closes."""
    import resource

    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what a library prints must not be taken for an answer
        os.dup2(quiet, descriptor)
    module, name = function.split(":")
    try:
        work = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        _answer(answers, _ERROR, str(error).encode())
        return
    limit = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _answer(answers, _OK, b"")
    while head := requests.read(_FRAME.size):
        item = requests.read(_FRAME.unpack(head)[1])
        used = math.ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + cpu_seconds, resource.RLIM_INFINITY))
        try:
            status, result = _OK, work(item)
        except MemoryError:
            status, result = _MEMORY, b""
        except Exception as error:
            status, result = _ERROR, f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")
        _answer(answers, status, result)


def _answer(pipe: BinaryIO, status: int, body: bytes) -> None:
    pipe.write(_FRAME.pack(status, len(body)) + body)
    pipe.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
