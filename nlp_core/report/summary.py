"""The small tables of README.md: each between two markers, written from results/ again and again.

`<!-- table:wikiqa -->` and `<!-- /table -->` stand each on a line of its own; what is between
them is ours to write.
"""

import re
from pathlib import Path

from nlp_core.errors import DataError
from nlp_core.files import write_text
from nlp_core.report.comparison import ComparedPart, Comparison, Entry
from nlp_core.report.markdown import render_rows, summarise_outcomes
from nlp_core.report.table import read_comparison

BLOCK = re.compile(r"^<!-- table:(\w+) -->\n(.*?)^<!-- /table -->$", re.MULTILINE | re.DOTALL)
LEGEND = " Our mean, and in brackets the published number; bold: reproduced or above; -: not run."
GAINS = " Gain, loss: the 95 % interval of the difference to another row is on one side of 0."
GOOD = ("above", "reproduced", "trend")


def render_summary(comparison: Comparison) -> str:
    """Return a table in the paper's own shape: our mean, and the published number behind it."""
    title = f"[{comparison.published.title}](reports/{comparison.results.table}.md)"
    has_published = any(entry.number.value is not None for entry in comparison.entries)
    legend = LEGEND if has_published else ""
    has_gains = any(_has_word(entry) for entry in comparison.entries)
    legend += GAINS if has_gains else ""
    head = f"**{title}**: {summarise_outcomes(comparison.entries)}{legend}"
    return "\n\n".join([head, *(_render_grid(part) for part in comparison.parts)])


def update_readme(path: Path, root: Path) -> bool:
    """Write each table between its markers anew and return whether anything changed.

    Args:
        path: the README, or any markdown file with markers.
        root: the project's root.

    Raises:
        ConfigError: a marker names a table without published numbers.
        DataError: a marker has no end, or the results it names are damaged.
    """
    text = path.read_text(encoding="utf-8")
    updated = fill_markers(text, root, where=str(path))
    if updated != text:
        write_text(path, updated)
    return updated != text


def fill_markers(text: str, root: Path, *, where: str) -> str:
    """Return a markdown text with each table between its markers written anew.

    Args:
        text: the markdown.
        root: the project's root.
        where: the file's name in an error message.

    Raises:
        ConfigError: a marker names a table without published numbers.
        DataError: a marker has no end, or the results it names are damaged.
    """
    if len(BLOCK.findall(text)) != text.count("<!-- table:"):
        raise DataError(
            f"{where}: found a marker '<!-- table:NAME -->' without its '<!-- /table -->', or not "
            "alone on its line; expected each marker on a line of its own, in pairs."
        )

    def write(match: re.Match[str]) -> str:
        name = match.group(1)
        if (root / "results" / f"{name}.json").exists():
            summary = render_summary(read_comparison(name, root))
        else:
            summary = f"Not measured yet: `snakemake --cores 2 reports/{name}.md` makes it."
        return f"<!-- table:{name} -->\n{summary}\n<!-- /table -->"

    return BLOCK.sub(write, text)


def _render_grid(part: ComparedPart) -> str:
    columns = [name for name in part.config.columns if any(e.column == name for e in part.entries)]
    rows = []
    for row in part.config.rows:
        entries = {entry.column: entry for entry in reversed(part.entries) if entry.row == row.name}
        if entries:
            decimals = part.config.decimals
            cells = [_describe(entries.get(column), decimals) for column in columns]
            rows.append([row.name, *cells])
    return render_rows([part.config.title, *columns], rows)


def _describe(entry: Entry | None, decimals: int) -> str:
    if entry is None:
        return ""
    value = entry.number.value
    published = "" if value is None else f" ({value:.{decimals}f})"
    if entry.ours is None:
        is_elsewhere = value is None and entry.verdict.outcome == "reference"
        return entry.verdict.text if is_elsewhere else f"-{published}"
    mean = f"{entry.ours.mean:.{decimals}f}"
    mean = f"**{mean}**" if entry.verdict.outcome in GOOD else mean
    word = f", {entry.gain.outcome}" if entry.gain is not None and _has_word(entry) else ""
    return f"{mean}{published}{word}"


def _has_word(entry: Entry) -> bool:
    return entry.gain is not None and entry.gain.outcome in ("gain", "loss")
