"""TOP as a source, and parsers over a pretrained encoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import read_params
from nlp_core.data.readers.example import Sentence
from nlp_core.errors import DataError
from nlp_core.models.plan import read_plan
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.tiny_encoder import write_encoder
from tests.user_files import read_rows

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "sources"
LINES = [
    (
        "Any films tonight ?",
        "[IN:GET_EVENT Any [SL:CATEGORY_EVENT films ] [SL:DATE_TIME tonight ] ? ]",
    ),
    (
        "way to Mum 's house",
        "[IN:GET_DIRECTIONS way to [SL:DESTINATION [IN:GET_LOCATION_HOME [SL:TYPE_RELATION Mum ] "
        "'s house ] ] ]",
    ),
    ("hello", "[IN:UNSUPPORTED hello ]"),
]
"""Three invented requests in the form of TOP."""


def read_top(path: Path, lines: list[str]) -> list[Sentence]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    task = read_dataset("top", SOURCES).task
    assert task is not None
    found: list[Sentence] = task.reader.read(task, "train", path)  # type: ignore[assignment]
    return found


def test_top_is_three_columns_without_a_header(tmp_path: Path) -> None:
    rows = ["\t".join([text.replace(" ?", "?"), text, tree]) for text, tree in LINES]
    found = read_top(tmp_path / "train.tsv", rows)
    assert [" ".join(item.tokens) for item in found] == [text for text, _ in LINES]
    assert [" ".join(item.tree or []) for item in found] == [tree for _, tree in LINES]
    with pytest.raises(DataError, match="line 1: found 'IN:MAKE_TEA', expected one"):
        read_top(tmp_path / "train.tsv", ["tea\ttea\t[IN:MAKE_TEA tea ]"])
    with pytest.raises(DataError, match="found 2 tab-separated columns, expected 3"):
        read_top(tmp_path / "train.tsv", ["hello\t[IN:UNSUPPORTED hello ]"])


def test_top_names_its_labels_and_sizes() -> None:
    task = read_dataset("top", SOURCES).task
    assert task is not None
    starts = [label[:2] for label in task.labels]
    assert (starts.count("IN"), starts.count("SL")) == (25, 36)
    rows = {name: split.rows for name, split in task.splits.items()}
    assert rows == {"train": 31279, "dev": 4462, "test": 9042}


def test_the_cell_of_atis_starts_from_the_encoder() -> None:
    cell = read_params(ROOT / "params.yaml").experiments["atis_seq2seq_minilm"]
    assert (cell.init, cell.seeds) == ("data/processed/minilm", [1, 2, 3])
    for name in ("seq2seq", "rnng"):
        plan = read_plan(ROOT / f"zoo/parsing/atis_{name}_minilm.json")
        assert plan.kinds == ["parsing"]
        assert plan.inputs == {"words": "tokens.pieces"}


def make_rows() -> list[dict[str, Any]]:
    rows = []
    for number in range(48):
        good = number % 2
        label = ["IN:BAD", "IN:GOOD"][good]
        word = [["bad", "poor", "sad", "awful"], ["good", "great", "fine", "nice"]][good][
            number % 4
        ]
        tree = f"[{label} the [SL:FILM {word} film ] ]" if number % 3 else f"[{label} {word} ]"
        text = f"the {word} film" if number % 3 else word
        rows.append({"tokens": text.split(), "tree": tree})
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("head", ["seq2seq_parsing", "rnng"])
def test_a_parser_learns_over_a_pretrained_encoder(place: Path, head: str) -> None:
    rows = make_rows()
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    init = str(write_encoder(place))
    new = ["new", "parsing", "--train", "a.jsonl", "--encoder", init, "-o", "m.json"]
    main([*new, "--set", f"heads.tree.head={head}", "--set", "heads.tree.hidden_dim=24"])
    quick = ["--lr", "0.01", "--epochs", "12", "--batch-size", "8"]
    main(["train", "m.json", "--train", "a.jsonl", "--init", init, "-o", "out", *quick])
    metrics = json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]
    assert metrics["exact_match"] > 60  # 10 rows of 2 intents, some with a slot
    main(["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"])
    predicted = [row["prediction"] for row in read_rows(Path("p.jsonl"))]
    trained = TrainedModel.open("out")
    for row, together in zip(rows[:4], predicted, strict=False):
        (alone,) = Predictor(trained).predict([row["tokens"]])
        assert alone.prediction == together
