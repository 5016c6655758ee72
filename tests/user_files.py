"""Files as a user would have them, with a signal that is learnt in a few steps."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.config.user_data import DataConfig
from nlp_core.data.task import Split
from nlp_core.data.user_file import read_user_file

WORDS = {
    "food": ["tasty", "dish", "soup", "menu"],
    "place": ["street", "park", "station", "centre"],
    "price": ["cheap", "cost", "bill", "money"],
    "room": ["bed", "pillow", "view", "bath"],
    "staff": ["waiter", "host", "clerk", "polite"],
}
NEUTRAL = ["the", "was", "a", "very", "and", "it", "is", "we"]
SMALL = ["--set", "layers.word.dim=8", "--set", "layers.lstm.hidden_dim=6"]
QUICK = ["--set", "layers.word.dim=16", "--set", "layers.lstm.hidden_dim=16", "--lr", "0.02"]
QUICK += ["--set", "layers.drop.p=0.0", "--epochs", "8"]


def make_texts(rows: int, seed: int) -> list[tuple[str, str]]:
    """Return texts with one of five labels."""
    draw = random.Random(seed)
    found = []
    for idx in range(rows):
        label = list(WORDS)[idx % len(WORDS)]
        words = draw.choices(NEUTRAL, k=draw.randint(1, 4))
        words.insert(draw.randint(0, len(words)), draw.choice(WORDS[label]))
        found.append((" ".join(words), label))
    return found


def write_tsv(path: Path, rows: int = 60, seed: int = 0, header: str = "") -> Path:
    """Write two columns: text and one of five labels."""
    lines = [f"{text}\t{label}\n" for text, label in make_texts(rows, seed)]
    path.write_text(f"{header}\n" * bool(header) + "".join(lines), encoding="utf-8")
    return path


def write_labels(path: Path, rows: int = 60) -> Path:
    """Write texts that have none, one or two of five labels, as a table or an object a line."""
    one, two, lines = make_texts(rows, 0), make_texts(rows + 2, 1)[2:], []
    for idx, ((text, label), (other, more)) in enumerate(zip(one, two, strict=True)):
        texts = [text, other][: idx % 3] or ["it is"]
        labels = sorted({label, more} if idx % 3 == 2 else {label} if idx % 3 else set())
        row = {"text": " ".join(texts), "labels": labels}
        is_json = path.suffix == ".jsonl"
        lines.append(json.dumps(row) if is_json else f"{row['text']}\t{'|'.join(labels)}")
    header = [] if path.suffix == ".jsonl" else ["text\tlabels"]
    path.write_text("\n".join([*header, *lines]) + "\n", encoding="utf-8")
    return path


def write_slots(path: Path) -> Path:
    """Write words, their tags and an intent a line."""
    rows = []
    for city in ["Rome", "Oslo", "Bonn", "Kyiv"] * 6:
        rows.append(f"fly to {city} please\tO O B-city O\tbook flight\n")
        rows.append(f"cheap bed in {city}\tO B-thing O B-city\tfind hotel\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


def write_pairs(path: Path, rows: int = 60, seed: int = 0) -> Path:
    """Write an object a line: two texts that name the same subject, or not."""
    draw = random.Random(seed)
    lines = []
    for idx in range(rows):
        first, other = draw.sample(list(WORDS), 2)
        second = first if idx % 2 else other
        pair = {
            "id": idx,
            "premise": f"the {draw.choice(WORDS[first])}",
            "hypothesis": f"a {draw.choice(WORDS[second])} it is",
            "gold": "same" if idx % 2 else "other",
        }
        lines.append(json.dumps(pair) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_conll(path: Path, scheme: str = "BIO", rows: int = 40, seed: int = 0) -> Path:
    """Write sentences of three columns whose last is a tag of persons and places."""
    draw = random.Random(seed)
    lines = []
    for _ in range(rows):
        before = draw.choice(["mr", "mrs"])
        person = [before.title(), draw.choice(["Smith", "Jones", "Brown"])]
        tokens = [*person, "went", "to", draw.choice(["Rome", "Oslo", "Bonn"]), "."]
        tags = {
            "BIO": ["B-PER", "I-PER", "O", "O", "B-LOC", "O"],
            "IOB1": ["I-PER", "I-PER", "O", "O", "I-LOC", "O"],
            "BIOES": ["B-PER", "E-PER", "O", "O", "S-LOC", "O"],
            "BILOU": ["B-PER", "L-PER", "O", "O", "U-LOC", "O"],
            "plain": ["NN", "NNP", "VBD", "TO", "NNP", "."],
        }[scheme]
        lines += [f"{token} x {tag}\n" for token, tag in zip(tokens, tags, strict=True)]
        lines.append("\n")
    path.write_text("-DOCSTART- -X- O\n\n" + "".join(lines), encoding="utf-8")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file by their columns."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a table in the form that the suffix names."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def data(**values: Any) -> DataConfig:
    base = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    return DataConfig.model_validate({**base, **values})


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def store(folder: Path, path: Path, config: DataConfig) -> Split:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGLUE_CACHE", str(folder))
        return read_user_file(path, config, "train")
