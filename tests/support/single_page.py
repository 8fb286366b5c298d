"""What is asked of every page of HTML that is a file of its own."""

import json
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import chromium

WIDTHS = (390, 1280, 1920)
PAPER = 718  # pixels between the margins of a sheet of A4


class Reader(HTMLParser):
    """Words, addresses, and what is nested wrongly."""

    VOID = frozenset({"meta", "link", "img", "br", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.words, self.addresses, self.open, self.wrong = [""], list[str](), list[str](), list[str]()
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":  # what is fetched without a person's doing
            self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "img":
            self.pictures.append(dict(attrs)["src"] or "")
        if tag == "img" and dict(attrs).get("alt") is None:
            self.wrong.append("a picture without words")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    @classmethod
    def of(cls, page: Path) -> "Reader":
        """What the page has."""
        reader = cls()
        reader.feed(page.read_text(encoding="utf-8"))
        reader.close()
        return reader

    @property
    def text(self) -> str:
        """Its words, one blank between them."""
        return " ".join("".join(self.words).split())


def accessible(browser: chromium.Page, page: Path) -> None:
    """axe finds nothing to mend for a keyboard, a screen reader or weak eyes, on light paper and on dark. What can be unfolded is
    unfolded: so it is looked at, too, and axe does not take it, folded, for the ground of what stands there instead.
    """
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    seen = "v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))]"
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.call("Emulation.setEmulatedMedia", features=features)
        for width in WIDTHS[:2]:
            browser.open(page.as_uri(), width=width)
            browser.ask("document.querySelectorAll('details').forEach(part => { part.open = true; })")
            browser.ask(
                f"{axe}; axe.run().then(r => {{ window.found = JSON.stringify(r.violations.map({seen})); }}); 0"
            )
            browser.wait_for("window.found")
            found = browser.ask("window.found")
            assert json.loads(found) == [], f"{page.name}, {scheme}, {width} pixels: {found}"


def shown_whole(browser: chromium.Page, page: Path) -> None:
    """A phone, a laptop, a large screen and paper show all of it and every picture, and nothing comes from elsewhere."""
    for width in (*WIDTHS, PAPER):
        browser.call("Emulation.setEmulatedMedia", media="print" if width == PAPER else "screen")
        browser.open(page.as_uri(), width=width)
        wide = browser.ask("document.documentElement.scrollWidth")
        assert wide <= width, f"{page.name} is {wide} pixels wide on {width}"
        browser.wait_for("[...document.images].every(i => i.complete)")
        assert browser.ask("[...document.images].filter(i => !i.naturalWidth).length") == 0
        assert browser.ask("performance.getEntriesByType('resource').length") == 0
    assert browser.errors == []


def printed_whole(browser: chromium.Page, page: Path) -> None:
    """Paper has every picture, also those that nobody has scrolled to."""
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.open(page.as_uri())
    assert browser.printed().count(b"/Subtype /Image") == len(set(Reader.of(page).pictures)) > 0
