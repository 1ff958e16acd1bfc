"""The demo crawl: real text that this machine already has, as a small crawl with every usual fault planted in it.

Documentation strings of installed Python modules become HTML pages in WARC shards, sources of the standard library a code
collection in the Pile's layout, descriptions of installed packages a third source. `truth.json` says what was planted
where. The same Python installation gives the same bytes; modules are parsed, never imported.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import importlib.metadata
import itertools
import json
import re
import shutil
import sysconfig
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from corpus.sources import demo_pages

DATE = "2026-01-01T00:00:00Z"
SHARDS = 4
PAGES = 2500
LEAST_WORDS = 80
#: Bytes of code for `PAGES` pages.
CODE_BYTES = 20_000_000

#: One page in so many is stored in an odd encoding, one has a copy, and so on.
ENCODED_EVERY, MOJIBAKE_EVERY, COPIED_EVERY, FOREIGN_EVERY = 20, 20, 20, 30
SHORT_EVERY, EMPTY_EVERY, MISSING_EVERY, IMAGE_EVERY = 40, 60, 30, 90
#: With fewer, not every kind of encoding would be there.
LEAST_PAGES = ENCODED_EVERY * len(demo_pages.ENCODED)

GARBAGE = b"\xff\x00not a gzip member\x00\xff" * 40
#: Broken records of the pages: the shard that each is in, and what a reader should call it.
FAULTS = {
    "length_too_small": (0, "bad_content_length"),
    "length_no_number": (0, "bad_header"),
    "garbage": (1, "corrupt_member"),
    "length_too_large": (2, "bad_content_length"),
    "cut": (3, "truncated_record"),
}
#: Broken lines of the code, by what a reader should call them.
BAD_LINES = {
    "bad_json": b'{"text": "cut in the mid',
    "bad_utf8": b'{"text": "caf\xe9", "meta": {"pile_set_name": "Github"}}',
    "no_text": b'{"text": null, "meta": {"pile_set_name": "Github"}}',
}


@dataclass(frozen=True)
class Response:
    """One answer of a server, as a crawler stored it."""

    url: str
    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: str = "200 OK"
    planted: str | None = None  #: The kind of what is planted with it; None for a page like any other.
    detail: Any = None  #: What the truth tells of it.


def make_demo_crawl(folder: Path, pages: int = PAGES) -> dict[str, Any]:
    """Write a crawl of about `pages` pages, code in proportion, and all package descriptions to `folder`, once.

    Gives the content of `truth.json`. The folder appears only when it is whole; one that is there is left as it is.

    Raises: FileExistsError if `folder` is something else than a demo crawl of so many pages; ValueError if there are too
    few of them to plant every kind of fault.
    """
    if pages < LEAST_PAGES:
        raise ValueError(f"a demo crawl of {pages} pages cannot hold every fault; ask for {LEAST_PAGES} or more")
    if folder.exists():
        return _existing(folder, pages)
    partial = folder.with_name(folder.name + ".partial")
    if partial.exists():
        shutil.rmtree(partial)
    for name in ("pages", "code", "readmes"):
        (partial / name).mkdir(parents=True)
    truth = {
        "requested_pages": pages,
        "pages": _write_pages(partial / "pages", pages),
        "code": _write_code(partial / "code", CODE_BYTES * pages // PAGES),
        "readmes": _write_readmes(partial / "readmes"),
    }
    text = json.dumps(truth, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (partial / "truth.json").write_text(text, encoding="utf-8")
    partial.rename(folder)
    return truth


def _existing(folder: Path, pages: int) -> dict[str, Any]:
    path = folder / "truth.json"
    truth: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if truth.get("requested_pages") != pages:
        raise FileExistsError(
            f"{folder}: exists and is no demo crawl of {pages} pages; remove it or choose another folder"
        )
    return truth


# --- pages


def _write_pages(folder: Path, count: int) -> dict[str, Any]:
    numbered = enumerate(itertools.islice(_documentation(), count))
    responses = [response for number, page in numbered for response in _responses(number, page)]
    shards: dict[str, dict[str, Any]] = {}
    broken: list[dict[str, Any]] = []
    for shard in range(SHARDS):
        path = folder / f"shard-{shard:04d}.warc.gz"
        # In turn: a copy follows its original, and so comes into another file.
        part = responses[shard::SHARDS]
        faults = [kind for kind, (place, _) in FAULTS.items() if place == shard]
        found = _write_shard(path, part, faults)
        skipped = ["http_status_404" for response in part if response.planted == "missing"]
        shards[path.name] = {
            "records": len(part) - len(skipped),
            "skipped": dict(Counter(skipped)),
            "failures": dict(Counter(place["reason"] for place in found)),
        }
        broken += found
    planted: dict[str, dict[str, Any]] = {}
    for response in responses:
        if response.planted:
            planted.setdefault(response.planted, {})[response.url] = response.detail
    return {"shards": shards, "broken": broken, "planted": planted}


def _responses(number: int, page: demo_pages.Page) -> Iterator[Response]:
    """A page, and what is planted beside it."""
    url = f"https://{demo_pages.SITES[number % len(demo_pages.SITES)]}/{page.path}"
    if number % ENCODED_EVERY == 3:
        yield _encoded(number, url, page)
    elif number % MOJIBAKE_EVERY == 13:
        garbled = page.with_paragraph(demo_pages.ACCENTS.encode().decode("cp1252"))
        yield Response(url, _html(number, garbled), planted="mojibake", detail=demo_pages.ACCENTS)
    else:
        yield Response(url, _html(number, page))
    turn, rest = divmod(number, COPIED_EVERY)
    if rest == 5 and turn % 2 == 0:
        yield Response(f"https://mirror.example.net/{page.path}", _html(number, page), planted="mirror", detail=url)
    elif rest == 5:
        reprint = _html(number + 1, page)
        yield Response(f"https://reprint.example.net/{page.path}", reprint, planted="reprint", detail=url)
    turn, rest = divmod(number, FOREIGN_EVERY)
    if rest == 7:
        language, foreign = demo_pages.foreign(turn)
        address = f"https://{language}.example.org/{foreign.path}"
        yield Response(address, _html(number, foreign), planted="foreign", detail=language)
    if number % SHORT_EVERY == 11:
        yield Response(f"{url}?soon", _html(number, demo_pages.SHORT), planted="short")
    if number % EMPTY_EVERY == 11:
        yield Response(f"{url}?empty", b"", planted="empty")
    if number % MISSING_EVERY == 11:
        yield Response(f"{url}?gone", b"<h1>Not found</h1>", status="404 Not Found", planted="missing")
    if number % IMAGE_EVERY == 11:
        yield Response(f"{url}.png", demo_pages.PNG, "image/png", planted="image")


def _html(number: int, page: demo_pages.Page) -> bytes:
    return demo_pages.render(number, page).encode()


def _encoded(number: int, url: str, page: demo_pages.Page) -> Response:
    variant = demo_pages.ENCODED[number // ENCODED_EVERY % len(demo_pages.ENCODED)]
    text = demo_pages.render(number, page.with_paragraph(variant.sentence), meta_charset=variant.meta)
    body = text.encode(variant.codec, "xmlcharrefreplace")
    return Response(url, body, f"text/html{variant.header}", planted="encoded", detail=vars(variant))


def _write_shard(path: Path, responses: list[Response], faults: list[str]) -> list[dict[str, Any]]:
    """One gzip member a record, and where the broken ones are: in the middle, but a cut one at the end."""
    middle = len(responses) // 2
    broken = []
    with path.open("wb") as out:
        out.write(
            _member("warcinfo", f"file:{path.name}", "application/warc-fields", b"software: millrace demo crawl\r\n")
        )
        for number, response in enumerate(responses):
            if number == middle:
                for kind in faults:
                    if kind != "cut":
                        broken.append(_place(path.name, out.tell(), kind))
                        out.write(_damaged(kind, response))
            out.write(_response_member(response.url, response))
        if "cut" in faults:
            broken.append(_place(path.name, out.tell(), "cut"))
            out.write(_damaged("cut", responses[middle]))
    return broken


def _place(file: str, offset: int, kind: str) -> dict[str, Any]:
    return {"file": file, "offset": offset, "kind": kind, "reason": FAULTS[kind][1]}


def _damaged(kind: str, response: Response) -> bytes:
    """A broken record, made of a sound one but under a URL of its own."""
    if kind == "garbage":
        return GARBAGE
    url = f"https://broken.example.org/{kind}"
    if kind == "cut":
        member = _response_member(url, response)
        return member[: len(member) // 2]
    size = len(_payload(response))
    length = {"length_too_small": str(size // 2), "length_too_large": str(size + 1000), "length_no_number": "many"}[
        kind
    ]
    return _response_member(url, response, length)


def _payload(response: Response) -> bytes:
    head = (
        f"HTTP/1.1 {response.status}\r\nContent-Type: {response.content_type}\r\nContent-Length: {len(response.body)}"
    )
    return head.encode() + b"\r\n\r\n" + response.body


def _response_member(url: str, response: Response, length: str | None = None) -> bytes:
    return _member("response", url, "application/http; msgtype=response", _payload(response), length)


def _member(kind: str, name: str, content_type: str, payload: bytes, length: str | None = None) -> bytes:
    """A record as a gzip member; `length` in place of its true length."""
    record_id = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {name}")
    target = f"WARC-Target-URI: {name}\r\n" if kind == "response" else ""
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{record_id}>\r\nWARC-Date: {DATE}\r\n{target}"
        f"Content-Type: {content_type}\r\nContent-Length: {length or len(payload)}\r\n\r\n"
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
                words = page.words()
                text = " ".join(words)
                if len(words) >= LEAST_WORDS and not seen & {page.path, text}:
                    seen |= {page.path, text}
                    yield page


def _sources(root: Path) -> Iterator[Path]:
    """Python files below `root`, by name; tests, and packages that are installed inside `root`, left out."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if not {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3"} & set(parts):
            yield path


def _pages_of(path: Path, name: str) -> Iterator[demo_pages.Page]:
    try:
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    module = [block for node in tree.body for block in _function(node)]
    yield demo_pages.Page(f"doc/{name}.html", f"{name} module", _docstring(tree), module)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [block for item in node.body for block in _function(item)]
            yield demo_pages.Page(f"doc/{name}/{node.name}.html", f"{name}.{node.name}", _docstring(node), methods)


def _function(node: ast.stmt) -> list[demo_pages.Block]:
    """The block of a public, documented function; nothing for any other statement."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return []
    text = _docstring(node)
    if not text:
        return []
    return [demo_pages.Block(f"{node.name}({ast.unparse(node.args)})", text)]


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", "", ast.get_docstring(node) or "")


# --- code and package descriptions


def _write_code(folder: Path, size: int) -> dict[str, Any]:
    """The standard library, and its tests as a second subset, in the Pile's layout, with `BAD_LINES` among them."""
    documents: Counter[str] = Counter()
    lines: list[Line] = []
    written = 0
    for subset, line in _code():
        documents[subset] += 1
        lines.append(Line(line))
        written += len(line)
        if written > size:
            break
    step = len(lines) // (len(BAD_LINES) + 1)
    for number, (kind, bad) in enumerate(BAD_LINES.items(), 1):
        lines.insert(number * step, Line(bad, kind))
    broken = []
    for shard in range(2):
        path = folder / f"code-{shard}.jsonl.zst"
        part = lines[shard::2]
        path.write_bytes(zstandard.ZstdCompressor(level=3).compress(_joined(part)))
        broken += _broken_lines(path.name, part)
    return {"documents": dict(documents), "broken": broken}


def _code() -> Iterator[tuple[str, bytes]]:
    """The subset and the line of each file of the standard library, mixed so that a few already are of both subsets."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py"), key=lambda path: _mixed(path.relative_to(library).as_posix())):
        parts = path.relative_to(library).parts
        if {"site-packages", "dist-packages"} & set(parts):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        if text.strip():
            subset = "PythonTests" if {"test", "tests", "idle_test"} & set(parts) else "Github"
            row = {"text": text, "meta": {"pile_set_name": subset, "path": "/".join(parts)}}
            yield subset, json.dumps(row).encode()


def _mixed(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def _write_readmes(folder: Path) -> dict[str, Any]:
    """Descriptions of the installed packages; one record has no text."""
    found = {}
    # These folders only: what else is importable depends on how Python was started.
    for dist in importlib.metadata.distributions(
        path=sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    ):
        name, text = dist.metadata["Name"], dist.metadata.json.get("description")
        if name and isinstance(text, str) and len(text.split()) > LEAST_WORDS:
            found[name.lower()] = {"id": name, "text": text, "url": f"https://packages.example.org/{name}"}
    lines = [Line(json.dumps(found[name]).encode()) for name in sorted(found)]
    lines.append(Line(b'{"id": "empty-handed", "text": null}', "no_text"))
    path = folder / "readmes.jsonl.gz"
    path.write_bytes(gzip.compress(_joined(lines), mtime=0))
    return {"documents": len(found), "broken": _broken_lines(path.name, lines)}


@dataclass(frozen=True)
class Line:
    """A line of JSON, and why it cannot be read."""

    data: bytes
    broken: str | None = None


def _joined(lines: Iterable[Line]) -> bytes:
    return b"".join(line.data + b"\n" for line in lines)


def _broken_lines(file: str, lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Broken lines by their offset in the decompressed file."""
    broken, offset = [], 0
    for line in lines:
        if line.broken:
            broken.append({"file": file, "offset": offset, "kind": line.broken, "reason": line.broken})
        offset += len(line.data) + 1
    return broken
