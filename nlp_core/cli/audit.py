"""`reglue data audit`: repeated examples, overlap with train, conflicting labels and shifts."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from nlp_core.cli.output import open_console, print_json
from nlp_core.cli.template import MULTIPLE_CHOICE, TEMPLATES
from nlp_core.config.base import PROCESSED, read_mapping
from nlp_core.config.model import parse_model
from nlp_core.config.user_data import DataConfig
from nlp_core.data.archive import open_data
from nlp_core.data.audit.audit import Audit, Place, audit_files, audit_task
from nlp_core.data.audit.record import Shift, SplitAudit, find_audit
from nlp_core.data.audit.traits import find_traits, list_traits, write_traits
from nlp_core.data.audit.unit import Unit
from nlp_core.data.guess import guess_data
from nlp_core.errors import ConfigError, UsageError
from nlp_core.files import write_json

SHOWN_LETTERS = 70
FACTS = [
    "examples",
    "repeated",
    "conflicting labels",
    "in train",
    "in train, other label",
    "share 13 words with train",
    "shift of labels",
    "shift of lengths",
]
EXPLANATION = (
    "a / b: texts compared exactly / without case, punctuation and whitespace. 13 words: of the "
    "examples that have 13 words or more. Shift: the distance to train, from 0 to 1."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reglue data audit`."""
    add = parser.add_argument
    add("names", nargs="+", metavar="FILE|TASK", help="data files, train first; or processed tasks")
    reading = parser.add_mutually_exclusive_group()
    reading.add_argument(
        "--kind", choices=list(TEMPLATES), help="what the files are for, as in `reglue new`"
    )
    reading.add_argument(
        "--model", type=Path, metavar="FILE.json", help="read the files as this model file says"
    )
    add("--shown", type=int, default=3, help="examples shown of each fault")
    add(
        "--keep",
        action="store_true",
        help="write the counts of tasks to results/audit/, for the reports of tables, and traits "
        "of their examples to results/traits/, for the site",
    )


def run(options: argparse.Namespace) -> None:
    if options.shown < 0:
        raise UsageError(f"--shown: found {options.shown}, expected 0 or more.")
    paths = [Path(name) for name in options.names]
    if options.kind is None and options.model is None:
        audits = [audit_task(_find_task(path), shown=options.shown) for path in paths]
    elif options.keep:
        raise UsageError("--keep: found files, expected tasks of this project; remove --keep.")
    else:
        paths = [open_data(path) for path in paths]
        if len({*paths}) < len(paths):
            raise UsageError("reglue data audit: found a file twice, expected each file once.")
        audits = [audit_files(paths, _find_data(options, paths[0]), shown=options.shown)]
    if options.keep:
        traits = {audit.name: list_traits(audit) for audit in audits}
        for audit in audits:
            write_traits(find_traits(audit.name, Path()), traits[audit.name])
            write_json(find_audit(audit.name, Path()), audit.record.model_dump())
    if options.json:
        print_json([_describe(audit) for audit in audits])
        return
    for audit in audits:
        _show(audit)


def _find_task(path: Path) -> Path:
    if path.is_file():
        raise UsageError(
            f"{path}: found a file, but neither --kind nor --model. Add one of them: --kind "
            "takes a template of `reglue new`, such as classification."
        )
    if not (Path(PROCESSED) / path).is_dir():
        raise UsageError(
            f"{path}: found neither a data file nor a processed task of this name; tasks are the "
            f"folders of {PROCESSED}/."
        )
    return Path(PROCESSED) / path


def _find_data(options: argparse.Namespace, train: Path) -> DataConfig:
    """Return how the files are read, as a model file says or by a guess."""
    if options.model is None:
        has_choices = options.kind == MULTIPLE_CHOICE
        return guess_data(train, TEMPLATES[options.kind], has_choices=has_choices).data
    model = parse_model(read_mapping(options.model), str(options.model))
    if model.data is None:
        raise ConfigError(
            f"{options.model}: found no section 'data', which says how files are read; use --kind."
        )
    return model.data


def _describe(audit: Audit) -> dict[str, Any]:  # Any: JSON
    units = audit.read_units()
    return audit.record.model_dump() | {
        "findings": [
            {
                "fault": item.fault,
                "found": _describe_unit(units, (item.sort, item.split, item.unit)),
                "other": _describe_unit(units, (item.sort, item.other_split, item.other)),
            }
            for item in audit.findings
        ]
    }


def _describe_unit(units: Mapping[Place, Unit], place: Place) -> dict[str, Any]:  # Any: JSON
    unit = units[place]
    texts = [_shorten(text) for text in unit.texts]
    return {"split": place[1], "place": unit.place, "texts": texts, "label": unit.label}


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_LETTERS else text[:SHOWN_LETTERS] + "..."


def _show(audit: Audit) -> None:
    """Print a table of counts for each unit, then the examples of faults."""
    console = open_console()
    for sort, splits in audit.units.items():
        table = Table(sort, *splits, box=None)
        columns = [_list_counts(found) for found in splits.values()]
        for fact, *cells in zip(FACTS, *columns, strict=True):
            if any(cells):
                table.add_row(fact, *cells)
        console.print(table)
        console.print()
    console.print(EXPLANATION)
    if not audit.findings:
        return
    units = audit.read_units()
    table = Table("fault", "where", "label", "text", box=None)
    for item in audit.findings:
        for fault, place in (
            (item.fault, (item.sort, item.split, item.unit)),
            ("", (item.sort, item.other_split, item.other)),
        ):
            unit = units[place]
            label = _shorten(" ".join(unit.classes) or unit.label or "")
            texts = " | ".join(map(_shorten, unit.texts))
            table.add_row(fault, *map(Text, (f"{place[1]}:{unit.place}", label, texts)))
    console.print()
    console.print(table)


def _list_counts(found: SplitAudit) -> list[str]:
    """Return a text for each of FACTS; empty where it means nothing."""
    repeated, conflicting, overlap = found.repeated, found.conflicting, found.in_train
    counts = [f"{found.examples:,}", f"{repeated.exact:,} / {repeated.normalised:,}"]
    counts.append(f"{conflicting.exact:,} / {conflicting.normalised:,}" if found.labelled else "")
    if overlap is None:
        return [*counts, *[""] * (len(FACTS) - len(counts))]
    return [
        *counts,
        f"{overlap.exact:,} / {overlap.normalised:,}",
        f"{overlap.other_label:,}" if found.labelled else "",
        f"{overlap.ngram:,} of {overlap.long:,}" if overlap.long else "",
        _format_shift(found.label_shift),
        _format_shift(found.length_shift),
    ]


def _format_shift(shift: Shift | None) -> str:
    return "" if shift is None else f"{shift.distance:.2f} (p {shift.p:.2g})"
