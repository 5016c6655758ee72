"""The sections of a report that say how its numbers were made, and how to make them again."""

from collections.abc import Mapping

from nlp_core.config.base import CELLS
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.config.recipe import RecipeConfig
from nlp_core.report.markdown import SELECTIONS, render_rows
from nlp_core.report.results import CellResult

DIGEST_LETTERS = 12


def render_making(
    cells: Mapping[str, CellResult], recipes: Mapping[str, RecipeConfig]
) -> list[str]:
    """Return how the cells were trained, section by section."""
    header = ["cell", "model", "recipe", "seeds", "parameters"]
    header += ["epoch chosen on", "reported on", "epochs"]
    rows = [
        [
            f"`{name}`",
            f"[{cell.model}](../{cell.model})",
            cell.recipe,
            ", ".join(map(str, cell.seeds)),
            f"{cell.parameters['total']:,}",
            _describe_choice(cell, recipes[cell.recipe]),
            ", ".join(dict.fromkeys(task.report_split for task in cell.tasks.values())),
            _describe_epochs(cell),
        ]
        for name, cell in cells.items()
    ]
    return [render_rows(header, rows), render_recipes(cells, recipes)]


def _describe_choice(cell: CellResult, recipe: RecipeConfig) -> str:
    if recipe.kept_epoch == "last":
        return "nothing, the last is kept"
    return ", ".join(dict.fromkeys(task.select_split for task in cell.tasks.values()))


def _describe_epochs(cell: CellResult) -> str:
    return "; ".join(
        (f"{SELECTIONS.get(key, key)}: " if len(cell.epochs) > 1 else "")
        + ", ".join(f"{epoch:g}" for epoch in epochs)
        for key, epochs in cell.epochs.items()
    )


def render_recipes(
    cells: Mapping[str, CellResult],
    recipes: Mapping[str, RecipeConfig] | Mapping[str, EncoderConfig],
) -> str:
    """Return the values that the cells were trained by, and where these come from.

    Args:
        recipes: by the name that a cell has for its recipe.
    """
    lines = ["Recipes, and where their values come from (what is not named is at its default):", ""]
    for name in sorted({cell.recipe for cell in cells.values()}):
        unsaid = {"source", "table"}
        values = recipes[name].model_dump(mode="json", exclude_defaults=True, exclude=unsaid)
        text = ", ".join(f"{key} {value}" for key, value in flatten(values).items())
        lines.append(f"- **{name}**: {recipes[name].source.strip()}. {text}.")
    return "\n".join(lines)


def flatten(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return nested mappings as one, its keys joined by dots; `x.name` is called `x`."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        name = prefix if key == "name" and prefix else f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            flat |= flatten(value, name)
        else:
            flat[name] = value
    return flat


def render_data(cells: Mapping[str, CellResult]) -> str:
    """Return the digests of the data of all cells, and what is not the official release."""
    digests = {item: None for cell in cells.values() for item in cell.data.items()}
    for init in (cell.init for cell in cells.values() if cell.init is not None):
        place = init["path"].removeprefix("data/processed/").removeprefix(CELLS)
        digests[place, init["sha256"]] = None
    shown = ", ".join(
        f"{name} `{digest.removeprefix('sha256:')[:DIGEST_LETTERS]}`"
        for name, digest in sorted(digests)
    )
    lines = [f"Data, by the first letters of the sha256 of what training reads: {shown}."]
    notes = sorted({note for cell in cells.values() for note in cell.footnotes})
    if notes:
        lines += ["", "Not the official release:", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines)


def render_machines(cells: Mapping[str, CellResult]) -> str:
    """Return the fingerprints of the cells, and which cells older code trained."""
    machines: dict[str, list[str]] = {}
    for name, cell in cells.items():
        facts = ", ".join(f"{key} {value}" for key, value in sorted(cell.fingerprint.items()))
        machines.setdefault(f"{facts}; numerics {cell.numerics}", []).append(name)
    newest = max(cell.numerics for cell in cells.values())
    older = [name for name, cell in cells.items() if cell.numerics < newest]
    if len(machines) == 1:
        return f"Fingerprint of all cells: {next(iter(machines))}."
    lines = [
        "Fingerprints:",
        "",
        *(f"- {facts}: {', '.join(names)}" for facts, names in machines.items()),
    ]
    if older:
        lines += ["", f"Trained by code before numerics {newest}: {', '.join(older)}."]
    return "\n".join(lines)


def render_commands(
    table: str, stages: Mapping[str, tuple[str, str]], *, is_timed: bool = False
) -> str:
    """Return the commands that make the table, and each of its cells, again.

    Args:
        stages: for each cell the stage that makes it, and its folder.
        is_timed: whether times are among the numbers.
    """
    sections = [
        "## Again",
        "The whole table, one stage at a time, or side by side on two cores:",
        f"```\ndvc repro report@{table}\nsnakemake --cores 2 reports/{table}.md\n```",
    ]
    if stages:
        rows = [
            [
                cell,
                f"`dvc repro {stage} report@{table}`",
                f"`snakemake --cores 2 {folder} reports/{table}.md`",
            ]
            for cell, (stage, folder) in stages.items()
        ]
        names = sorted({stage.partition("@")[0] for stage, _ in stages.values()})
        again = " or ".join(f"`dvc repro --single-item {name}@<cell>`" for name in names)
        sections += [
            "One cell and the table, by DVC or by Snakemake:",
            render_rows(["cell", "DVC", "Snakemake"], rows),
            "Both do only what is not done. To train a cell from nothing, remove "
            f"`artifacts/work/{table}/<cell>` and add `--force` to {again}.",
        ]
    if is_timed:
        sections += [
            "Another machine has other times: `dvc repro --force --single-item "
            f"evaluate@{table}` takes them again."
        ]
    return "\n\n".join(sections)
