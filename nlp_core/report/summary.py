"""The generated parts of README.md: the outcomes of all tables, and the figure of them.

`<!-- generated:headline -->` and `<!-- /generated -->` are each on a line of their own; the text
between them is written from results/ and reports/published/.
"""

import re
from collections.abc import Callable
from pathlib import Path

from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import replacing, write_text
from nlp_core.report.headline import Headline, Tally, read_headline
from nlp_core.report.headline_figure import draw_headline
from nlp_core.report.markdown import render_rows

BLOCK = re.compile(
    r"^<!-- generated:(\w+) -->\n(.*?)^<!-- /generated -->$", re.MULTILINE | re.DOTALL
)
FIGURE = Path("reports") / "headline.svg"


def update_readme(path: Path, root: Path) -> bool:
    """Write the generated parts of a README and the figure, and return whether the text changed.

    Raises:
        ConfigError: a marker has an unknown name.
        DataError: a marker has no end, or a results file is damaged.
    """
    headline = read_headline(root)
    text = path.read_text(encoding="utf-8")
    updated = fill_markers(text, headline, where=str(path))
    with replacing(root / FIGURE) as temporary:
        temporary.write_bytes(draw_headline(headline))
    if updated != text:
        write_text(path, updated)
    return updated != text


def fill_markers(text: str, headline: Headline, *, where: str) -> str:
    """Return a markdown text with the generated parts between its markers.

    Args:
        where: the file's name in an error message.

    Raises:
        ConfigError: a marker has an unknown name.
        DataError: a marker has no end.
    """
    if len(BLOCK.findall(text)) != text.count("<!-- generated:"):
        raise DataError(
            f"{where}: found a marker '<!-- generated:NAME -->' without its '<!-- /generated -->', "
            "or not alone on its line; expected each marker on a line of its own, in pairs."
        )

    def write(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in PARTS:
            raise ConfigError(f"{where}: unknown marker 'generated:{name}'. {suggest(name, PARTS)}")
        return f"<!-- generated:{name} -->\n{PARTS[name](headline)}\n<!-- /generated -->"

    return BLOCK.sub(write, text)


def render_headline(headline: Headline) -> str:
    """Return how many numbers were compared and their outcomes, in sentences."""
    total = headline.total
    text = (
        f"**{len(total.compared)} numbers compared with published ones: {total.num_good} "
        f"reproduced or above, {total.num_below} below.\n"
        f"{total.num_not_run} published numbers are not run**; the reports give the reasons."
    )
    if total.honest:
        good = sum(number.standing != "below" for number in total.honest)
        text += (
            f" For {len(total.honest)} of the compared numbers the paper\n"
            "chose the epoch on the reported split, and so do we; chosen on held-out data, "
            f"{good} of these {len(total.honest)} are reproduced or above."
        )
    return text


def render_tables(headline: Headline) -> str:
    """Return one row for each table, and their sum."""
    header = ["table", "compared", "reproduced or above", "below", "not run", "report"]
    rows = [
        [tally.title, *_count(tally), f"[{tally.table}](reports/{tally.table}.md)"]
        for tally in headline.tallies
    ]
    return render_rows(header, [*rows, ["all", *_count(headline.total), ""]])


PARTS: dict[str, Callable[[Headline], str]] = {
    "headline": render_headline,
    "tables": render_tables,
}
"""What writes a generated part, by the name in its marker."""


def _count(tally: Tally) -> list[str]:
    counts = [len(tally.compared), tally.num_good, tally.num_below, tally.num_not_run]
    return [str(count) for count in counts]
