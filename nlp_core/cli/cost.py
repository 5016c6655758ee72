"""`reglue cost`: show what the cells of a table cost: core time, memory, energy.

Show what the training of a table's cells cost: core time, memory and an estimate of energy, from
results/cost/TABLE.json.

Examples:
    reglue cost sample
    reglue cost sample --json
"""

import argparse
from pathlib import Path

from rich import box
from rich.table import Column, Table

from nlp_core.cli.output import open_console, print_json
from nlp_core.config.params import read_params
from nlp_core.report.cost import GIB, CellCost, measure_costs, read_costs, record_costs
from nlp_core.report.results import read_results

GROUP = "reproduce tables"
PLACE = 6
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a measured table")
    parser.add_argument(
        "--record",
        action="store_true",
        help="first copy the costs of the measured seeds from runs/ to results/cost/TABLE.json, "
        "and write the report",
    )


def run(options: argparse.Namespace) -> None:
    root, table = Path(), options.table
    params = read_params(root / "params.yaml")
    params.check_table(table)
    results = read_results(table, root)
    if options.record:
        from nlp_core.report.table import write_report  # a second of matplotlib

        costs = record_costs(results, params, root)
        write_report(table, root)
    else:
        costs = read_costs(table, root)
    found = measure_costs(results, params, costs)
    if options.json:
        print_json({name: _describe(cell) for name, cell in found.items()})
    elif found:
        _print_table(found)
    else:
        print(f"{table}: no cell of this table is trained.")


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
    names = ("seeds", "core-minutes", "peak GiB", "Wh, about", "processor")
    table = Table(Column("cell", no_wrap=True), *names, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, cell in found.items():
        table.add_row(name, *_describe_row(cell))
    open_console().print(table)


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
