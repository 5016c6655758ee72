"""Write a compared table as markdown: the same bytes for the same results, no dates, no paths."""

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from nlp_core.config.base import ClosedModel
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.config.recipe import RecipeConfig
from nlp_core.errors import DataError
from nlp_core.metrics import Confusion, is_lower_better
from nlp_core.report.comparison import ComparedPart, Comparison, Entry, Gain
from nlp_core.report.results import CellResult, Score

PLUS_MINUS = "\u00b1"
SELECTIONS = {"paper": "as the paper", "honest": "honest"}
EPOCHS = {"paper": "as the paper did", "honest": "honestly"}

Row = Sequence[str]


class Grid(NamedTuple):
    header: list[str]
    rows: list[list[str]]


def render_report(
    comparison: Comparison, pictures: Mapping[str, str], sections: Iterable[str]
) -> str:
    """Return the report of a table as markdown.

    Args:
        pictures: what each figure shows, by the name of its file without the ending.
        sections: what follows the parts; empty ones are left out.
    """
    published = comparison.published
    texts = [
        f"# {published.title}",
        published.description.strip(),
        f"**{summarise_outcomes(comparison.entries)}**",
        *(f"![{text}]({name}.svg)" for name, text in pictures.items()),
        *(render_part(part, comparison) for part in comparison.parts),
        *sections,
        render_papers(comparison),
    ]
    return "\n\n".join(text for text in texts if text) + "\n"


def render_rows(header: Row, rows: Iterable[Row]) -> str:
    """Return a markdown table, with each cell on one line and its bars escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_write_cell, line)) + " |" for line in lines)


def _write_cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", "\\|")


def check_recipes(cells: Mapping[str, CellResult], recipes: Container[str]) -> None:
    """Raise DataError if the grid no longer has a cell's recipe."""
    for name, cell in cells.items():
        if cell.recipe not in recipes:
            raise DataError(
                f"{name}: found the recipe '{cell.recipe}' in the results, which the grid does not "
                "have. Measure the cell again after a recipe was renamed."
            )


def render_recipes(
    cells: Mapping[str, CellResult],
    recipes: Mapping[str, RecipeConfig] | Mapping[str, EncoderConfig],
) -> str:
    """Return the values that the cells were trained by, and where these come from."""
    lines = ["Recipes, and where their values come from (what is not named is at its default):", ""]
    for name in sorted({cell.recipe for cell in cells.values()}):
        text = ", ".join(f"{key} {value}" for key, value in list_values(recipes[name]).items())
        lines.append(f"- **{name}**: {recipes[name].source.strip()}. {text}.")
    return "\n".join(lines)


def list_values(config: ClosedModel) -> dict[str, str]:
    """Return the values of a recipe that are not defaults."""
    unsaid = {"source", "table"}
    return flatten(config.model_dump(mode="json", exclude_defaults=True, exclude=unsaid))


def flatten(values: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return nested mappings as one, its keys joined by dots; `x.name` is called `x`."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = prefix if key == "name" and prefix else f"{prefix}.{key}" if prefix else key
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        flat |= flatten(value, name) if isinstance(value, Mapping) else {name: text}
    return flat


def list_confusion(confusion: Confusion) -> list[list[str]]:
    """Return a header, and a row for each right label with a column for each predicted one.

    The last column and the last row hold the sums.
    """
    header = ["right / predicted", *confusion.labels, "all"]
    rows = [
        [label, *(str(count) for count in counts), str(counts.sum())]
        for label, counts in zip(confusion.labels, confusion.counts, strict=True)
    ]
    sums = confusion.counts.sum(0)
    rows.append(["all", *(str(count) for count in sums), str(sums.sum())])
    return [header, *rows]


def summarise_outcomes(entries: Sequence[Entry]) -> str:
    """Return how many numbers were measured and what came of them, in one sentence."""
    measured = [entry for entry in entries if entry.ours is not None]
    has_both = len({entry.selection for entry in measured}) > 1
    parts = []
    for selection in SELECTIONS:
        chosen = [entry for entry in measured if entry.selection == selection]
        if chosen:
            noun = "number" if len(chosen) == 1 else "numbers"
            way = f", epoch chosen {EPOCHS[selection]}" if has_both else ""
            parts.append(f"{len(chosen)} {noun} measured{way}: {_count(chosen)}")
            gains = _count_gains(chosen)
            parts += [f"compared with another row{way}: {gains}"] if gains else []
    absent = [e for e in entries if e.ours is None and e.verdict.outcome == "open"]
    if absent:
        parts.append(f"{len(absent)} not run")
    return f"{'; '.join(parts)}." if parts else "Nothing measured."


def _count(entries: Sequence[Entry]) -> str:
    outcomes = Counter(entry.verdict.outcome for entry in entries)
    counts = {
        "reproduced or above": outcomes["above"] + outcomes["reproduced"],
        "below": outcomes["below"],
        "trend holds": outcomes["trend"],
        "trend does not hold": outcomes["no trend"],
        "without a verdict": outcomes["no verdict"],
        "with no published number": outcomes["ours"],
        "with nothing to compare with": outcomes["open"],
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _count_gains(entries: Sequence[Entry]) -> str:
    outcomes = Counter(entry.gain.outcome for entry in entries if entry.gain is not None)
    gains, losses = outcomes["gain"], outcomes["loss"]
    counts = {
        "gain" if gains == 1 else "gains": gains,
        "loss" if losses == 1 else "losses": losses,
        "without a difference": outcomes["no gain here"],
        "without an interval": outcomes["one seed"] + outcomes["no spread"],
        "with nothing to compare with": outcomes["open"],
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def format_gain(gain: Gain) -> str:
    """Return a difference, its interval and its outcome: `+2.1 over A, +0.2 to +4.0: gain`."""
    if gain.difference is None:
        return f"nothing to compare with in {gain.over}"
    begin = f"{gain.difference:+.2f} over {gain.over}"
    if gain.interval is None:
        return f"{begin}, no interval: {gain.outcome}"
    return f"{begin}, {gain.interval:+.2f}: {gain.outcome}"


def format_score(score: Score) -> str:
    """Return mean, spread and number of seeds: `90.81 +- 0.21 (3)`."""
    if score.n == 1:
        return f"{score.mean:.2f} (1)"
    return f"{score.mean:.2f} {PLUS_MINUS} {score.sd:.2f} ({score.n})"


def build_grid(part: ComparedPart, comparison: Comparison) -> Grid:
    """Return the numbers of a part as text, without the columns that would be empty."""
    has_published = any(entry.number.value is not None for entry in part.entries)
    over = comparison.published.measured_over
    columns = {
        "model": True,
        "number": True,
        "published": has_published,
        "literature": any(entry.number.literature for entry in part.entries),
        "epoch": part.config.selection != "honest",
        f"ours, mean {PLUS_MINUS} sd ({over})": True,
        "mean, 95 % interval": any(map(comparison.find_mean_interval, part.entries)),
        "next run, 95 %": has_published,
        "difference": has_published,
        "gain, 95 % interval": any(entry.gain is not None for entry in part.entries),
        "verdict": True,
    }
    rows = [_describe_entry(entry, part, comparison) for entry in part.entries]
    return Grid(
        [name for name, is_shown in columns.items() if is_shown],
        [list(compress(row, columns.values())) for row in rows],
    )


def render_part(part: ComparedPart, comparison: Comparison) -> str:
    """Return a part of the table as markdown, with its notes."""
    return "\n\n".join(
        text
        for text in (
            f"## {part.config.title}",
            (part.config.note or "").strip(),
            render_rows(*build_grid(part, comparison)),
            _explain_verdicts(part),
            _explain_gains(part),
            render_notes(part, comparison),
        )
        if text
    )


def _describe_entry(entry: Entry, part: ComparedPart, comparison: Comparison) -> list[str]:
    number, ours, difference = entry.number, entry.ours, entry.difference
    of_mean, interval = comparison.find_mean_interval(entry), entry.expected
    decimals = part.config.decimals
    literature = "; ".join(
        f"{_format_published(item.value, item.sd, decimals)} "
        f"({comparison.published.papers[item.paper].name})"
        for item in number.literature
    )
    return [
        entry.row,
        entry.column,
        "" if number.value is None else _format_published(number.value, number.sd, decimals),
        literature,
        "" if ours is None else SELECTIONS[entry.selection],
        "" if ours is None else format_score(ours),
        "" if of_mean is None else f"{of_mean:.2f}",
        "" if interval is None else f"{interval:.2f}",
        "" if difference is None else f"{difference:+.2f}",
        "" if entry.gain is None else format_gain(entry.gain),
        entry.verdict.text,
    ]


def _format_published(value: float, sd: float | None, decimals: int) -> str:
    return f"{value:.{decimals}f}" + ("" if sd is None else f" {PLUS_MINUS} {sd:.2f}")


def _explain_verdicts(part: ComparedPart) -> str:
    compared = [entry for entry in part.entries if entry.difference is not None]
    if not compared:
        return ""
    if all(entry.verdict.outcome == "no verdict" for entry in compared):
        is_timed = all(entry.number.claim == "other_hardware" for entry in compared)
        why = "The machines differ" if is_timed else "One run shows no spread"
        return f"The difference is ours less published. {why}: there is no verdict."
    explained = (
        "Next run: where our seeds expect the score of one more run on this split, with 95 % "
        "confidence. Reproduced: the published number is in this range. Above: it is lower than "
        "the range. Below: it is higher. The difference is ours less published."
    )
    lower = sorted({entry.column for entry in part.entries if is_lower_better(entry.metric)})
    return f"{explained} Less is better for {', '.join(lower)}." if lower else explained


def _explain_gains(part: ComparedPart) -> str:
    compared = [entry for entry in part.entries if entry.gain is not None]
    if not compared:
        return ""
    lower = sorted({entry.column for entry in compared if is_lower_better(entry.metric)})
    reverse = f" Less is better for {', '.join(lower)}, where the two words are swapped."
    return (
        "Gain: the difference to the mean of another row, with its 95 % confidence interval over "
        "seeds by Welch's t. It is a gain where the whole interval is above 0, a loss where it is "
        f"below, and no gain here where it holds 0.{reverse if lower else ''} An interval covers "
        "the chance of seeds, not of the examples that were measured, and each by itself: where "
        "nothing differs, one in twenty still misses 0."
    )


def render_notes(part: ComparedPart, comparison: Comparison) -> str:
    """Return the reasons and remarks that the verdicts of a part refer to, one a line."""
    named = {row.reason for row in part.config.rows}
    named |= {number.reason for row in part.config.rows for number in row.numbers.values()}
    used = {key for key in named if any(f"[{key}]" in entry.verdict.text for entry in part.entries)}
    reasons = comparison.published.reasons
    lines = [f"- not run [{key}]: {reasons[key].strip()}." for key in sorted(filter(None, used))]
    remarks = {
        f"- {entry.row}, {entry.column}: {entry.number.remark.strip()}": None
        for entry in part.entries
        if entry.number.remark
    }
    return "\n".join([*lines, *remarks])


def render_papers(comparison: Comparison) -> str:
    """Return the sources of the published numbers."""
    papers = comparison.published.papers
    if not papers:
        return ""
    lines = ["## Sources", ""]
    for _, paper in sorted(papers.items(), key=lambda item: item[1].name):
        place = f", {paper.place}" if paper.place else ""
        url = f" <{paper.url}>" if paper.url else ""
        lines.append(f"- {paper.name}: {paper.citation.strip()}{place}.{url}")
    return "\n".join(lines)
