"""`reglue cost`: what the cells of a table cost."""

import argparse
import json
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from nlp_core.cli.program import Command
from nlp_core.config.params import Params, read_params
from nlp_core.errors import ConfigError, suggest
from nlp_core.report.cost import (
    GIB,
    CellCost,
    Costs,
    measure_costs,
    read_costs,
    record_costs,
)
from nlp_core.report.results import Results, read_results

COMMAND = Command(
    group="reproduce tables",
    place=5,
    summary="show what the cells of a table cost: core time, memory, energy",
    description="Show what the training of a table's cells cost: core time, memory and an "
    "estimate of energy, from results/cost/TABLE.json.",
    examples=("reglue cost sample", "reglue cost sample --json"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a measured table")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--record",
        action="store_true",
        help="first take over what runs/ has of the measured seeds into results/cost/TABLE.json, "
        "and write the report",
    )


def run(options: argparse.Namespace) -> None:
    """Show the costs of a table, and record them if asked.

    Raises:
        ConfigError: there is no such table, or params.yaml or the grid is wrong.
        DataError: the table is not measured, or a file is damaged.
    """
    root = Path()
    params = read_params(root / "params.yaml")
    if options.table not in params.tables:
        hint = suggest(options.table, params.tables)
        raise ConfigError(f"table '{options.table}': unknown. {hint}")
    results = read_results(options.table, root)
    costs = _record(results, params, root) if options.record else read_costs(options.table, root)
    found = measure_costs(results, params, costs)
    if options.json:
        print(json.dumps({name: _describe(cell) for name, cell in found.items()}, indent=2))
    elif found:
        _print_table(found)
    else:
        print(f"{options.table}: no cell of this table is trained.")


def _record(results: Results, params: Params, root: Path) -> Costs:
    from nlp_core.report.table import write_report  # a second of matplotlib

    costs = record_costs(results, params, root)
    write_report(results.table, root)
    return costs


def _describe(cell: CellCost) -> dict[str, object]:
    return {
        "core_seconds": cell.core_seconds,
        "is_lower_bound": cell.is_lower_bound,
        "peak_bytes": cell.peak_bytes,
        "watt_hours": cell.watt_hours,
        "runs": {
            seed: run.model_dump(exclude={"weights"}) | {"core_seconds": run.core_seconds}
            for seed, run in cell.runs.items()
        },
        "seeds_without_record": cell.missing,
    }


def _print_table(found: dict[str, CellCost]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("cell", no_wrap=True)
    for column in ("seeds", "core-minutes", "peak GiB", "Wh, about", "processor"):
        table.add_column(column)
    for name, cell in found.items():
        table.add_row(name, *_describe_row(cell))
    Console(markup=False, highlight=False).print(table)


def _describe_row(cell: CellCost) -> list[str]:
    if not cell.runs:
        return ["no record"]
    count = f"{len(cell.runs)}"
    energy, peak = cell.watt_hours, cell.peak_bytes
    return [
        count if not cell.missing else f"{count} of {len(cell.runs) + len(cell.missing)}",
        ("at least " if cell.is_lower_bound else "") + f"{cell.core_seconds / 60:.1f}",
        "not measured" if peak is None else f"{peak / GIB:.1f}",
        "none for a GPU" if energy is None else f"{energy:.1f}",
        ", ".join(sorted({run.processor or "unknown" for run in cell.runs.values()})),
    ]
