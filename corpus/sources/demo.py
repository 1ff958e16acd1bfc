"""The demo crawl: real text that this machine already has, as a small crawl with every usual fault planted in it.

Documentation strings of installed Python modules become HTML pages in WARC shards, sources of the standard library a code
collection in the Pile's layout, descriptions of installed packages a third source. `truth.json` says what was planted
where. The same Python installation gives the same bytes; modules are parsed, never imported.
"""

from __future__ import annotations

import ast
import gzip
import importlib.metadata
import itertools
import json
import re
import shutil
import sysconfig
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from corpus.sources import demo_pages

DATE = "2026-01-01T00:00:00Z"
SHARDS = 4
LEAST_WORDS = 80
#: One page in so many is a mirror of another, and so on.
MIRROR_EVERY, ENCODED_EVERY, FOREIGN_EVERY, SHORT_EVERY, EMPTY_EVERY, MISSING_EVERY, IMAGE_EVERY = (
    20,
    25,
    30,
    40,
    60,
    30,
    90,
)
CODE_BYTES = 20_000_000


@dataclass(frozen=True)
class Response:
    """One answer of a server, as a crawler stored it."""

    url: str
    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: str = "200 OK"


def make_demo_crawl(folder: Path, pages: int = 2500) -> dict[str, Any]:
    """Write a crawl of about `pages` pages, and sources and package descriptions in proportion, to `folder`.

    Gives the content of `truth.json`. The folder appears only when it is whole.
    """
    partial = folder.with_name(folder.name + ".partial")
    if partial.exists():
        shutil.rmtree(partial)
    for name in ("pages", "code", "readmes"):
        (partial / name).mkdir(parents=True)
    truth = {
        "pages": _write_pages(partial / "pages", pages),
        "code": _write_code(partial / "code", CODE_BYTES * pages // 2500),
        "readmes": _write_readmes(partial / "readmes"),
    }
    (partial / "truth.json").write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n")
    partial.rename(folder)
    return truth


# --- pages


def _write_pages(folder: Path, count: int) -> dict[str, Any]:
    planted: Counter[str] = Counter()
    expected: dict[str, dict[str, str]] = {"mirrors": {}, "encoded": {}, "foreign": {}, "mojibake": {}}
    shards: list[list[Response]] = [[] for _ in range(SHARDS)]
    for number, page in enumerate(itertools.islice(_documentation(), count)):
        for response in _responses(number, page, planted, expected):
            shards[number % SHARDS].append(response)
    broken = []
    for number, responses in enumerate(shards):
        path = folder / f"shard-{number:04d}.warc.gz"
        broken += _write_shard(path, responses, garbage=number == 1, cut=number == SHARDS - 1)
    return {"records": sum(map(len, shards)), "planted": dict(planted), "broken": broken, **expected}


def _responses(
    number: int, page: demo_pages.Page, planted: Counter[str], expected: dict[str, dict[str, str]]
) -> Iterator[Response]:
    """A page, and what is planted beside it."""
    url = f"https://{demo_pages.SITES[number % len(demo_pages.SITES)]}/{page.path}"
    if number % ENCODED_EVERY == 3:
        variant = demo_pages.ENCODED[number // ENCODED_EVERY % len(demo_pages.ENCODED)]
        text = demo_pages.render(number, page.with_paragraph(variant.sentence), meta_charset=variant.meta)
        expected["encoded"][url] = variant.sentence
        yield Response(url, text.encode(variant.codec, "xmlcharrefreplace"), f"text/html{variant.header}")
    elif number % ENCODED_EVERY == 13:
        garbled = demo_pages.ACCENTS.encode().decode("cp1252")
        expected["mojibake"][url] = demo_pages.ACCENTS
        yield Response(url, demo_pages.render(number, page.with_paragraph(garbled)).encode())
    else:
        yield Response(url, demo_pages.render(number, page).encode())
    if number % MIRROR_EVERY == 5 and not expected["encoded"].get(url):
        mirror = f"https://mirror.example.net/{page.path}"
        expected["mirrors"][mirror] = url
        yield Response(mirror, demo_pages.render(number, page).encode())
    if number % FOREIGN_EVERY == 7:
        language, foreign = demo_pages.foreign(number)
        address = f"https://{language}.example.org/{number}"
        expected["foreign"][address] = language
        yield Response(address, demo_pages.render(number, foreign).encode())
    for name, every, response in (
        ("short", SHORT_EVERY, Response(f"{url}?soon", demo_pages.render(number, demo_pages.SHORT).encode())),
        ("empty", EMPTY_EVERY, Response(f"{url}?empty", b"")),
        ("missing", MISSING_EVERY, Response(f"{url}?gone", b"<h1>Not found</h1>", status="404 Not Found")),
        ("image", IMAGE_EVERY, Response(f"{url}.png", demo_pages.PNG, "image/png")),
    ):
        if number % every == 11:
            planted[name] += 1
            yield response


def _write_shard(path: Path, responses: list[Response], *, garbage: bool, cut: bool) -> list[dict[str, Any]]:
    """One gzip member a record. `garbage` puts noise between two members, `cut` ends the file inside the last one."""
    broken: list[dict[str, Any]] = []
    info = b"software: millrace demo crawl\r\n"
    members = [_member("warcinfo", "", "application/warc-fields", info)]
    for response in responses:
        head = f"HTTP/1.1 {response.status}\r\nContent-Type: {response.content_type}\r\nContent-Length: {len(response.body)}"
        payload = head.encode() + b"\r\n\r\n" + response.body
        members.append(_member("response", response.url, "application/http; msgtype=response", payload))
    with path.open("wb") as out:
        for number, member in enumerate(members):
            if garbage and number == len(members) // 2:
                broken.append({"file": path.name, "offset": out.tell(), "kind": "garbage"})
                out.write(b"\x00\xffnot a gzip member\xff\x00" * 40)
            if cut and number == len(members) - 1:
                broken.append({"file": path.name, "offset": out.tell(), "kind": "cut"})
                member = member[: len(member) // 2]
            out.write(member)
    return broken


def _member(kind: str, url: str, content_type: str, payload: bytes) -> bytes:
    record_id = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url}")
    target = f"WARC-Target-URI: {url}\r\n" if url else ""
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{record_id}>\r\nWARC-Date: {DATE}\r\n{target}"
        f"Content-Type: {content_type}\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + payload + b"\r\n\r\n", mtime=0)


def _documentation() -> Iterator[demo_pages.Page]:
    """A page for each documented module and class, of the standard library first."""
    library = Path(sysconfig.get_path("stdlib"))
    packages = Path(sysconfig.get_path("purelib"))
    seen: set[str] = set()
    for root in (library, packages):
        for path in _sources(root):
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            for page in _pages_of(path, name):
                text = " ".join(page.words())
                if len(page.words()) >= LEAST_WORDS and text not in seen:
                    seen.add(text)
                    yield page


def _sources(root: Path) -> Iterator[Path]:
    """Python files below `root`, by name; tests, and packages that are installed inside `root`, left out."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if not {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3"} & set(parts):
            yield path


def _pages_of(path: Path, name: str) -> Iterator[demo_pages.Page]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    module = [block for node in tree.body if isinstance(node, ast.FunctionDef) for block in _function(node)]
    yield demo_pages.Page(f"doc/{name}.html", f"{name} module", _docstring(tree), module)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [block for item in node.body if isinstance(item, ast.FunctionDef) for block in _function(item)]
            yield demo_pages.Page(f"doc/{name}/{node.name}.html", f"{name}.{node.name}", _docstring(node), methods)


def _function(node: ast.FunctionDef) -> list[demo_pages.Block]:
    text = _docstring(node)
    if not text or node.name.startswith("_"):
        return []
    return [demo_pages.Block(f"{node.name}({ast.unparse(node.args)})", text)]


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", "", ast.get_docstring(node) or "")


# --- code and package descriptions


def _write_code(folder: Path, size: int) -> dict[str, Any]:
    """The standard library, and its tests as a second subset, in the Pile's layout; two lines are no JSON."""
    library = Path(sysconfig.get_path("stdlib"))
    documents: Counter[str] = Counter()
    broken = []
    lines: list[bytes] = []
    written = 0
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        text = path.read_bytes().decode("utf-8", "replace")
        if {"site-packages", "dist-packages"} & set(parts) or not text.strip():
            continue
        subset = "PythonTests" if {"test", "tests", "idle_test"} & set(parts) else "Github"
        documents[subset] += 1
        lines.append(json.dumps({"text": text, "meta": {"pile_set_name": subset, "path": "/".join(parts)}}).encode())
        written += len(lines[-1])
        if written > size:
            break
    for number in (len(lines) // 3, len(lines) // 2):
        lines.insert(number, b'{"text": "cut in the mid')
    for shard in range(2):
        part = lines[shard::2]
        offset = 0
        for line in part:
            if line.endswith(b"mid"):
                broken.append({"file": f"code-{shard}.jsonl.zst", "offset": offset, "kind": "bad_json"})
            offset += len(line) + 1
        data = zstandard.ZstdCompressor(level=3).compress(b"".join(line + b"\n" for line in part))
        (folder / f"code-{shard}.jsonl.zst").write_bytes(data)
    return {"documents": dict(documents), "broken": broken}


def _write_readmes(folder: Path) -> dict[str, Any]:
    """Descriptions of the installed packages; one record has no text."""
    found = {}
    for dist in importlib.metadata.distributions():
        name, text = dist.metadata["Name"], dist.metadata.json.get("description")
        if name and isinstance(text, str) and len(text.split()) > LEAST_WORDS:
            found[name.lower()] = {"id": name, "text": text, "url": f"https://packages.example.org/{name}"}
    lines = [json.dumps(found[name]) for name in sorted(found)] + [json.dumps({"id": "empty-handed", "text": None})]
    data = gzip.compress("".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass"), mtime=0)
    (folder / "readmes.jsonl.gz").write_bytes(data)
    return {"documents": len(found), "broken": [{"file": "readmes.jsonl.gz", "kind": "no_text"}]}
