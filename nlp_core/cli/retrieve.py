"""`reglue retrieve`: find the passages of an index that answer queries.

Examples:
    reglue retrieve artifacts/faq faq.index "how do I pay"
    reglue retrieve artifacts/faq faq.index --data queries.tsv -o found.jsonl -k 3
"""

import argparse
from itertools import islice
from pathlib import Path

from nlp_core.cli.index import add_model, open_retriever
from nlp_core.cli.output import check_output, print_json, show_log
from nlp_core.data.archive import open_data
from nlp_core.errors import DataError, UsageError
from nlp_core.files import format_cells, replacing
from nlp_core.prediction.file_prediction import DIGITS, refuse_taken
from nlp_core.prediction.passage_index import FoundPassage, PassageIndex, read_texts

GROUP = "train on your own file"
PLACE = 9
HAS_JSON = True
FOUND = "found"
QUERIES_A_CHUNK = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add("index", type=Path, help="a folder that `reglue index` wrote with the same model")
    add("query", nargs="*", default=[], help="a query in quotes; several are allowed")
    add("--data", type=open_data, help="file of queries, instead of those on the command line")
    add("-o", "--output", type=Path, help="file to write for --data, .jsonl: each row with `found`")
    add("-k", type=int, default=10, help="passages of a query", metavar="K")


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    _check(options)
    retriever = open_retriever(options)
    index = PassageIndex.open(options.index, retriever)
    if options.data is not None:
        usual = retriever.columns[0]
        rows = _write(index, options.data, options.output, options.column, usual, options.k)
        if options.json:
            print_json({"output": str(options.output), "rows": rows})
        else:
            print(f"{options.output}: {rows} rows")
        return
    results = [*zip(options.query, index.search(options.query, options.k), strict=True)]
    if options.json:
        print_json([{"query": query, FOUND: [*map(_describe, found)]} for query, found in results])
        return
    for number, (query, found) in enumerate(results):
        if len(options.query) > 1:
            print(f"{chr(10) * bool(number)}{query}")
        for item in found:
            print(f"{item.rank:>3}  {item.score:.4f}  {' '.join(item.text.split())}")


def _check(options: argparse.Namespace) -> None:
    if bool(options.query) == (options.data is not None):
        raise UsageError("retrieve: expected either queries or --data with -o.")
    if (options.data is None) != (options.output is None):
        raise UsageError("retrieve: found one of --data and -o, expected both or neither.")
    if options.k < 1:
        raise UsageError(f"-k: found {options.k}, expected 1 or more.")
    if any(not query.strip() for query in options.query):
        raise UsageError("retrieve: found a query without words, expected some.")
    if any(query != query.encode(errors="replace").decode() for query in options.query):
        raise UsageError("retrieve: found a query with bytes that are not UTF-8, expected text.")
    if options.output is not None and options.output.suffix != ".jsonl":
        raise UsageError(f"{options.output}: expected a name that ends in .jsonl.")
    if options.data is None and options.column is not None:
        raise UsageError("--column: found no --data, whose column it is; leave it out.")
    if options.data is not None:
        check_output(options.output, options.data)


def _write(
    index: PassageIndex, source: Path, target: Path, column: str | None, usual: str, number: int
) -> int:
    rows = 0
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        queries = read_texts(source, column, usual)
        while chunk := list(islice(queries, QUERIES_A_CHUNK)):
            results = index.search([text for _, text in chunk], number)
            for (record, _), found in zip(chunk, results, strict=True):
                refuse_taken([FOUND], record, source)
                row = {**record.cells, FOUND: [*map(_describe, found)]}
                file.write(format_cells(row) + "\n")
                rows += 1
        if not rows:
            raise DataError(f"{source}: found no queries, expected one row at least.")
    return rows


def _describe(found: FoundPassage) -> dict[str, object]:
    score = float(f"{found.score:.{DIGITS}g}")
    return {"rank": found.rank, "score": score, "passage": found.cells}
