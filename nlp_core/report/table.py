"""Write the report of a table: reports/<table>.md and .svg, from its results."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.base import CELLS, name_folder
from nlp_core.config.params import Params, read_params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.files import replacing, write_text
from nlp_core.report.cell import match_cells, name_command, name_stage
from nlp_core.report.comparison import Comparison, read_comparison
from nlp_core.report.cost import measure_costs, read_costs, render_cost
from nlp_core.report.data_audit import render_audits
from nlp_core.report.figure import draw_figure
from nlp_core.report.markdown import (
    SELECTIONS,
    check_recipes,
    render_recipes,
    render_report,
    render_rows,
    summarise_outcomes,
)
from nlp_core.report.results import ON_GPU, CellResult
from nlp_core.report.significance import find_differences, render_differences

log = logging.getLogger(__name__)

DIGEST_LETTERS = 12


class Section(NamedTuple):
    """A section of a report on a type of cell: how the cells were made, and a figure."""

    making: list[str]
    title: str
    svg: bytes


def write_report(table: str, root: Path) -> None:
    """Write the markdown and the figure of a table, in sections by the sort of its cells."""
    params = read_params(root / "params.yaml")
    comparison = read_comparison(table, root, allow_missing=True, params=params)
    cells = comparison.results.cells
    parts = list(_list_sections(comparison, params))
    made = [text for part in parts for text in part.making]
    if cells:
        made = ["## How our numbers were made", *made, _render_data(cells)]
        made.append(_render_machines(cells))
        costs = measure_costs(comparison.results, params, read_costs(table, root))
        made.append(render_cost(costs))
    timed = any(cell.is_timed for cell in cells.values())
    items = params.list_cells(table, cells)
    measured = {*match_cells(cells, items).values()}
    stages = {
        name: (name_stage(name, item), name_folder(item.table, name))
        for name, item in items.items()
        if name in measured and name not in params.optional
    }
    optional = [
        name_command(name, items[name], params) for name in cells if name in params.optional
    ]
    on_gpu = [name for name, cell in cells.items() if cell.is_of_gpu]
    differences = render_differences(find_differences(comparison, root))
    audits = render_audits(cells, params, root)
    sections = [
        differences,
        *audits,
        *made,
        _render_commands(table, stages, on_gpu, optional, is_timed=timed),
    ]
    folder, first = root / "reports", parts[0]
    with replacing(folder / f"{table}.svg") as temporary:
        temporary.write_bytes(first.svg)
    write_text(folder / f"{table}.md", render_report(comparison, {table: first.title}, sections))
    log.info("report table=%s %s", table, summarise_outcomes(comparison.entries))


def _list_sections(comparison: Comparison, params: Params) -> Iterator[Section]:
    cells, curves = comparison.results.cells, comparison.results.curves
    timed = {name: cell for name, cell in cells.items() if cell.is_timed}
    pretrained = {name: cells[name] for name in curves if name in params.encoders}
    averaged = {name: cells[name] for name in cells if name in params.ensembles}
    others = {*timed, *pretrained, *averaged}
    trained = {name: cell for name, cell in cells.items() if name not in others}
    if trained or averaged or not cells:
        making = render_making(trained, params.recipes) if trained else []
        making += [render_ensembles(averaged, params)] if averaged else []
        yield Section(making, "Published and measured numbers", draw_figure(comparison))
    # only tables with such cells need these two modules
    if pretrained:
        from nlp_core.report.pretraining import draw_encoders, render_encoders

        making = [
            render_encoders(pretrained, params.encoders),
            render_recipes(pretrained, params.encoders),
        ]
        svg = draw_encoders({name: curves[name] for name in pretrained}, params.encoders)
        yield Section(making, "Held-out perplexity over the steps", svg)
    if timed:
        from nlp_core.report.latency import draw_times, render_times

        table = comparison.results.table
        making = render_times(timed, table, params.timing.get(table))
        yield Section(making, "Milliseconds and sentences a second", draw_times(timed))


def render_making(
    cells: Mapping[str, CellResult], recipes: Mapping[str, RecipeConfig]
) -> list[str]:
    """Return how the cells were trained, section by section.

    Raises:
        DataError: the grid no longer has a cell's recipe.
    """
    check_recipes(cells, recipes)
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
            ", ".join(dict.fromkeys(s for task in cell.tasks.values() for s in task.report_splits)),
            _describe_epochs(cell),
        ]
        for name, cell in cells.items()
    ]
    return [render_rows(header, rows), render_recipes(cells, recipes)]


def render_ensembles(cells: Mapping[str, CellResult], params: Params) -> str:
    """Return what each ensemble averages."""
    rows = []
    for name, cell in cells.items():
        item = params.ensembles[name]
        members = [*params.list_members(item.cells).values()]
        rows.append(
            [
                f"`{name}`",
                item.describe_members(members),
                item.combination,
                f"{item.repeats} of {len(item.list_members(members, 1))} models",
                f"{cell.parameters['total']:,}",
            ]
        )
    return render_rows(["ensemble", "members", "averages", "ensembles", "parameters"], rows)


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


def _render_data(cells: Mapping[str, CellResult]) -> str:
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


def _render_machines(cells: Mapping[str, CellResult]) -> str:
    """Return the fingerprints of the cells, and which cells older code trained."""
    machines: dict[str, list[str]] = {}
    for name, cell in cells.items():
        machines.setdefault(f"{cell.machine}; numerics {cell.numerics}", []).append(name)
    newest = max(cell.numerics for cell in cells.values())
    older = [name for name, cell in cells.items() if cell.numerics < newest]
    if len(machines) == 1:
        lines = [f"Fingerprint of all cells: {next(iter(machines))}."]
    else:
        lines = [
            "Fingerprints:",
            "",
            *(f"- {facts}: {', '.join(names)}" for facts, names in machines.items()),
        ]
    on_gpu = [name for name, cell in cells.items() if cell.is_of_gpu]
    if on_gpu:
        lines += [
            "",
            f"Trained on a GPU: {', '.join(on_gpu)}. Only the same GPU with the same torch "
            "repeats their scores exactly.",
        ]
    else:
        lines += ["", "No cell ran on a GPU."]
    if older:
        lines += ["", f"Trained by code before numerics {newest}: {', '.join(older)}."]
    return "\n".join(lines)


def _render_commands(
    table: str,
    stages: Mapping[str, tuple[str, str]],
    on_gpu: Collection[str],
    optional: Sequence[str] = (),
    *,
    is_timed: bool = False,
) -> str:
    """Return the commands that regenerate the table and each of its cells.

    Args:
        stages: by cell: the stage that makes it, and its folder.
        on_gpu: the cells that a GPU trained.
        optional: the commands that train and measure optional cells.
    """
    sections = [
        "## How to reproduce it",
        "The whole table, one stage at a time, or side by side on two cores:",
        f"```\ndvc repro report@{table}\nsnakemake --cores 2 reports/{table}.md\n```",
    ]
    if stages:
        rows = [
            [
                cell,
                f"`{_join('dvc repro', stage, f'report@{table}', cell in on_gpu)}`",
                f"`{_join('snakemake --cores 2', folder, f'reports/{table}.md', cell in on_gpu)}`",
            ]
            for cell, (stage, folder) in stages.items()
        ]
        names = sorted({stage.partition("@")[0] for stage, _ in stages.values()} - {"ensemble"})
        again = " or ".join(f"`dvc repro --single-item {name}@<cell>`" for name in names)
        sections += [
            "One cell and the table, by DVC or by Snakemake:",
            render_rows(["cell", "DVC", "Snakemake"], rows),
            "Both run only what is out of date."
            + (
                f" To train a cell from scratch, remove `artifacts/work/{table}/<cell>` and add "
                f"`--force` to {again}."
                if again
                else ""
            ),
        ]
    if optional:
        sections.append("Optional cells, which the DAG leaves out:")
        sections.append("```\n" + "\n".join(optional) + "\n```")
    if is_timed:
        sections.append(
            "Another machine has other times: `dvc repro --force --single-item "
            f"evaluate@{table}` takes them again."
        )
    return "\n\n".join(sections)


def _join(engine: str, cell: str, report: str, is_on_gpu: bool) -> str:
    """Return the command for a cell and its table; only the cell itself is trained on a GPU."""
    if is_on_gpu:
        return f"{ON_GPU} {engine} {cell} && {engine} {report}"
    return f"{engine} {cell} {report}"
