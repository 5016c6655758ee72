"""The documentation as a site: it builds without a warning, and its pages need no other host."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from nlp_core.blocks import BLOCKS
from nlp_core.cli.program import find_commands
from nlp_core.heads import HEADS
from nlp_core.metrics.base import METRICS
from tests.console import DOCS, ROOT

NOTEBOOK = DOCS / "tutorial.ipynb"
PAGES = (
    "index",
    "tutorial-engineer",
    "params",
    "reference/blocks",
    "reference/grid",
    "reports/glue",
)
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """The links of a page: those that a browser loads, those that a reader follows, its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []
        self.ids: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        target = values.get(LOADED.get(tag, "href" if tag == "a" else "")) or ""
        if target and values.get("rel") not in ("canonical", "next", "prev"):
            (self.followed if tag == "a" else self.loaded).append(target)


def build(folder: Path, hash_seed: str) -> Path:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    settings = {"NO_MKDOCS_2_WARNING": "1", "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed")
    return build(tmp_path_factory.mktemp("documentation") / "site", "1")


@pytest.fixture(scope="module")
def links(site: Path) -> dict[str, Links]:
    pages = sorted(site.rglob("*.html"))
    return {page.relative_to(site).as_posix(): Links(page.read_text("utf-8")) for page in pages}


def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path, links: dict[str, Links]) -> None:
    broken = []
    for name, page in links.items():
        for target in [*page.loaded, *page.followed]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or name == "404.html":
                continue
            path = (site / name).parent / unquote(parts.path) if parts.path else site / name
            other = os.path.relpath(path, site)
            if not path.is_file() or (
                other in links and unquote(parts.fragment) not in links[other].ids
            ):
                broken.append((name, target))
    assert broken == []


def test_a_page_loads_nothing_from_another_host(links: dict[str, Links]) -> None:
    foreign = [
        (name, target)
        for name, page in links.items()
        for target in page.loaded
        if urlsplit(target).netloc
    ]
    assert foreign == []


def test_the_reference_has_everything_that_is_registered(links: dict[str, Links]) -> None:
    for name, expected in {
        "commands": {f"reglue-{command}" for command in find_commands()},
        "blocks": {*BLOCKS.names()},
        "heads": {*HEADS.names()},
        "metrics": {*METRICS},
    }.items():
        assert expected <= links[f"reference/{name}.html"].ids


def test_the_reference_is_the_same_in_every_build(site: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "site", "2")
    for page in sorted(site.glob("reference/*.html")):
        assert (again / "reference" / page.name).read_bytes() == page.read_bytes(), page.name


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """A handler of files that writes no log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_browser_asks_no_other_host_and_only_tables_are_wide(page: Any, address: str) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((address, "data:")) else problems.append(request.url)
        ),
    )
    for width in (1300, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for name in PAGES:
            page.goto(f"{address}{name}.html")
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, name
    assert problems == []


def test_the_search_knows_every_block(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    places = {entry["location"] for entry in entries}
    assert {f"reference/blocks.html#{name}" for name in BLOCKS.names()} <= places


def test_the_notebook_is_committed_without_outputs() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    texts = [item.get("text", "") for cell in notebook.cells for item in cell.get("outputs", [])]
    assert any("the same label for 60 of 60 examples" in text for text in texts)
    assert any(" predicted as " in text for text in texts)
