"""`reglue index`: embed a file of passages and write an index of them.

Examples:
    reglue index artifacts/faq --data passages.tsv -o faq.index
    reglue index data/processed/minilm --data passages.txt -o notes.index
"""

import argparse
from pathlib import Path

from nlp_core.cli.output import add_plugin, join_command, show_log
from nlp_core.data.archive import open_data
from nlp_core.encoders.folder import find_encoder
from nlp_core.errors import UsageError
from nlp_core.files import check_replaceable
from nlp_core.prediction.bundle_retriever import BundleRetriever
from nlp_core.prediction.passage_index import NOTE, Embedder, write_index
from nlp_core.prediction.retriever import Retriever
from nlp_core.prediction.trained_folder import is_trained
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime.manifest import MANIFEST

GROUP = "train on your own file"
PLACE = 8


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a model with two towers."""
    add = parser.add_argument
    add(
        "folder",
        type=Path,
        help="a retrieval model that `reglue train` wrote, a trained cell, a bundle of vectors "
        "(`reglue export --layer`), or a pretrained encoder (a folder or a name on the Hugging "
        "Face hub)",
    )
    add("--seed", type=int, help="seed of a cell (default: the first)")
    add("--column", help="column of the texts in --data (default: as in training, or a guess)")
    add_plugin(parser)


def open_retriever(options: argparse.Namespace) -> Embedder:
    """Return the model that the arguments name.

    Raises:
        UsageError: it is not for retrieval, or an argument does not fit it.
        DataError: the folder holds no whole model.
    """
    if (options.folder / MANIFEST).is_file():
        if options.seed is not None or options.plugin:
            raise UsageError(f"--seed, --plugin: '{options.folder}' is a bundle; leave them out.")
        return BundleRetriever(options.folder)
    if is_trained(options.folder):
        trained = TrainedModel.open(options.folder, seed=options.seed, plugins=options.plugin)
        return Retriever.of_trained(trained)
    if options.seed is not None:
        raise UsageError(f"--seed: '{options.folder}' is not a trained cell; leave it out.")
    if options.plugin:
        raise UsageError(f"--plugin: '{options.folder}' is a pretrained encoder; leave it out.")
    return Retriever.of_encoder(find_encoder(str(options.folder)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add(
        "--data",
        type=open_data,
        required=True,
        help="the passages: a table, or a text on each line",
    )
    add("-o", "--output", type=Path, required=True, help="folder to write")
    add(
        "--approximate",
        action="store_true",
        help="link the passages in a graph (HNSW): for millions, a search that may miss some",
    )
    add("--force", action="store_true", help="overwrite an index")


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    target, force = options.output, options.force
    check_replaceable(target, marker=NOTE, name="passage index", option="-o", force=force)
    retriever = open_retriever(options)
    built = write_index(
        retriever,
        options.data,
        options.output,
        column=options.column,
        approximate=options.approximate,
    )
    repeated = f", {built.repeated} repeated rows left out" if built.repeated else ""
    print(f"{options.output}: {built.passages} passages, {built.width} numbers each{repeated}")
    is_half = isinstance(retriever, BundleRetriever) and retriever.is_of_passages
    model = Path("QUERY_BUNDLE") if is_half else options.folder
    print(f"Next: {join_command(['retrieve', model, options.output, 'a query'])}")
