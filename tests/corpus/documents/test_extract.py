"""The extraction stage: every page has an outcome, and a bad one harms no other."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from corpus.documents.extract import CHARSET, Extract, ExtractConfig
from corpus.sources.ingest import READ
from corpus.stage import fused

BODY = "".join(f"<p>Sentence {n} of a page that says quite a lot about the café and its owner.</p>" for n in range(10))
PAGE = f"<html><body><nav>menu</nav><main>{BODY}</main></body></html>"


def process(*pages: tuple[bytes | None, str | None], **config: object) -> list[dict[str, object]]:
    rows = [
        {
            "id": str(i),
            "source": "s",
            "content": content,
            "content_type": kind,
            "text": None if content is not None else "given",
        }
        for i, (content, kind) in enumerate(pages)
    ]
    batch = pa.RecordBatch.from_pylist(rows, READ)
    return next(iter(fused([Extract(ExtractConfig(**config))], [batch]))).to_pylist()  # type: ignore[arg-type]


def test_pages_are_decoded_and_extracted_and_text_is_left_alone() -> None:
    rows = process((PAGE.encode("cp1252"), "text/html; charset=iso-8859-1"), (None, None), (PAGE.encode(), "text/html"))
    assert str(rows[0]["text"]).count("café") == 10
    assert rows[0]["text"] == rows[2]["text"]
    assert rows[1]["text"] == "given"
    assert dict(rows[0]["metadata"])[CHARSET] == "windows-1252 (http)"  # type: ignore[call-overload]
    assert not any(row["dropped"] for row in rows)


@pytest.mark.parametrize(
    ("content", "content_type", "outcome"),
    [
        (b"", "text/html", "extract:empty"),
        (b"<html><body></body></html>", "text/html", "extract:empty"),
        (b"\x89PNG\r\n\x1a\n", "image/png", "extract:content_type"),
        (b"%PDF-1.4 x", "application/octet-stream", "extract:content_type"),
        (b"\x89PNG\r\n\x1a\n", None, "extract:content_type"),
        (b"x" * 1001, "text/html", "extract:too_large"),
        (b"plain text", "text/plain", None),
        (b"<p>what has no type but markup</p>" * 3, None, None),
        (PAGE.encode()[:900], "TEXT/HTML;charset=UTF-8", None),
    ],
)
def test_every_page_has_an_outcome(content: bytes, content_type: str | None, outcome: str | None) -> None:
    [row] = process((content, content_type), max_bytes=1000)
    assert row["dropped"] == outcome


def test_plain_text_keeps_what_looks_like_markup() -> None:
    [row] = process((b"if a < b:\n    print('<p>')\n", "text/plain"))
    assert row["text"] == "if a < b:\n    print('<p>')\n"


def test_a_monstrous_page_does_not_harm_its_neighbours() -> None:
    table = b"<table>" + b"<tr><td>cell</td></tr>" * 600_000 + b"</table>"
    rows = process(
        (PAGE.encode(), "text/html"), (table, "text/html"), (PAGE.encode(), "text/html"), timeout_seconds=0.3
    )
    assert rows[0]["text"] == rows[2]["text"]
    assert rows[1]["dropped"] == "extract:timeout" or rows[1]["text"]


@pytest.mark.parametrize("extractor", ["resiliparse", "trafilatura", "justext"])
def test_the_other_extractors_find_the_text_too(extractor: str) -> None:
    if extractor != "resiliparse":
        pytest.importorskip(extractor)
    long = (
        "There is a good deal to be said about what the owner of the café did when it was new, and of those who came. "
        * 3
    )
    page = f"<html><body>{''.join(f'<p>Sentence {n}. {long}</p>' for n in range(10))}</body></html>"
    [row] = process((page.encode(), "text/html; charset=utf-8"), extractor=extractor)
    assert str(row["text"]).count("Sentence") == 10


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"trafilatura is not installed: pip install 'millrace\[extractors\]'"
    ):
        Extract(ExtractConfig(extractor="trafilatura")).open()


def test_batches_do_not_matter(shared_pages: list[bytes]) -> None:
    whole = [row["text"] for row in process(*((page, "text/html") for page in shared_pages))]
    single = [process((page, "text/html"))[0]["text"] for page in shared_pages]
    assert whole == single


@pytest.fixture
def shared_pages(shared_data: Callable[[str], object]) -> list[bytes]:
    folder = shared_data("html-gold")
    return [path.read_bytes() for path in sorted(folder.glob("readability/*/source.html"))[:8]]  # type: ignore[attr-defined]
