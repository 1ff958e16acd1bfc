"""What the demo crawl's pages look like: three sites with much around the text, odd encodings, other languages."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace

SITES = ("docs.example.org", "python-reference.example.com", "wiki.example.net")

ACCENTS = "The café in Köln — run by Zoë and her naïve cousin André — serves crème brûlée for 5 €."

#: The smallest PNG there is.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364600000000600023081d02f0000000049454e44ae426082"
)


@dataclass(frozen=True)
class Block:
    """A documented function."""

    heading: str
    text: str


@dataclass(frozen=True)
class Page:
    """The text of a page, before a site puts anything around it."""

    path: str
    title: str
    text: str
    blocks: list[Block]

    def words(self) -> list[str]:
        """All words, headings left out."""
        return " ".join([self.text, *(block.text for block in self.blocks)]).split()

    def with_paragraph(self, paragraph: str) -> Page:
        """The same page with a paragraph more, in front."""
        return replace(self, text=f"{paragraph}\n\n{self.text}")


@dataclass(frozen=True)
class Encoded:
    """A way to store a page: what the server says, what the page says, and what it really is."""

    codec: str
    header: str
    meta: str
    sentence: str = ACCENTS


JAPANESE = "この段落は日本語で書かれており、文字コードが正しく判定されたかどうかを確かめるためにあります。"

ENCODED = (
    Encoded("cp1252", "; charset=windows-1252", ""),
    Encoded("cp1252", "; charset=ISO-8859-1", ""),
    Encoded("cp1252", "", "windows-1252"),
    Encoded("utf-16", "", ""),
    Encoded("utf-8", "; charset=utf-4", "utf-8"),
    Encoded("utf-8-sig", "", ""),
    Encoded("cp1252", "; charset=utf-8", ""),
    Encoded("shift_jis", "; charset=Shift_JIS", "", JAPANESE),
    Encoded("gb18030", "", "gb18030", "这一段文字用来检验编码是否被正确识别，其余部分仍然是英文。"),
)

SHORT = Page("soon.html", "Soon", "This page is not ready yet.", [])

#: Sentences in languages that the demo corpus does not keep, written for it.
FOREIGN = {
    "de": (
        "Die Mühle am Fluss mahlt seit vielen Jahren das Korn der umliegenden Dörfer.",
        "Im Winter friert das Wasser, und der Müller muss das Rad mit einer Stange vom Eis befreien.",
        "Wer sein Mehl abholen will, kommt am besten am frühen Morgen, bevor die Wagen aus der Stadt eintreffen.",
        "Abends sitzt die Familie in der Stube und erzählt von früheren Zeiten.",
    ),
    "fr": (
        "Le moulin au bord de la rivière travaille depuis longtemps pour les villages voisins.",
        "En hiver, l'eau gèle et le meunier doit libérer la roue avec une longue perche.",
        "Ceux qui viennent chercher leur farine arrivent de bonne heure, avant les voitures de la ville.",
        "Le soir, toute la famille se retrouve près du feu et raconte des histoires anciennes.",
    ),
    "ru": (
        "Мельница у реки уже много лет мелет зерно для соседних деревень.",
        "Зимой вода замерзает, и мельнику приходится освобождать колесо ото льда длинным шестом.",
        "За мукой лучше приходить рано утром, пока из города не приехали повозки.",
        "Вечером вся семья сидит у печи и рассказывает старые истории.",
    ),
    "ja": (
        "川のほとりの水車は、長い間、近くの村々の麦をひいてきました。",
        "冬になると水が凍るので、粉屋は長い棒で車輪の氷を落とさなければなりません。",
        "粉を受け取りに来る人は、町から馬車が着く前の早朝に来るのがよいでしょう。",
        "夜になると家族は炉のそばに集まり、昔の話をします。",
    ),
}


def foreign(number: int) -> tuple[str, Page]:
    """A language and a page in it; each number gives another page."""
    language = sorted(FOREIGN)[number % len(FOREIGN)]
    sentences = FOREIGN[language]
    lines = [f"{sentences[(number + i) % 4]} {sentences[(number * 3 + i + 1) % 4]} ({number + i})" for i in range(8)]
    return language, Page(f"{number}.html", sentences[0], "\n\n".join(lines), [])


def render(number: int, page: Page, meta_charset: str = "") -> str:
    """The page as a site would show it: the text inside navigation, notices, links and a footer."""
    body = _paragraphs(page.text) + "".join(
        f"<h3><code>{html.escape(block.heading)}</code></h3>\n{_paragraphs(block.text)}" for block in page.blocks
    )
    charset = f'<meta charset="{meta_charset}">' if meta_charset else ""
    title = html.escape(page.title)
    return (_reference, _magazine, _wiki)[number % 3](charset, title, body)


def _paragraphs(text: str) -> str:
    parts = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        if ">>>" in part or part.startswith(("    ", "\t")):
            parts.append(f"<pre>{html.escape(part)}</pre>")
        elif part.strip():
            parts.append(f"<p>{html.escape(' '.join(part.split()))}</p>")
    return "\n".join(parts) + "\n"


def _links(names: str, folder: str) -> str:
    return "".join(f'<li><a href="/{folder}/{name.lower()}.html">{name}</a></li>' for name in names.split())


def _reference(charset: str, title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en"><head>{charset}<title>{title} - Reference</title><style>nav {{ float: left }}</style></head><body>
<nav class="menu"><ul>
{_links("Home Tutorial Library Language Howto Installing Distributing Glossary Index", "nav")}
</ul></nav>
<div class="cookie-banner">We use cookies to give you the best experience.
<button>Accept all</button> <button>Settings</button></div>
<main><article><h1>{title}</h1>
{body}</article></main>
<aside class="sidebar"><h4>Related pages</h4><ul>
{_links("Iterators Generators Decorators Descriptors Typing", "related")}</ul></aside>
<footer>Copyright by the authors. <a href="/imprint">Imprint</a> |
<a href="/privacy">Privacy policy</a> | <a href="/contact">Contact</a></footer>
<script>var tracker = function () {{ return "page view"; }};</script></body></html>"""


def _magazine(charset: str, title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html><head>{charset}<title>{title}</title></head><body>
<div id="header"><a href="/">Python Reference</a>
<ul class="nav">{_links("News Articles Jobs Forum About Login", "top")}</ul></div>
<div class="share-buttons"><a href="#">Share</a> <a href="#">Tweet</a> <a href="#">Print</a></div>
<div id="content" class="post"><h1>{title}</h1>
<div class="post-body">{body}</div></div>
<div id="comments"><h3>Comments</h3><div class="comment"><p>Thanks, very helpful!</p></div>
<div class="comment"><p>First.</p></div><form><textarea></textarea><button>Post comment</button></form></div>
<div class="newsletter"><p>Subscribe to our newsletter and never miss an update.</p><input type="email"></div>
<div id="footer"><ul>{_links("Terms Privacy Cookies Advertise Careers", "foot")}</ul></div></body></html>"""


def _wiki(charset: str, title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html><head>{charset}<title>{title} - Wiki</title></head><body>
<div id="mw-head" role="navigation"><a href="#">Read</a> <a href="#">Edit</a> <a href="#">View history</a></div>
<div id="toc" class="toc"><ul>{_links("Contents Overview Usage Examples", "toc")}</ul></div>
<div id="bodyContent" class="mw-body"><h1>{title}</h1>
{body}</div>
<div id="catlinks">Categories: <a href="#">Programming</a> | <a href="#">Reference</a> | <a href="#">Stubs</a></div>
<div style="display:none">Hidden text that no reader sees.</div>
<footer><p>This page was last edited on 1 January.
Text is available under its own licence; additional terms may apply.</p></footer>
</body></html>"""
