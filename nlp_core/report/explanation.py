"""Where the numbers of a cell come from: data, model, recipe, seeds, machine, commands, commit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from nlp_core.config.base import check_known
from nlp_core.config.dataset import read_dataset
from nlp_core.config.ensemble import EnsembleConfig
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import GRID, CellConfig, ExperimentConfig, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import ConfigError
from nlp_core.files import ask_git
from nlp_core.report.cell import match_cells, name_command
from nlp_core.report.comparison import Comparison
from nlp_core.report.cost import describe_cost, measure_costs, read_costs
from nlp_core.report.markdown import format_score, list_values
from nlp_core.report.results import ON_GPU, CellResult, Results

Facts = dict[str, str]
DIGEST_LETTERS = 16


def explain(
    comparison: Comparison, cell: str, params: Params, root: Path, *, has_commit: bool = True
) -> dict[str, Facts]:
    """Return what is known of a cell: named facts, by section.

    Args:
        cell: a trained or pretrained cell, or a way of running an export, such as `ner_int8`.
        has_commit: whether to look for the commit of the numbers in the history.

    Raises:
        ConfigError: the table has no such cell, or a file that describes it is wrong.
    """
    results = comparison.results
    name, item = _find_item(results, cell, params)
    found = results.cells.get(cell)
    sections = {"scores": dict(_list_scores(comparison, cell)), **_describe(item, found, params)}
    if found is not None:
        total = f"{found.parameters['total']:,}"
        trained = found.parameters.get("trainable")
        sections["model"]["parameters"] = total + (f", {trained:,} trained" if trained else "")
        sections["training"] = _list_training(found, params)
        costs = measure_costs(results, params, read_costs(results.table, root))
        if cell in costs:
            sections["cost"] = describe_cost(costs[cell])
        if has_commit:
            sections["commit"] = _find_commit(results.table, found, root)
        if cell in results.curves:
            sections["curves"] = dict(_list_curves(results.curves[cell]))
    make = {ExportConfig: "export", EnsembleConfig: "average"}.get(type(item), "train")
    device = f"{ON_GPU} " if found is not None and found.is_of_gpu else ""
    sections["commands"] = {make: f"{device}{name_command(name, item, params)}"}
    if cell not in params.optional:  # its command measures it too
        sections["commands"]["measure"] = f"snakemake --cores 2 reports/{results.table}.md"
    if not isinstance(item, ExportConfig):
        sections["commands"]["verify"] = f"{device}reglue verify {item.table} {cell}"
    if (pictured := sections["model"]["file"]).endswith(".json") and " + " not in pictured:
        sections["commands"]["picture of the model"] = f"reglue show {pictured} --svg {cell}.svg"
    return sections


def _find_item(results: Results, cell: str, params: Params) -> tuple[str, CellConfig]:
    """Return the cell of the grid behind a measured cell, with its name there."""
    items = params.list_cells(results.table, params.optional)
    names = match_cells(results.cells, items)
    names |= {name: name for name, item in items.items() if not isinstance(item, ExportConfig)}
    check_known(f"{GRID}/{results.table}.yaml", "cell", cell, names, ConfigError)
    return names[cell], items[names[cell]]


def _describe(item: CellConfig, found: CellResult | None, params: Params) -> dict[str, Facts]:
    """Return the data, the model and the recipe of a cell."""
    if isinstance(item, EncoderConfig):
        model = {"file": found.model if found else item.init, "starts from": item.init}
        recipe = {"values from": " ".join(item.source.split())} | list_values(item)
        tasks = [item.data, item.measured_on]
    elif isinstance(item, EnsembleConfig):
        cells = [*params.list_members(item.cells).values()]
        files = dict.fromkeys(params.experiments[Path(cell).name].model for cell in cells)
        model = {"file": " + ".join(files), "members": item.describe_members(cells)}
        recipe = {"averages": item.combination, "ensembles": str(item.repeats)}
        tasks = [item.task] if item.task else params.list_tasks(item.data)
    elif isinstance(item, ExportConfig):
        trained = params.experiments[Path(item.cell).name]
        model = {"file": trained.model, "exported from": f"{item.cell}/seed-{item.seed}"}
        recipe = list_values(item)
        tasks = params.list_tasks(trained.data)
    else:
        model = {"file": item.model, "starts from": item.init}
        recipe = _list_recipe(item, params)
        tasks = params.list_tasks(item.data)
    return {"data": dict(_list_data(tasks, found)), "model": model, "recipe": recipe}


def _list_scores(comparison: Comparison, cell: str) -> Iterator[tuple[str, str]]:
    shown = [
        (part.config.title, f"{entry.row}, {entry.column}, {entry.metric}", entry)
        for part in comparison.parts
        for entry in part.entries
        if entry.cell == cell
    ]
    counts = Counter(name for _, name, _ in shown)
    for title, name, entry in shown:
        ours = "not run"
        if entry.ours is not None:
            ours = format_score(entry.ours)
        published = entry.number.value
        compared = "" if published is None else f"; published {published:.2f}: {entry.verdict.text}"
        yield f"{name} of {title}" if counts[name] > 1 else name, ours + compared


def _list_data(tasks: Iterable[str], found: CellResult | None) -> Iterator[tuple[str, str]]:
    for task in tasks:
        config = read_dataset(task)
        digest = (found.data.get(task, "") if found else "").removeprefix("sha256:")
        shown = f"sha256 {digest[:DIGEST_LETTERS]}, " if digest else ""
        yield task, f"{shown}licence {config.licence}; {' '.join(config.citation.split())}"
    for note in found.footnotes if found else []:
        yield f"not the official release, {note.partition(':')[0]}", note.partition(":")[2].strip()


def _list_recipe(experiment: ExperimentConfig, params: Params) -> Facts:
    recipe = params.recipes[experiment.recipe]
    source = " ".join(recipe.source.split())
    return {"name": experiment.recipe, "values from": source} | list_values(recipe)


def _list_training(found: CellResult, params: Params) -> Facts:
    facts = {
        "seeds": ", ".join(map(str, found.seeds)),
        **{
            f"epochs chosen, {selection}": ", ".join(f"{epoch:g}" for epoch in epochs)
            for selection, epochs in found.epochs.items()
        },
        "fingerprint": found.machine,
        "numerics": str(found.numerics),
    }
    if found.numerics < params.numerics:
        facts["numerics"] += f", older than the code's {params.numerics}: to be retrained"
    for seed, run in found.runs.items():
        weights = (run.weights or "").removeprefix("sha256:")[:DIGEST_LETTERS]
        facts[f"weights of seed {seed}"] = f"sha256 {weights}, {len(run.validations)} validations"
    return facts


def _list_curves(curves: Mapping[str, Sequence[tuple[int, float]]]) -> Iterator[tuple[str, str]]:
    """Yield the name of each line, and its values on the split that chooses the epoch."""
    for name, points in curves.items():
        if points:
            steps = f"steps {points[0][0]:,} to {points[-1][0]:,}: "
            yield name, steps + ", ".join(f"{value:.2f}" for _, value in points)


def _find_commit(table: str, found: CellResult, root: Path) -> Facts:
    """Return the commit that brought the weights, or the scores where no digest is kept."""
    weights = [run.weights for run in found.runs.values() if run.weights]
    means = [f'"mean": {score.mean}' for score in found.metrics.values()]
    first = weights[0] if weights else max(means, key=len)  # the number least likely to recur
    search = ("-1", "--format=%H %cs %s", f"-S{first}")
    line = ask_git(root, "log", *search, "--", f"results/{table}.json")
    return {"results from": line or "not committed yet"}
