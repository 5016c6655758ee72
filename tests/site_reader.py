"""Read a page of the site as a test needs it: links, tables, headings."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "input", "br", "img"}
LOADING = {"src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href"}


@dataclass
class ReadTable:
    """A table as texts, the header first."""

    caption: str = ""
    rows: list[list[str]] = field(default_factory=list)
    unscoped: int = 0

    def find_rows(self) -> list[dict[str, str]]:
        header, *rows = self.rows
        return [dict(zip(header, row, strict=True)) for row in rows]


class ReadPage(HTMLParser):
    """What a page holds.

    Attributes:
        links: of `a`.
        loads: what the browser fetches by itself.
        ids: anchors; each is there once.
        open: elements that were opened and not closed; empty at the end.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.headings: list[str] = []
        self.tables: list[ReadTable] = []
        self.open: list[str] = []
        self.language = ""
        self._texts: list[str] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        self.loads += [value for name, value in found.items() if name in LOADING]
        if tag == "link":
            self.loads.append(found["href"])
        elif tag == "a":
            self.links.append(found["href"])
        elif tag == "html":
            self.language = found["lang"]
        elif tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(tag)
        else:
            self._start_table(tag, has_scope="scope" in found)

    def _start_table(self, tag: str, *, has_scope: bool) -> None:
        if tag == "table":
            self.tables.append(ReadTable())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("td", "th", "caption"):
            self._texts = []
            self.tables[-1].unscoped += tag == "th" and not has_scope

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self._texts is not None:
            self._texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())
        if tag in ("td", "th", "caption") and self._texts is not None:
            text = " ".join("".join(self._texts).split())
            if tag == "caption":
                self.tables[-1].caption = text
            else:
                self.tables[-1].rows[-1].append(text)
            self._texts = None

    def find_table(self, caption: str) -> ReadTable:
        return next(table for table in self.tables if table.caption == caption)


class ReadSite:
    """A site that was written into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
        self._pages: dict[str, ReadPage] = {}

    def read_text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def read(self, name: str) -> ReadPage:
        if name not in self._pages:
            self._pages[name] = ReadPage(self.read_text(name))
        return self._pages[name]
