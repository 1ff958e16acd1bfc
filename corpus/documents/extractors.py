"""Extractors by name: a page as HTML to its main text. Speed and quality of each: `make bench NAME=extract`.

They run in the sandbox, so this module loads fast and needs no Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from corpus.documents.charset import decode
from corpus.documents.content import main_content


def resiliparse(html: str) -> str:
    """resiliparse's main content as it comes: a little faster than ours, less precise."""
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False))


def trafilatura(html: str) -> str:
    """trafilatura in its fast mode: more precise than ours, several times slower."""
    from trafilatura import extract

    return extract(html, fast=True, include_comments=False) or ""


def justext(html: str) -> str:
    """jusText with its English stop list: MT-NLG's extractor."""
    import justext as library

    paragraphs = library.justext(html, library.get_stoplist("English"))
    return "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)


EXTRACTORS: dict[str, Callable[[str], str]] = {
    "millrace": main_content,
    "resiliparse": resiliparse,
    "trafilatura": trafilatura,
    "justext": justext,
    "none": str,  # plain text: decoded, nothing removed
}


def request(content: bytes, content_type: str | None, extractor: str) -> bytes:
    """A page as an item for `answer`."""
    return json.dumps([content_type, extractor]).encode() + b"\n" + content


def answer(item: bytes) -> bytes:
    """The page's charset label and its text, a line feed between them."""
    head, _, content = item.partition(b"\n")
    content_type, extractor = json.loads(head)
    text, charset = decode(content, content_type)
    return f"{charset}\n{EXTRACTORS[extractor](text)}".encode("utf-8", "replace")
