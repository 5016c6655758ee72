"""Read damaged files as a user's: `python benchmarks/faults/mutated_files.py [--mutations 500]`.

A right file of each format is mutated: bits flip, bytes and lines go, come twice or swap, and what
breaks parsers is inserted. Each mutation must be read, or raise a DataError of one paragraph.
Prints the counts; exit code 1 if anything else was raised.
"""

import argparse
import json
import logging
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from nlp_core.data.guess import guess_data
from nlp_core.data.user_task import read_user_task
from nlp_core.errors import DataError
from nlp_core.kinds import KINDS

MOST_CHANGES = 4
ODD = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t", b'"', b"'", b"\\", b"{", b"]",
    b",", b"null", b"NaN", b"-1", b"1e999", b"[[0, 3]]", b'{"a": []}', "\u2028".encode(),
    "\u0301".encode(), b"I-", b"B-", b"O", b"-DOCSTART-", b"# x",
)  # fmt: skip
TEXTS = ["the soup was tasty", "a cheap bed in Rome", "it is very polite", "we saw the park"]
LABELS = ["food", "price", "staff", "place"]
TAGS = [["O", "O", "O", "O"], ["O", "O", "O", "O", "B-LOC"], ["O"] * 4, ["O", "O", "O", "B-LOC"]]
ROWS = [*zip(TEXTS, LABELS, strict=True)] * 6


class Case(NamedTuple):
    """A format: the kind, the name of the file and its right content."""

    kind: str
    name: str
    content: bytes


class Outcome(NamedTuple):
    """How often each outcome was seen in a case, and the first traceback."""

    counts: Counter[str]
    fault: str | None


def list_cases() -> list[Case]:
    tagged = [*zip((text.split() for text in TEXTS), TAGS, strict=True)] * 6
    conll = "\n".join("".join(f"{a} {b}\n" for a, b in zip(*row, strict=True)) for row in tagged)
    spans = [{"text": TEXTS[1], "spans": [{"start": 15, "end": 19, "label": "LOC"}]}] * 12
    squad = {"data": [{"title": "a", "paragraphs": [_ask(idx) for idx in range(8)]}]}
    pairs = [f"{a}\t{TEXTS[idx % 4]}\t{b}" for idx, (a, b) in enumerate(ROWS)]
    answers = [
        f"{TEXTS[idx // 4]}\t{a}\t{int(idx % 4 == 0)}" for idx, (a, _) in enumerate(ROWS[:16])
    ]
    several = [f"{a}\t{b}|other" for a, b in ROWS]
    slots = [
        f"{' '.join(words)}\t{' '.join(tags)}\t{LABELS[idx % 2]}"
        for idx, (words, tags) in enumerate(tagged)
    ]
    return [
        Case("classification", "a.tsv", _join("text\tlabel", *(f"{a}\t{b}" for a, b in ROWS))),
        Case("classification", "a.csv", _join("text,label", *(f'"{a}, so",{b}' for a, b in ROWS))),
        Case("classification", "a.jsonl", _dump({"text": a, "label": b} for a, b in ROWS)),
        Case("classification", "a.parquet", _write_parquet()),
        Case("pair_classification", "b.tsv", _join("text_a\ttext_b\tlabel", *pairs)),
        Case("regression", "c.tsv", _join(*(f"{a}\t{idx / 7}" for idx, (a, _) in enumerate(ROWS)))),
        Case("multi_label", "d.tsv", _join("text\tlabels", *several)),
        Case("multi_label", "d.jsonl", _dump({"text": a, "labels": [b]} for a, b in ROWS)),
        Case("tagging", "e.conll", conll.encode()),
        Case("tagging", "e.jsonl", _dump({"tokens": a, "tags": b} for a, b in tagged)),
        Case("tagging", "f.jsonl", _dump(spans)),
        Case("intent_slots", "g.tsv", _join(*slots)),
        Case("ranking", "h.tsv", _join("text_a\ttext_b\tlabel", *answers)),
        Case("span", "i.json", json.dumps(squad).encode()),
    ]


def run_case(case: Case, mutations: int, seed: int, folder: Path) -> Outcome:
    """Read the right file, then mutations of it."""
    draw = random.Random(f"{seed} {case.name}")
    path, counts, fault = folder / case.name, Counter[str](), None
    _read(path, case, case.content)
    for _ in range(mutations):
        content = mutate(case.content, draw)
        try:
            _read(path, case, content)
            counts["read"] += 1
        except DataError as error:
            is_paragraph = "\n" not in str(error).strip()
            counts["error" if is_paragraph else "error of several lines"] += 1
            fault = fault if is_paragraph else fault or str(error)
        except Exception:  # whatever it is, a user would see a traceback
            counts["traceback"] += 1
            fault = fault or traceback.format_exc()
    return Outcome(counts, fault)


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with one to four random changes."""
    for _ in range(draw.randint(1, MOST_CHANGES)):
        content = draw.choice(CHANGES)(content, draw) or b" "
    return content


def _flip(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + content[place + draw.randint(1, 40) :]


def _end(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def _insert(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + draw.choice(ODD) + content[place:]


def _change_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    one, two = draw.randrange(len(lines)), draw.randrange(len(lines))
    change = draw.randrange(3)
    if change == 0:
        lines[one], lines[two] = lines[two], lines[one]
    elif change == 1:
        lines.insert(one, lines[two])
    else:
        del lines[one]
    return b"".join(lines)


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _end,
    _insert,
    _change_lines,
)


def _read(path: Path, case: Case, content: bytes) -> None:
    """Read a file as `reglue train` does before it trains."""
    path.write_bytes(content)
    data = guess_data(path, KINDS.get(case.kind)).data
    read_user_task({"train": path}, data, [], name="mutated", seed=1)


def _join(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _dump(rows: object) -> bytes:
    return _join(*(json.dumps(row) for row in rows))  # type: ignore[attr-defined]


def _write_parquet() -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": [a for a, _ in ROWS], "label": [b for _, b in ROWS]}), buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _ask(idx: int) -> dict[str, object]:
    answer = {"text": TEXTS[idx % 4].split()[-1], "answer_start": TEXTS[idx % 4].rindex(" ") + 1}
    question = {"id": str(idx), "question": "what is it ?", "answers": [answer]}
    return {"context": TEXTS[idx % 4], "qas": [question]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = 0
    for case in list_cases():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["REGLUE_CACHE"] = f"{folder}/cache"
            found = run_case(case, options.mutations, options.seed, Path(folder))
        print(f"{case.kind:22} {case.name:10}", dict(sorted(found.counts.items())))
        if found.fault:
            faults += 1
            print(found.fault)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
