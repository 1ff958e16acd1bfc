"""Large records: read whole up to the limit, refused beyond it, and never held more than a few times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

#: Streams a gzip file of one large record between two small ones from a generator, then prints what was read and the
#: most memory that the process held over what it held before, in MiB.
SCRIPT = """
import io, json, resource, sys, zlib
from corpus.sources.config import SourceConfig
from corpus.sources.readers import READERS

kind, size = sys.argv[1], int(sys.argv[2]) << 20
BLOCK = b"0123456789abcdef" * 4096

def warc(body_size, body):
    head = b"HTTP/1.1 200 OK\\r\\n\\r\\n"
    yield b"WARC/1.0\\r\\nWARC-Type: response\\r\\nContent-Length: %d\\r\\n\\r\\n" % (len(head) + body_size)
    yield head
    yield from body
    yield b"\\r\\n\\r\\n"

def jsonl(body_size, body):
    yield b'{"text": "'
    yield from body
    yield b'"}\\n'

def members():
    record = {"warc": warc, "jsonl": jsonl}[kind]
    for count in (1, size // len(BLOCK), 1):
        packer = zlib.compressobj(1, wbits=31)
        for part in record(count * len(BLOCK), (BLOCK for _ in range(count))):
            yield packer.compress(part)
        yield packer.flush()

class Generated(io.RawIOBase):
    def __init__(self):
        self.parts, self.rest = members(), b""
    def readable(self):
        return True
    def readinto(self, buffer):
        while not self.rest:
            part = next(self.parts, None)
            if part is None:
                return 0
            self.rest = part
        count = min(len(buffer), len(self.rest))
        buffer[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        return count

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before = peak()
found = []
for item in READERS[kind](io.BufferedReader(Generated()), SourceConfig(name="s", paths=["x"])):
    body = getattr(item, "content", None) or getattr(item, "text", None)
    found.append(len(body) >> 16 if body else item.reason)
print(json.dumps([found, peak() - before]))
"""


def read_in_a_process(kind: str, mebibytes: int) -> tuple[list[int | str], int]:
    command = [sys.executable, "-c", SCRIPT, kind, str(mebibytes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found, peak = json.loads(done.stdout)
    return found, peak


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["warc", "jsonl"])
def test_a_record_of_100_mb_is_read_and_held_a_few_times_at_most(kind: str) -> None:
    found, peak = read_in_a_process(kind, 100)
    assert found == [1, 1600, 1]
    assert peak < 450


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["warc", "jsonl"])
def test_a_record_of_1_gb_is_refused_without_being_held(kind: str) -> None:
    found, peak = read_in_a_process(kind, 1024)
    assert found == [1, "record_too_large", 1]
    assert peak < (40 if kind == "warc" else 340)
