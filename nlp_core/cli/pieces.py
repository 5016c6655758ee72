"""`reglue pieces`: learn a tokenizer of word pieces from files of text.

Examples:
    reglue pieces --texts notes.txt --vocab-size 8000 -o tokenizer.json
    reglue pieces --texts a.txt b.txt --vocab-size 30000 --cased -o tokenizer.json
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from nlp_core.cli.output import check_output, print_json
from nlp_core.data.guess import check_rows
from nlp_core.data.readers.lines import read_lines
from nlp_core.data.word_piece import learn_tokenizer, read_pieces
from nlp_core.errors import UsageError
from nlp_core.files import check_writable, write_text

GROUP = "train on your own file"
PLACE = 11
HAS_JSON = True
MOST_PIECES = 10_000_000
"""The library reserves memory for all of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--texts", type=Path, nargs="+", required=True, metavar="FILE", help="a text on each line")
    add("--vocab-size", type=int, required=True, metavar="N", help="most pieces")
    add("--cased", action="store_true", help="keep capitals and accents")
    add("-o", "--output", type=Path, required=True, help="tokenizer to write, as JSON")
    add("--force", action="store_true", help="overwrite the tokenizer")


def run(options: argparse.Namespace) -> None:
    output: Path = options.output
    check_writable(output, "-o")
    if output.exists() and not options.force:
        raise UsageError(f"{output}: the file exists; name another one, or use --force.")
    if options.vocab_size > MOST_PIECES:
        raise UsageError(
            f"--vocab-size: found {options.vocab_size}, expected at most {MOST_PIECES}."
        )
    for path in options.texts:
        check_output(output, path)
        check_rows(path)

    def read() -> Iterator[str]:
        return (line.text for path in options.texts for line in read_lines(path))

    learnt = learn_tokenizer(
        read, vocab_size=options.vocab_size, lowercase=not options.cased, where="pieces"
    )
    count = read_pieces(learnt, "pieces").tokenizer.get_vocab_size()
    write_text(output, learnt)
    if options.json:
        print_json({"output": str(output), "pieces": count})
    else:
        print(f"{output}: {count} pieces")
