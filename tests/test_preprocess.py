import itertools
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from nlp_core.data.preprocess import preprocess_source
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file
from tests.tiny_source import FILES, REVIEWS, TASK, build, put, read, run


def test_classification_with_a_held_out_part(tmp_path: Path) -> None:
    manifest = run(tmp_path, TASK, FILES)
    assert {split: item["rows"] for split, item in manifest["splits"].items()} == {
        "train": 18,
        "dev": 20,
        "test": 1,
        "held_out": 2,
    }
    train, held_out = read(tmp_path, "train"), read(tmp_path, "held_out")
    assert sorted(row["id"] for row in train + held_out) == list(range(20))
    assert train[0]["text"] == f"word {train[0]['id']} is fine"
    assert read(tmp_path, "test")[0]["label"] is None
    assert manifest["splits"]["dev"]["labels"] == {"0": 10, "1": 10}
    assert manifest["splits"]["test"]["labels"] == {}


def test_manifest_says_what_the_contract_says(tmp_path: Path) -> None:
    manifest = run(tmp_path, TASK, FILES)
    keys = "kind labels metrics report_split scheme select_split source splits task"
    assert " ".join(sorted(manifest)) == keys
    assert (manifest["task"], manifest["kind"]) == ("d", "classification")
    assert (manifest["select_split"], manifest["report_split"]) == ("held_out", "dev")
    for split, item in manifest["splits"].items():
        assert digest_file(tmp_path / "processed" / "d" / f"{split}.parquet") == item["sha256"]


def test_bytes_are_the_same_twice(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run(tmp_path / folder, TASK, FILES)
    for path in sorted((tmp_path / "a" / "processed" / "d").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / "processed" / "d" / path.name).read_bytes()


def test_label_of_another_release_reaches_the_manifest(tmp_path: Path) -> None:
    put(tmp_path, FILES, label="not the official one")
    preprocess_source("d", build({"task": TASK}, sorted(FILES)), tmp_path)
    manifest = json.loads((tmp_path / "processed/d/manifest.json").read_text())
    assert manifest["source"]["dev.tsv"]["label"] == "not the official one"


def test_held_out_keeps_first_texts_together(tmp_path: Path) -> None:
    task = deepcopy(TASK)
    task |= {"kind": "pair_classification", "held_out": {"share": 0.3, "seed": 1, "by": "text_a"}}
    task["reader"]["texts"] = ["text", "other"]
    rows = "text\tother\tlabel\n" + "".join(f"q{n % 5}\tx{n}\t1\n" for n in range(20))
    test = "text\tother\nq\tx\n"
    run(tmp_path, task, {"train.tsv": rows, "dev.tsv": rows, "test.tsv": test})
    train = {row["text_a"] for row in read(tmp_path, "train")}
    assert not train & {row["text_a"] for row in read(tmp_path, "held_out")}


def test_held_out_keeps_phrases_of_a_sentence_together(tmp_path: Path) -> None:
    task = deepcopy(TASK) | {"held_out": {"share": 0.1, "seed": 1, "by": "phrase_root"}}
    run(tmp_path, task, FILES | {"train.tsv": REVIEWS.replace("is fine", "is fine and very good")})
    assert len(read(tmp_path, "held_out")) == 2
    assert len(read(tmp_path, "train")) == 18


def test_tagging_counts_tags_and_lists_the_scheme(tmp_path: Path) -> None:
    task = {
        "kind": "tagging",
        "reader": {"name": "conll", "columns": 2, "scheme": "IOB1", "docstart": "drop"},
        "tokens": "spaces",
        "labels": ["LOC"],
        "scheme": "BIOES",
        "metrics": ["f1"],
        "splits": {"train": {"file": "a.txt", "rows": 2}},
        "select_split": "train",
        "report_split": "train",
    }
    text = "-DOCSTART- O\n\nin O\nNew I-LOC\nYork I-LOC\n\nRome I-LOC\n"
    manifest = run(tmp_path, task, {"a.txt": text})
    assert manifest["labels"] == ["B-LOC", "E-LOC", "I-LOC", "O", "S-LOC"]
    assert manifest["splits"]["train"]["labels"] == {"B-LOC": 1, "E-LOC": 1, "O": 1, "S-LOC": 1}
    assert read(tmp_path, "train")[1] == {"id": 1, "tokens": ["Rome"], "tags": ["S-LOC"]}


def test_bare_tags_get_the_type_that_the_task_names(tmp_path: Path) -> None:
    task = {
        "kind": "tagging",
        "reader": {
            "name": "conll",
            "columns": 2,
            "separator": "tab",
            "scheme": "BIO",
            "bare_type": "Disease",
            "docstart": "keep",
        },
        "tokens": "spaces",
        "labels": ["Disease"],
        "scheme": "BIOES",
        "metrics": ["f1"],
        "splits": {"train": {"file": "a.tsv", "rows": 2}},
        "select_split": "train",
        "report_split": "train",
    }
    manifest = run(tmp_path, task, {"a.tsv": "in\tO\ncolon\tB\ncancer\tI\n\ngout\tB\n\n"})
    assert manifest["labels"] == ["B-Disease", "E-Disease", "I-Disease", "O", "S-Disease"]
    assert [row["tags"] for row in read(tmp_path, "train")] == [
        ["O", "B-Disease", "E-Disease"],
        ["S-Disease"],
    ]


JOINT: dict[str, Any] = {
    "kind": "intent_slots",
    "reader": {"name": "parallel", "scheme": "BIO"},
    "tokens": "spaces",
    "labels": ["ask", "book"],
    "slots": ["LOC"],
    "scheme": "BIO",
    "metrics": ["frame_accuracy"],
    "splits": {
        "train": {"file": "a.words", "tags_file": "a.tags", "label_file": "a.label", "rows": 10}
    },
    "select_split": "train",
    "report_split": "train",
}
JOINT_FILES = {
    "a.words": "to Rome\n" * 10,
    "a.tags": "O B-LOC\n" * 10,
    "a.label": "ask\nbook\n" * 5,
}


def test_intents_and_slots_are_counted_and_both_listed(tmp_path: Path) -> None:
    manifest = run(tmp_path, JOINT, JOINT_FILES)
    assert (manifest["labels"], manifest["tags"]) == (["ask", "book"], ["B-LOC", "I-LOC", "O"])
    assert manifest["splits"]["train"]["labels"] == {"B-LOC": 10, "O": 10, "ask": 5, "book": 5}
    row = {"id": 1, "tokens": ["to", "Rome"], "tags": ["O", "B-LOC"], "label": "book"}
    assert read(tmp_path, "train")[1] == row


def test_tagged_sentences_can_be_held_out_by_row(tmp_path: Path) -> None:
    held_out = {"share": 0.2, "seed": 1, "by": "row"}
    task = JOINT | {"held_out": held_out, "select_split": "held_out"}
    manifest = run(tmp_path, task, JOINT_FILES)
    rows = {split: item["rows"] for split, item in manifest["splits"].items()}
    assert rows == {"train": 8, "held_out": 2}


def test_a_label_file_cut_short_leaves_no_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.label: line 10: found the end of the file"):
        run(tmp_path, JOINT, JOINT_FILES | {"a.label": "ask\n" * 9})
    assert not (tmp_path / "processed" / "d").exists()


def test_regression_and_mrpc_and_ranking_are_read(tmp_path: Path) -> None:
    splits = {"train": {"file": "a.txt", "rows": 1}, "dev": {"file": "a.txt", "rows": 1}}
    common: dict[str, Any] = {"tokens": "words", "metrics": ["accuracy"], "labels": ["0", "1"]}
    chosen = {"select_split": "dev", "report_split": "dev"}
    mrpc = {"kind": "pair_classification", "reader": {"name": "mrpc", "dev_ids": "ids.tsv"}}
    text = "Quality\ta\tb\tc\td\n1\t1\t2\tx\ty\n0\t3\t4\tv\tw\n"
    task = common | chosen | mrpc | {"splits": splits}
    run(tmp_path / "m", task, {"a.txt": text, "ids.tsv": "3\t4\n"})
    assert [row["text_a"] for row in read(tmp_path / "m", "dev")] == ["v"]
    task |= {"kind": "ranking", "reader": {"name": "wikiqa"}}
    run(tmp_path / "r", task, {"a.txt": "q\tc\t1\n"})
    assert read(tmp_path / "r", "train")[0]["group"] == 0
    reader = {"name": "tsv", "texts": ["x", "y"], "label": "score"}
    task |= {"kind": "pair_regression", "reader": reader, "labels": [], "label_range": [0.0, 5.0]}
    manifest = run(tmp_path / "s", task, {"a.txt": "x\ty\tscore\na\tb\t3.8\n"})
    assert read(tmp_path / "s", "dev")[0]["label"] == 3.8
    assert (manifest["labels"], manifest["splits"]["dev"]["labels"]) == ([], {})
    with pytest.raises(DataError, match=r"line 2: found the label '7', expected a number"):
        run(tmp_path / "t", task, {"a.txt": "x\ty\tscore\na\tb\t7\n"})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"dev.tsv": REVIEWS + "more\t1\n"},
            r"dev\.tsv: found 21 examples for dev, expected .* 20",
        ),
        ({"train.tsv": REVIEWS[:-20]}, r"train\.tsv: "),
        ({"dev.tsv": REVIEWS.replace("fine\t1", "fine\t2", 1)}, r"line 3: found the label '2'"),
        ({"dev.tsv": REVIEWS.replace("\t", " ", 3)}, r"dev\.tsv: line 1: the header lacks"),
        ({"test.tsv": "id\ttext\n0\n"}, r"test\.tsv: line 2: found 1 tab-separated columns"),
    ],
)
def test_malformed_data_is_refused_and_leaves_the_earlier_state(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    run(tmp_path, TASK, FILES)
    before = (tmp_path / "processed/d/manifest.json").read_bytes()
    with pytest.raises(DataError, match=message) as caught:
        run(tmp_path, TASK, FILES | files)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "processed/d/manifest.json").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "processed").iterdir()) == ["d"]


def test_a_changed_member_is_refused(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    (tmp_path / "raw" / "d" / "dev.tsv").write_text("edited")
    with pytest.raises(DataError, match=r"dev\.tsv: found [0-9a-f]{64}, expected sha256"):
        preprocess_source("d", build({"task": TASK}, sorted(FILES)), tmp_path)


def test_a_missing_download_names_the_stage(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"run `python -m stages\.preprocess d`"):
        preprocess_source("d", build({"task": TASK}, sorted(FILES)), tmp_path)
    assert not (tmp_path / "processed").exists()


def test_vectors_become_a_tensor_and_words(tmp_path: Path) -> None:
    put(tmp_path, {"a.txt": "the 1 2\nof 3 4\n"})
    content = {"vectors": {"2d": {"file": "a.txt", "dim": 2}}}
    preprocess_source("d", build(content, ["a.txt"]), tmp_path)
    folder = tmp_path / "processed" / "d"
    table = load_file(folder / "2d.safetensors")["vectors"]
    np.testing.assert_array_equal(table, np.array([[1, 2], [3, 4]], dtype=np.float32))
    assert (folder / "2d.words.txt").read_text() == "the\nof\n"
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = digest_file(folder / "2d.safetensors")
    assert manifest["tables"] == {"2d": {"rows": 2, "dim": 2, "sha256": digest}}


PIECES = {"tensor": "words.weight", "words": "vocab.txt"}
NAMES = "[PAD]\n[\ngood\n##s\nbad\n##\nfilm\n"


def write_pieces(root: Path, names: str = NAMES) -> np.ndarray:
    """Write an encoder's table of 7 pieces in 5 dimensions, two of which say nothing."""
    table = np.zeros((7, 5), dtype=np.float32)
    table[:, :3] = np.random.default_rng(1).normal(size=(7, 3)) * [3, 2, 1]
    put(root, {"model.safetensors": save({"words.weight": table}), "vocab.txt": names})
    return table


def test_the_whole_words_of_an_encoder_become_vectors_of_two_widths(tmp_path: Path) -> None:
    rows = write_pieces(tmp_path)[[1, 2, 4, 5, 6]]
    place = {"file": "model.safetensors", "pieces": PIECES}
    content = {"vectors": {f"{dim}d": place | {"dim": dim} for dim in (1, 3)}}
    preprocess_source("d", build(content, ["model.safetensors", "vocab.txt"]), tmp_path)
    folder = tmp_path / "processed" / "d"
    assert (folder / "3d.words.txt").read_text().split() == ["[", "good", "bad", "##", "film"]
    narrow, wide = (load_file(folder / f"{dim}d.safetensors")["vectors"] for dim in (1, 3))
    np.testing.assert_array_equal(wide[:, :1], narrow)
    assert (np.diff(wide.var(0)) < 0).all()
    # three components hold all that the table says: the words lie as far apart as they did
    for first, second in itertools.combinations(range(len(rows)), 2):
        found = np.linalg.norm(wide[first] - wide[second])
        assert found == pytest.approx(np.linalg.norm(rows[first] - rows[second]), abs=1e-3)


@pytest.mark.parametrize(
    ("tensor", "dim", "names", "message"),
    [
        ("word.weight", 2, NAMES, "model.safetensors: found no table 'word.weight'"),
        ("words.weight", 2, "good\nbad\n", "words.weight of 7 rows and 5 columns, expected 2 rows"),
        ("words.weight", 6, NAMES, "expected 7 rows, the pieces of vocab.txt, and at least 6"),
    ],
)
def test_a_table_of_another_shape_is_refused(
    tmp_path: Path, tensor: str, dim: int, names: str, message: str
) -> None:
    write_pieces(tmp_path, names)
    place = {"file": "model.safetensors", "dim": dim, "pieces": PIECES | {"tensor": tensor}}
    dataset = build({"vectors": {"d": place}}, ["model.safetensors", "vocab.txt"])
    with pytest.raises(DataError, match=message):
        preprocess_source("d", dataset, tmp_path)
    assert not (tmp_path / "processed/d").exists()


def test_pieces_must_be_a_member() -> None:
    place = {"file": "model.safetensors", "dim": 2, "pieces": PIECES}
    with pytest.raises(ConfigError, match=r"no file gives the member 'vocab\.txt'"):
        build({"vectors": {"d": place}}, ["model.safetensors"])


def test_an_encoder_is_copied(tmp_path: Path) -> None:
    put(tmp_path, {"config.json": '{"model_type": "bert"}', "vocab.txt": "the\n"})
    members = ["config.json", "vocab.txt"]
    preprocess_source("d", build({"encoder": members}, members), tmp_path)
    manifest = json.loads((tmp_path / "processed/d/manifest.json").read_text())
    assert (manifest["kind"], manifest["model_type"]) == ("encoder", "bert")
    assert (tmp_path / "processed/d/vocab.txt").read_text() == "the\n"


def test_a_bare_source_has_nothing_to_preprocess(tmp_path: Path) -> None:
    put(tmp_path, {"a.txt": "x"})
    with pytest.raises(DataError, match="nothing to preprocess"):
        preprocess_source("d", build({}, ["a.txt"]), tmp_path)
