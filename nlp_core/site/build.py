"""Write the site: every page is rendered before the first is written."""

from importlib.resources import files
from pathlib import Path

from nlp_core.files import check_replaceable, replacing_folder
from nlp_core.site.project import read_project

ASSETS = ("site.css", "site.js")


def write_site(root: Path, folder: Path) -> None:
    """Write the pages into a folder, in place of a former site.

    Raises:
        ConfigError: the folder holds something else, or a file that a person writes is wrong.
        DataError: a results file is damaged, or a report has no figure.
    """
    marker = f"assets/{ASSETS[0]}"
    check_replaceable(folder, marker=marker, name="site", option="--out", force=True)
    project = read_project(root)
    # loads torch: seconds, in which the tables are being reviewed
    from nlp_core.site.pages import render_pages

    pages = dict(render_pages(project))
    assets = files("nlp_core.site") / "assets"
    pages |= {f"assets/{name}": (assets / name).read_text(encoding="utf-8") for name in ASSETS}
    with replacing_folder(folder) as temporary:
        for name, text in sorted(pages.items()):
            path = temporary / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
