"""Where the numbers of a cell come from: data, model, recipe, seeds, machine, commands, commit."""

from collections.abc import Iterator
from pathlib import Path

from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.errors import ConfigError, suggest
from nlp_core.files import ask_git
from nlp_core.report.comparison import Comparison
from nlp_core.report.cost import describe_cost, measure_costs, read_costs
from nlp_core.report.markdown import list_values
from nlp_core.report.results import CellResult

Facts = dict[str, str]
DIGEST_LETTERS = 16


def explain(
    comparison: Comparison, cell: str, params: Params, root: Path, *, has_commit: bool = True
) -> dict[str, Facts]:
    """Return what is known of a cell: named facts, by section.

    Args:
        has_commit: whether to look for the commit of the numbers in the history.

    Raises:
        ConfigError: the table has no such cell, or a file that describes it is wrong.
    """
    results = comparison.results
    experiment = params.experiments.get(cell)
    if experiment is None or experiment.table != results.table:
        names = [name for name, item in params.experiments.items() if item.table == results.table]
        raise ConfigError(f"table '{results.table}': unknown cell '{cell}'. {suggest(cell, names)}")
    found = results.cells.get(cell)
    sections = {
        "scores": dict(_list_scores(comparison, cell)),
        "data": dict(_list_data(experiment, found, params)),
        "model": {"file": experiment.model, "starts from": experiment.init},
        "recipe": _list_recipe(experiment, params),
    }
    if found is not None:
        total = f"{found.parameters['total']:,}"
        trained = found.parameters.get("trainable")
        sections["model"]["parameters"] = total + (f", {trained:,} trained" if trained else "")
        sections["training"] = _list_training(found, params)
        costs = measure_costs(results, params, read_costs(results.table, root))
        sections["cost"] = describe_cost(costs[cell])
        if has_commit:
            sections["commit"] = _find_commit(results.table, found, root)
    report = f"reports/{results.table}.md"
    sections["commands"] = {
        "train": f"dvc repro finetune@{cell}",
        "measure": f"snakemake --cores 2 {report}",
        "verify": f"reglue verify {results.table} {cell}",
    }
    return sections


def _list_scores(comparison: Comparison, cell: str) -> Iterator[tuple[str, str]]:
    for entry in comparison.entries:
        if entry.cell != cell:
            continue
        ours = "not run"
        if entry.ours is not None:
            seeds = "seed" if entry.ours.n == 1 else "seeds"
            ours = f"{entry.ours.mean:.2f} ± {entry.ours.sd:.2f} over {entry.ours.n} {seeds}"
        published = entry.number.value
        compared = "" if published is None else f"; published {published:.2f}: {entry.verdict.text}"
        yield f"{entry.row}, {entry.column}, {entry.metric}", ours + compared


def _list_data(
    experiment: ExperimentConfig, found: CellResult | None, params: Params
) -> Iterator[tuple[str, str]]:
    for task in params.list_tasks(experiment.data):
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


def _find_commit(table: str, found: CellResult, root: Path) -> Facts:
    """Return the commit that brought the weights, or the scores where no digest is kept."""
    first = next(iter(found.runs.values()), None)
    if first is None or first.weights is None:
        return {}
    search = ("-1", "--format=%H %cs %s", f"-S{first.weights}")
    line = ask_git(root, "log", *search, "--", f"results/{table}.json")
    return {"results from": line or "not committed yet"}
