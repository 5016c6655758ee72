"""Word vectors of others, in every form, and the models that start from them."""

import gzip
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from nlp_core.cli import main
from nlp_core.data.word_vectors import TABLE, convert_vectors, read_header, read_table
from nlp_core.errors import DataError
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.user_files import write_tsv

WORDS = {"the": [0.5, -1.0, 2.0], "soup": [1.0, 0.25, 0.0], ". . .": [0.125, 3.0, -4.0]}


pytestmark = pytest.mark.usefixtures("place")


def write(path: Path, form: str) -> Path:
    """Write the words in one of the forms that are read."""
    rows = [f"{word} {' '.join(str(number) for number in row)}" for word, row in WORDS.items()]
    header = f"{len(WORDS)} 3"
    match form:
        case "glove":
            content = "\n".join(rows) + "\n"
        case "word2vec":
            content = "\n".join([header, *rows]) + "\n"
        case "fasttext":
            content = "\n".join([header, *(f"{row} " for row in rows)]) + "\n"
        case _:
            end = b"\n" if form == "binary" else b""
            words = {word.replace(" ", "_"): row for word, row in WORDS.items()}
            packed = b"".join(
                word.encode() + b" " + struct.pack("<3f", *row) + end for word, row in words.items()
            )
            path.write_bytes(header.encode() + b"\n" + packed)
            return path
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["glove", "word2vec", "fasttext", "binary", "binary without ends"])
def test_every_form_gives_the_same_table(tmp_path: Path, form: str) -> None:
    folder = convert_vectors(write(tmp_path / "v.txt", form))
    table = read_table(folder, TABLE, 3)
    words = list(WORDS)
    if form.startswith("binary"):
        words[2] = "._._."
    assert list(table.row_of) == words
    assert np.array_equal(table.vectors, np.array(list(WORDS.values()), dtype=np.float32))


def test_a_packed_file_and_its_first_words(tmp_path: Path) -> None:
    plain = write(tmp_path / "v.txt", "word2vec")
    packed = tmp_path / "v.vec.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    table = read_table(convert_vectors(packed, max_rows=2), TABLE, 3)
    assert list(table.row_of) == ["the", "soup"]


@pytest.mark.parametrize("cut", [0, 30])
def test_a_packed_file_that_is_none_or_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    plain = write(tmp_path / "v.txt", "word2vec")
    packed = tmp_path / "v.vec.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes())[:-cut] if cut else plain.read_bytes())
    with pytest.raises(DataError, match="cannot be unpacked"):
        convert_vectors(packed)


def test_a_file_is_converted_once(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", "glove")
    folder = convert_vectors(path)
    marked = folder / f"{TABLE}.safetensors"
    before = marked.stat().st_mtime_ns
    path.rename(tmp_path / "other.txt")
    assert convert_vectors(tmp_path / "other.txt") == folder
    assert marked.stat().st_mtime_ns == before
    write(path, "word2vec")
    assert convert_vectors(path) != folder
    note = json.loads((folder / "manifest.json").read_text())
    assert note["tables"][TABLE]["dim"] == load_file(marked)["vectors"].shape[1] == 3


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"the 1 2 3\nsoup 1 2\n", "line 2: found 2 numbers"),
        (b"the 1 2 3\nsoup 1 x 3\n", "line 2: found no number"),
        (b"the 1 2 3\nsoup 1 nan 3\n", "line 2: found a number that is not finite"),
        (b"just some words\n", "line 1: found neither"),
        (b"2 3\nthe " + struct.pack("<3f", 1, 2, 3) + b"soup " + b"\x00" * 5, "word 2"),
        ((793712314).to_bytes(4, "little") + b"\x0c\x00\x00\x00", "the end of the file"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: bytes, wanted: str) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=wanted):
        convert_vectors(path)
    assert list((tmp_path / "cache").rglob("*.safetensors")) == []


@pytest.mark.parametrize("header", ["2 " + "9" * 20, "9" * 5000 + " 2"])
def test_counts_of_too_many_digits_are_one_paragraph(tmp_path: Path, header: str) -> None:
    path = tmp_path / "v.vec"
    path.write_text(f"{header}\nin 0.1 0.2\n")
    with pytest.raises(DataError, match="line 1: found a count of"):
        convert_vectors(path)


def test_long_lines_of_numbers_are_text_wherever_a_sample_of_them_ends(tmp_path: Path) -> None:
    path = tmp_path / "v.vec"
    path.write_text("1 400\nin" + " -0.0123456" * 400 + "\n")
    assert not read_header(path).is_binary


def test_words_that_stand_twice_or_are_no_text_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"the 1 2 3\nthe 4 5 6\n\xff\xfe 7 8 9\nend 1 1 1\n")
    table = read_table(convert_vectors(path), TABLE, 3)
    assert list(table.row_of) == ["the", "end"]
    assert table.vectors[0].tolist() == [1, 2, 3]
    assert "1 repeated words and 1 not in UTF-8" in caplog.text


def test_a_folder_of_vectors_is_read_by_layers_that_name_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(tmp_path / "a.tsv", rows=30)
    (tmp_path / "v.txt").write_text("soup 1 2 3\nunseen 4 5 6\nother 0 1 0\n", encoding="utf-8")
    folder = convert_vectors(tmp_path / "v.txt")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    train = ["train", "m.json", "--train", "a.tsv", "--epochs", "1", "--vectors", str(folder)]
    main([*train, "-o", "out", "--set", "layers.lstm.hidden_dim=4"])
    (layer, *_) = json.loads((tmp_path / "out/model.json").read_text())["layers"]
    assert (layer["dim"], layer["vectors"]) == (3, TABLE)
    said = Predictor(TrainedModel.open("out")).predict(["unseen", "other"])
    assert said[0].confidence != said[1].confidence  # words that training never saw
    manifest = json.loads((folder / "manifest.json").read_text())
    two = {**manifest["tables"], "50d": manifest["tables"][TABLE]}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "tables": two}))
    with pytest.raises(SystemExit):
        main([*train, "-o", "new"])
    assert f"say which: --set layers.word.vectors={TABLE}" in capsys.readouterr().err


def test_a_model_takes_its_vectors_with_it(tmp_path: Path) -> None:
    write_tsv(tmp_path / "a.tsv", rows=30)
    vectors = tmp_path / "v.vec"
    rows = "".join(
        f"{word} {idx} 1 -{idx}\n" for idx, word in enumerate(["soup", "unseen", "other"])
    )
    vectors.write_text("3 3\n" + rows, encoding="utf-8")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    train = ["train", "m.json", "--train", "a.tsv", "--epochs", "1", "-o", "out"]
    main([*train, "--vectors", "v.vec", "--set", "layers.lstm.hidden_dim=4"])
    (layer, *_) = json.loads((tmp_path / "out/model.json").read_text())["layers"]
    assert (layer["dim"], layer["vectors"]) == (3, TABLE)
    before = Predictor(TrainedModel.open("out")).predict(["unseen", "other", "zzz"])
    shutil.rmtree("cache")
    vectors.unlink()
    shutil.move("out", "moved")
    after = Predictor(TrainedModel.open("moved")).predict(["unseen", "other", "zzz"])
    found = [tuple(item.probability.tolist()) for item in after if item.probability is not None]
    assert found == [tuple(i.probability.tolist()) for i in before if i.probability is not None]
    assert len(set(found)) == 3
