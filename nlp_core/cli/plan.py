"""`reglue plan`: show what building a table would run, how long it takes and what it downloads.

Show which stages of a table would run and why, how long they take by the recorded costs, and what
they download. Nothing is run or fetched.

Examples:
    reglue plan sample
    reglue plan glue --cores 2 --json
"""

import argparse
import os
from pathlib import Path

from rich import box
from rich.table import Column, Table

from nlp_core.cli.output import open_console, print_json
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import Params, read_params
from nlp_core.data.source import Available, Places, find_available
from nlp_core.errors import UsageError
from nlp_core.report.cost import read_costs
from nlp_core.report.forecast import (
    Duration,
    Forecast,
    PlannedStage,
    estimate_cell,
    find_trained,
    forecast,
    select_needed,
)

MOST_REASONS = 2
IN_REMOTE = "not built here, but in the remote"
GROUP = "reproduce tables"
PLACE = 5
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a name in the tables of params.yaml")
    cores = os.cpu_count() or 1
    parser.add_argument("--cores", type=int, default=cores, help="stages that run at a time")


def run(options: argparse.Namespace) -> None:
    root = Path()
    params = read_params(root / "params.yaml")
    params.check_table(options.table)
    if options.cores < 1:
        raise UsageError(f"--cores: found {options.cores}, expected at least 1.")
    plan = make_plan(options.table, params, root, cores=options.cores)
    if options.json:
        print_json(_describe(plan))
    else:
        _print_plan(options.table, plan)


def make_plan(table: str, params: Params, root: Path, *, cores: int) -> Forecast:
    """Return the stages that building a table would run, at most `cores` at a time."""
    from nlp_core import dag  # seconds of DVC

    places = Places(root / "data", os.environ.get("REGLUE_MIRROR"))

    def estimate(stage: str) -> Duration:
        name = stage.partition("@")[2]
        return estimate_cell(name, params, read_costs(find_trained(name, params).table, root))

    def locate(source: str) -> list[Available]:
        return find_available(source, read_dataset(source, root / "sources"), places)

    stages, stale = dag.load_status(root)
    needed = select_needed(stages, f"report@{table}")
    return forecast(
        needed,
        mark_shared(stale, [stage.name for stage in needed], root),
        estimate=estimate,
        locate=locate,
        cores=cores,
    )


def mark_shared(
    stale: dict[str, tuple[str, ...]], needed: list[str], root: Path
) -> dict[str, tuple[str, ...]]:
    """Say of stages that were not built here, and did not change, whether the remote has them."""
    from nlp_core import dag  # seconds of DVC

    absent = [name for name in needed if name in stale and dag.is_absent(stale[name])]
    shared = set(dag.find_shared(root, absent))
    return {
        name: tuple(IN_REMOTE if item == dag.NOT_BUILT else item for item in reasons)
        if name in shared
        else reasons
        for name, reasons in stale.items()
    }


def _describe(plan: Forecast) -> dict[str, object]:
    return {
        "cores": plan.cores,
        "seconds": round(plan.seconds, 1),
        "stages_of_unknown_time": plan.unknown,
        "download_bytes": plan.download_bytes,
        "downloads_of_unknown_size": plan.num_unknown_sizes,
        "stages_up_to_date": plan.num_current,
        "stages": [
            {
                "name": stage.name,
                "reasons": [*stage.reasons],
                "core_seconds": stage.duration.seconds,
                "estimated_from": stage.duration.basis,
                "after": [*stage.after],
            }
            for stage in plan.stages
        ],
        "sources": [item._asdict() for item in plan.sources],
    }


def _print_plan(name: str, plan: Forecast) -> None:
    console = open_console()
    if not plan.stages:
        console.print(f"{name}: all {plan.num_current} stages are up to date.")
        return
    columns = Column("stage", no_wrap=True), Column("on one core", no_wrap=True), "why"
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for stage in plan.stages:
        table.add_row(stage.name, _format_duration(stage), _join_reasons(stage.reasons))
    console.print(table)
    if fetched := [item for item in plan.sources if item.origin != "raw folder"]:
        facts = Column("source", no_wrap=True), "comes from", "size", "where"
        table = Table(*facts, box=box.SIMPLE_HEAD, pad_edge=False)
        for item in fetched:
            size = "" if item.num_bytes is None else _format_megabytes(item.num_bytes)
            table.add_row(item.source, item.origin, size, item.detail)
        console.print(table)
    for line in _summarise(name, plan):
        console.print(line)


def _summarise(name: str, plan: Forecast) -> list[str]:
    total = len(plan.stages) + plan.num_current
    lines = [f"{name}: {len(plan.stages)} of {total} stages would run; {_describe_time(plan)}."]
    unknown = plan.num_unknown_sizes
    if plan.download_bytes or unknown:
        more = f" and {unknown} of unknown size" if unknown else ""
        lines.append(f"To download: {_format_megabytes(plan.download_bytes)}{more}.")
    if num_shared := sum(IN_REMOTE in stage.reasons for stage in plan.stages):
        lines.append(f"In the remote: {num_shared} of them; `reglue fetch {name}` copies them.")
    if plan.missing:
        names = ", ".join(sorted({item.source for item in plan.missing}))
        lines.append(f"Not at hand, and without an address: {names}.")
    return lines


def _describe_time(plan: Forecast) -> str:
    trained = [stage.name for stage in plan.stages if stage.duration.basis != "no training"]
    if not trained:
        return "none of them trains"
    num_unknown = len(plan.unknown)
    if num_unknown == len(trained):
        return "no cell has a record, so the time of training is unknown"
    cores = "one core" if plan.cores == 1 else f"{plan.cores} cores"
    text = f"training takes about {format_time(plan.seconds)} on {cores}"
    return f"{text}, without {num_unknown} of unknown time" if num_unknown else text


def _format_duration(stage: PlannedStage) -> str:
    seconds, basis = stage.duration
    if basis == "no training":
        return ""
    if seconds is None:
        return "unknown"
    return format_time(seconds) + (" ?" if basis == "similar cells" else "")


def _join_reasons(reasons: tuple[str, ...]) -> str:
    shown = "; ".join(reasons[:MOST_REASONS])
    more = len(reasons) - MOST_REASONS
    return f"{shown}; {more} more" if more > 0 else shown


def format_time(seconds: float) -> str:
    """Return a time in words: `40 s`, `12 min`, `3 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _format_megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1_000_000:,.1f} MB"
