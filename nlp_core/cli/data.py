"""`reglue data`: list the datasets, audit data for repeats and overlap, describe it in Croissant.

Examples:
    reglue data list
    reglue data audit train.tsv test.tsv --kind classification
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from nlp_core.cli import audit
from nlp_core.cli.output import open_console, print_json
from nlp_core.cli.program import add_action
from nlp_core.config.dataset import DatasetConfig, FileConfig, read_dataset, read_registry
from nlp_core.data.source import Places
from nlp_core.errors import UsageError
from nlp_core.files import MANIFEST, write_text

GROUP = "look things up"
PLACE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listing = add_action(
        actions,
        "list",
        "list every dataset with licence and citation",
        "",
        ["reglue data list", "reglue data list --json"],
        has_json=True,
    )
    listing.set_defaults(run=run)
    audited = add_action(
        actions,
        "audit",
        "count repeated examples, overlap with train, conflicting labels and shifts",
        "Count repeated examples, examples of other splits that are in train, conflicting labels, "
        "and shifts of labels and lengths; show some of them.",
        [
            "reglue data audit train.tsv test.tsv --kind classification",
            "reglue data audit wikiqa --json",
        ],
        has_json=True,
    )
    audit.add_arguments(audited)
    audited.set_defaults(run=audit.run)
    croissant = add_action(
        actions,
        "croissant",
        "describe a dataset in Croissant (JSON-LD)",
        "",
        ["reglue data croissant wikiqa", "reglue data croissant wikiqa -o wikiqa.json"],
        has_json=False,
    )
    croissant.add_argument("name", metavar="NAME", help="a file of the sources, without .yaml")
    croissant.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write a file instead of printing"
    )
    croissant.set_defaults(run=run_croissant)
    for action in (listing, croissant):
        for name, text in (("sources", "dataset files"), ("data", "downloaded data")):
            action.add_argument(
                f"--{name}-dir", type=Path, default=Path(name), help=f"folder of the {text}"
            )


def run(options: argparse.Namespace) -> None:
    _check_sources(options.sources_dir)
    datasets = read_registry(options.sources_dir)
    rows = [describe(name, item, options.data_dir) for name, item in datasets.items()]
    if options.json:
        print_json(rows)
    else:
        open_console().print(_build_cards(rows))


def run_croissant(options: argparse.Namespace) -> None:
    from nlp_core.data.croissant import describe_source  # pyarrow: half a second

    _check_sources(options.sources_dir)
    dataset = read_dataset(options.name, options.sources_dir)
    base = options.output.parent if options.output else Path()
    found = describe_source(options.name, dataset, Places(options.data_dir), base)
    if options.output is None:
        print_json(found)
    else:
        write_text(options.output, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def _check_sources(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"--sources-dir: {folder}: found no such folder; start in the project.")


def describe(name: str, dataset: DatasetConfig, data_dir: Path) -> dict[str, Any]:  # Any: JSON
    """Return what the registry says of a dataset, and whether its files are downloaded."""
    task = dataset.task
    splits = {split: config.rows for split, config in task.splits.items()} if task else {}
    return {
        "name": name,
        "title": dataset.title,
        "kind": dataset.kind,
        "splits": splits,
        "select_split": task.select_split if task else None,
        "report_split": task.report_split if task else None,
        "metrics": task.metrics if task else [],
        "licence": dataset.licence,
        "citation": dataset.citation,
        "homepage": dataset.homepage,
        "note": dataset.note,
        "from": [_name_origin(file) for file in dataset.files] or ["generated"],
        "labels_of_digests": _list_digest_labels(dataset),
        "present": {
            folder: (data_dir / folder / name / MANIFEST).is_file()
            for folder in ("raw", "processed")
        },
    }


def _name_origin(file: FileConfig) -> str:
    if file.package:
        return f"package {file.package.name}=={file.package.version}"
    return file.url or f"mirror or local file {file.mirror}"


def _list_digest_labels(dataset: DatasetConfig) -> dict[str, list[str]]:
    """Return, for each member that may be no official release, what it is instead."""
    labels: dict[str, list[str]] = {}
    for file in dataset.files:
        for member in file.wanted:
            found = [item.label for item in [*member.sha256, *file.sha256] if item.label]
            if found:
                labels.setdefault(member.name, []).extend(found)
    return labels


def _build_cards(rows: list[dict[str, Any]]) -> Group:
    """Return a heading and a grid of facts for each dataset: readable at any width."""
    cards: list[RenderableType] = []
    for row in rows:
        columns = Column(style="dim", no_wrap=True), Column(overflow="fold")
        grid = Table.grid(*columns, padding=(0, 2))
        for fact, text in _list_facts(row):
            grid.add_row(f"  {fact}", text)
        cards += [Text.assemble((row["name"], "bold"), f"  {row['title']}"), grid, ""]
    return Group(*cards)


def _list_facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    labels = row["labels_of_digests"].items()
    present = [folder for folder, is_there in row["present"].items() if is_there]
    facts = {
        "kind": row["kind"],
        "rows": ", ".join(f"{split} {count}" for split, count in row["splits"].items()),
        "from": "\n".join(row["from"]),
        "accepted": "\n".join(f"{name}: {'; '.join(texts)}" for name, texts in labels),
        **{fact: row[fact] for fact in ("licence", "citation", "homepage", "note")},
        "present": ", ".join(present) or "no",
    }
    return [(fact, str(text)) for fact, text in facts.items() if text]
