"""Pages of the site that are files outside docs/, and links that lead to them or to other files."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONVENTIONS.md": "conventions.md",
    "zoo/README.md": "zoo.md",
}
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^)\s]+)\)")
IS_FOREIGN = re.compile(r"[a-z]+:|#|//")
log = get_plugin_logger(__name__)


def list_files() -> dict[str, str]:
    """Return the place in the site of each file outside docs/ that the site has."""
    reports = sorted([*ROOT.glob("reports/*.md"), *ROOT.glob("reports/*.svg")])
    return PAGES | {f"reports/{path.name}": f"reports/{path.name}" for path in reports}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files to those of docs/."""
    for source, name in list_files().items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to the pages of the site; of a link to any other file keep its text."""
    known = list_files()
    origin = {name: source for source, name in known.items()}
    here = page.file.src_uri
    source = origin.get(here, f"docs/{here}")

    def convert(match: re.Match[str]) -> str:
        text, target = match.groups()
        if IS_FOREIGN.match(target) or here.startswith("reference/"):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        name = known.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if name is not None:
            name = posixpath.relpath(name, posixpath.dirname(here) or ".")
            return f"[{text}]({name}{'#' * bool(anchor)}{anchor})"
        if not (ROOT / path).exists():
            log.warning("%s: a link leads to '%s', which does not exist.", source, path)
        return text

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(convert, part) for part in parts)
