"""`reglue vectors`: measure word vectors by similarity and analogies.

Examples:
    reglue vectors glove.6B.100d.txt --similarity wordsim.tsv
    reglue vectors crawl.vec --analogies questions-words.txt --max-vectors 200000
"""

import argparse
from pathlib import Path

from rich.table import Table

from nlp_core.cli.output import open_console, print_json
from nlp_core.data.readers.records import check_file
from nlp_core.data.word_vectors import TABLE, convert_vectors, open_table
from nlp_core.errors import UsageError
from nlp_core.prediction.vector_evaluation import measure_analogies, measure_similarity

GROUP = "train on your own file"
PLACE = 10
HAS_JSON = True
MEASURES = {"similarity": measure_similarity, "analogies": measure_analogies}
NAMES = {"similarity": "Spearman's correlation", "analogies": "accuracy"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("vectors", type=Path, metavar="FILE", help="vectors of GloVe, word2vec or fastText")
    add(
        "--similarity",
        type=Path,
        metavar="FILE",
        help="lines of two words and how similar people find them",
    )
    add(
        "--analogies",
        type=Path,
        metavar="FILE",
        help="lines of four words: a is to b as c is to d; a line that starts with : is a heading",
    )
    add("--max-vectors", type=int, metavar="N", help="read only the first N words of FILE")


def run(options: argparse.Namespace) -> None:
    files = {name: getattr(options, name) for name in MEASURES}
    files = {name: path for name, path in files.items() if path is not None}
    if not files:
        raise UsageError("vectors: found nothing to measure; add --similarity or --analogies.")
    if options.max_vectors is not None and options.max_vectors < 1:
        raise UsageError(f"--max-vectors: found {options.max_vectors}, expected 1 or more.")
    for path in files.values():
        check_file(path)
    vectors = open_table(convert_vectors(options.vectors, options.max_vectors), TABLE)
    found = {name: MEASURES[name](path, vectors) for name, path in files.items()}
    if options.json:
        print_json(found)
        return
    table = Table("file", "measured", "points", "known lines", box=None)
    for name, item in found.items():
        lines = f"{item.known} of {item.lines}"
        table.add_row(str(files[name]), NAMES[name], f"{item.score:.2f}", lines)
    open_console().print(table)
