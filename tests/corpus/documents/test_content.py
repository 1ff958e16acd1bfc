"""The default extractor: quality on real pages with known text, and the kinds of page that are no news article."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gold_pages import gold_pages, quality

from corpus.documents.content import main_content

ARTICLE = "\n".join(
    f"<p>Paragraph {n} tells at some length how the {n}th ship of the fleet came home from the northern seas.</p>"
    for n in range(8)
)


def test_quality_on_news_pages(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("html-gold") / "article-extraction-benchmark"
    found = [(gold, main_content(html.decode("utf-8", "replace"))) for gold, html in gold_pages(folder)]
    assert quality(found).f1 >= 0.94


def test_quality_on_pages_that_nothing_was_tuned_on(shared_data: Callable[[str], Path]) -> None:
    from resiliparse.extract.html2text import extract_plain_text

    pairs = []
    for folder in sorted((shared_data("html-gold") / "readability").iterdir()):
        gold = extract_plain_text((folder / "expected.html").read_text(), alt_texts=False, list_bullets=False)
        pairs.append((gold, main_content((folder / "source.html").read_text())))
    assert quality(pairs).f1 >= 0.85


def test_what_stands_around_an_article_goes() -> None:
    html = f"""<html><body><nav><a href=/>Home</a><a href=/b>Business</a></nav><div class="cookie-notice">We use cookies</div>
    <article><h1>Ships</h1><div class="byline">By A. Writer</div>{ARTICLE}<figure><figcaption>A ship</figcaption></figure>
    </article>
    <div class="related-posts">More stories</div><div id="comments"><p>First!</p></div><footer>Imprint</footer>
    <div style="display:none">secret</div><script>var x</script></body></html>"""
    text = main_content(html)
    assert text.count("Paragraph") == 8
    for noise in ("Home", "cookies", "Writer", "A ship", "More stories", "First!", "Imprint", "secret", "var x"):
        assert noise not in text


def test_preformatted_text_keeps_its_shape() -> None:
    text = main_content(f"<main>{ARTICLE}<pre>def f(x):\n    return x\n</pre></main>")
    assert "def f(x):\n    return x" in text


@pytest.mark.parametrize(
    "script",
    [
        "水車は長い間、近くの村々の麦をひいてきました。",
        "الطاحونة عند النهر تطحن الحبوب منذ سنوات.",
        "河边的水车多年来一直为村庄磨面。",
    ],
)
def test_other_scripts_come_out(script: str) -> None:
    assert main_content(f"<body><nav>menu</nav><p>{script * 5}</p></body>").count(script) == 5


@pytest.mark.parametrize("name", ["category-news", "date-2020", "social", "tagspage"])
def test_a_class_of_the_whole_page_does_not_empty_it(name: str) -> None:
    assert main_content(f'<html><body class="{name}">{ARTICLE}</body></html>').count("Paragraph") == 8
    assert main_content(f'<html><body><div class="{name}">{ARTICLE}</div></body></html>').count("Paragraph") == 8


@pytest.mark.parametrize("html", ["", " ", "<", "<html>", "\x00", "<p></p>", "<" * 5000, "</div>" * 5000])
def test_nothing_gives_nothing(html: str) -> None:
    assert not main_content(html).strip(" <\x00")
