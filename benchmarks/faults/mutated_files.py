"""Read damaged files as a user's: `python benchmarks/faults/mutated_files.py [--mutations 500]`.

A right file of each format is mutated: bits flip, bytes and lines go, come twice or swap, and what
breaks parsers is inserted. Each mutation must be read, or raise a DataError of one paragraph.
Prints the counts; exit code 1 if anything else was raised.
"""

import argparse
import gzip
import io
import json
import logging
import os
import random
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from nlp_core.data.archive import open_data
from nlp_core.data.guess import guess_data
from nlp_core.data.user_task import Cut, read_user_task
from nlp_core.errors import DataError, NlpCoreError
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
    """A format.

    Attributes:
        name: of the file that is mutated; in a folder, the folder is read.
        others: further files of the folder.
    """

    kind: str
    name: str
    content: bytes
    others: Mapping[str, bytes] = MappingProxyType({})


class Outcome(NamedTuple):
    """How often each outcome was seen in a case, and the first fault."""

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
        *_list_annotated(),
        *_list_archived(),
    ]


def _list_annotated() -> list[Case]:
    """Return what annotation tools write."""
    text, place = TEXTS[1], {"start": 15, "end": 19}
    spans = {"text": text, "spans": [place | {"label": "LOC"}]}
    prodigy = [spans | {"answer": ["accept", "reject"][idx % 4 == 3]} for idx in range(12)]
    accepted = [{"text": a, "accept": [b], "answer": "accept"} for a, b in ROWS]
    doccano = [{"id": idx, "text": text, "label": [[15, 19, "LOC"]]} for idx in range(12)]
    result = {"from_name": "ner", "type": "labels", "value": place | {"labels": ["LOC"]}}
    task = {"data": {"text": text}, "annotations": [{"result": [result]}]}
    minimal = [{"text": a, "mood": {"choices": [b]}} for a, b in ROWS]
    words = [
        f"{idx}\t{word}\t_\t{word.upper()}\t_\t_\t0\troot\t_\t_" for idx, word in enumerate("ab", 1)
    ]
    conllu = "\n\n".join(["\n".join(["# text = a b", *words])] * 6) + "\n"
    notes = _join("T1\tLOC 15 19\tRome", "T2\tWHO 20 22\tit", "R1\tis Arg1:T1 Arg2:T2")
    texts = _join(*TEXTS[1:3])
    return [
        Case("tagging", "prodigy.jsonl", _dump(prodigy)),
        Case("classification", "choice.jsonl", _dump(accepted)),
        Case("tagging", "doccano.jsonl", _dump(doccano)),
        Case("tagging", "studio.json", json.dumps([task] * 12).encode()),
        Case("classification", "minimal.json", json.dumps(minimal).encode()),
        Case("tagging", "a.conllu", conllu.encode()),
        Case("tagging", "brat/a.ann", notes, {"brat/a.txt": texts}),
        Case("tagging", "brat/a.txt", texts, {"brat/a.ann": notes}),
    ]


def _list_archived() -> list[Case]:
    """Return what Hugging Face datasets writes, and archives."""
    names = {"features": {"label": {"names": LABELS, "_type": "ClassLabel"}}}
    table = pa.table({"text": [a for a, _ in ROWS], "label": [LABELS.index(b) for _, b in ROWS]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": names})})
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    content: bytes = buffer.getvalue().to_pybytes()
    state = json.dumps({"_data_files": [{"filename": "data.arrow"}]}).encode()
    tsv, zipped = _join("text\tlabel", *(f"{a}\t{b}" for a, b in ROWS)), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.tsv", tsv)
    return [
        Case("classification", "one.arrow", content),
        Case("classification", "set/data.arrow", content, {"set/state.json": state}),
        Case("classification", "set/state.json", state, {"set/data.arrow": content}),
        Case("classification", "a.zip", zipped.getvalue()),
        Case("classification", "a.tsv.gz", gzip.compress(tsv, mtime=0)),
    ]


def run_case(case: Case, mutations: int, seed: int, folder: Path) -> Outcome:
    """Read the right file, then mutations of it."""
    draw = random.Random(f"{seed} {case.name}")
    path, counts, fault = folder / case.name, Counter[str](), None
    path.parent.mkdir(exist_ok=True)
    for name, content in case.others.items():
        (folder / name).write_bytes(content)
    _read(path, case, case.content)
    for _ in range(mutations):
        content = mutate(case.content, draw)
        found = attempt(partial(_read, path, case, content), DataError, counts)
        fault = fault or found
    return Outcome(counts, fault)


def attempt(
    read: Callable[[], object], expected: type[NlpCoreError], counts: Counter[str]
) -> str | None:
    """Read once, count what happens, and return the fault if it is one."""
    try:
        read()
    except expected as error:
        is_paragraph = "\n" not in str(error).strip()
        counts["error" if is_paragraph else "error of several lines"] += 1
        return None if is_paragraph else str(error)
    except Exception:  # whatever it is, a user would see a traceback
        counts["traceback"] += 1
        return traceback.format_exc()
    counts["read"] += 1
    return None


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
    source = open_data(path.parent if case.others else path)
    data = guess_data(source, KINDS.get(case.kind)).data
    read_user_task({"train": source}, data, [], name="mutated", cut=Cut(1))


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
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = 0
    for case in (item for item in list_cases() if options.only in item.name):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["REGLUE_CACHE"] = f"{folder}/cache"
            found = run_case(case, options.mutations, options.seed, Path(folder))
        print(f"{case.kind:22} {case.name:14}", dict(sorted(found.counts.items())))
        if found.fault:
            faults += 1
            print(found.fault)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
