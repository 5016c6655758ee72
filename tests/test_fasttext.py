"""Binary fastText models: the vectors of words, and of the parts of all other words."""

import struct
from pathlib import Path

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.data.fasttext import hash_ngram, read_fasttext
from nlp_core.data.word_vectors import TABLE, convert_vectors, read_table
from nlp_core.errors import DataError
from tests.user_files import write_tsv

WORDS = ["soup", "caf\u00e9", "the"]
BUCKETS = 7


def write_model(
    path: Path,
    *,
    version: int = 12,
    quantized: bool = False,
    max_n: int = 3,
    pruned: dict[int, int] | None = None,
) -> np.ndarray:
    """Write a model of three words and return its rows, of words and then of n-grams."""
    num_rows = len(WORDS) + (len(pruned) if pruned else BUCKETS)
    rows = np.arange(num_rows * 3, dtype=np.float32).reshape(num_rows, 3)
    arguments = (3, 5, 5, 1, 5, 1, 2, 1, BUCKETS, 2, max_n, 100)
    content = struct.pack("<2i12id", 793712314, version, *arguments, 1e-4)
    size = len(pruned) if pruned else -1
    content += struct.pack("<iiiqq", len(WORDS) + 1, len(WORDS), 1, 99, size)
    for word in WORDS:
        content += word.encode() + b"\0" + struct.pack("<qb", 5, 0)
    content += b"__label__x\0" + struct.pack("<qb", 5, 1)
    for bucket, row in (pruned or {}).items():
        content += struct.pack("<ii", bucket, row)
    content += struct.pack("<?qq", quantized, num_rows, 3) + rows.tobytes()
    path.write_bytes(content)
    return rows


def test_the_hash_is_fnv_of_signed_bytes() -> None:
    assert hash_ngram("") == 2166136261
    assert hash_ngram("a") == 0xE40C292C
    # The bytes of a letter beyond ASCII are negative: xor with 0xFFFFFFC3, then with 0xFFFFFFA9.
    found = 2166136261
    for signed in (0xFFFFFFC3, 0xFFFFFFA9):
        found = (found ^ signed) * 16777619 % (1 << 32)
    assert hash_ngram("\u00e9") == found


def test_a_word_is_the_mean_of_its_own_row_and_its_parts(tmp_path: Path) -> None:
    rows = write_model(tmp_path / "m.bin")
    model = read_fasttext(tmp_path / "m.bin")
    assert model.words == WORDS
    # Parts of <the> of two and three letters; their rows follow those of words, labels have none.
    parts = ["<t", "<th", "th", "the", "he", "he>", "e>"]
    places = [3 + hash_ngram(part) % BUCKETS for part in parts]
    known = model.compose("the", 2)
    assert known == pytest.approx(rows[[2, *places]].mean(0))
    assert model.compose("the") == pytest.approx(rows[places].mean(0))


def test_the_end_of_a_line_has_no_parts(tmp_path: Path) -> None:
    rows = write_model(tmp_path / "m.bin")
    model = read_fasttext(tmp_path / "m.bin")
    assert model.compose("</s>", 1) == pytest.approx(rows[1])
    assert model.compose("</s>") is None


def test_letters_are_not_bytes_and_a_bare_boundary_is_no_part(tmp_path: Path) -> None:
    write_model(tmp_path / "m.bin", max_n=2)
    model = read_fasttext(tmp_path / "m.bin")
    found = [*model._find_ngrams("\u00e9")]
    assert found == [3 + hash_ngram(part) % BUCKETS for part in ("<\u00e9", "\u00e9>")]


def test_a_model_without_parts_knows_its_words_only(tmp_path: Path) -> None:
    rows = write_model(tmp_path / "m.bin", max_n=0)
    model = read_fasttext(tmp_path / "m.bin")
    assert model.compose("soup", 0) == pytest.approx(rows[0])
    assert model.compose("stew") is None


def test_a_pruned_model_has_the_rows_that_are_left(tmp_path: Path) -> None:
    bucket = hash_ngram("<t") % BUCKETS
    rows = write_model(tmp_path / "m.bin", max_n=2, pruned={bucket: 0})
    model = read_fasttext(tmp_path / "m.bin")
    kept = [part for part in ("<t", "to", "o>") if hash_ngram(part) % BUCKETS == bucket]
    assert len([*model._find_ngrams("to")]) == len(kept) > 0
    assert model.compose("to") == pytest.approx(rows[3])


@pytest.mark.usefixtures("place")
def test_the_words_of_the_texts_get_vectors(tmp_path: Path) -> None:
    write_model(tmp_path / "m.bin")
    table = read_table(convert_vectors(tmp_path / "m.bin", 2, ["stew", "the", ""]), TABLE, 3)
    assert list(table.row_of) == ["soup", "caf\u00e9", "stew", "the"]
    model = read_fasttext(tmp_path / "m.bin")
    assert table.vectors[2] == pytest.approx(model.compose("stew"))
    assert table.vectors[3] == pytest.approx(model.compose("the", 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"version": 9}, "version 9, expected 11 or 12"), ({"quantized": True}, "a quantized")],
)
def test_other_models_are_refused(tmp_path: Path, change: dict[str, int], message: str) -> None:
    write_model(tmp_path / "m.bin", **change)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        read_fasttext(tmp_path / "m.bin")


@pytest.mark.parametrize("size", [10, 80, 130, 200])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, size: int) -> None:
    write_model(tmp_path / "m.bin")
    path = tmp_path / "cut.bin"
    path.write_bytes((tmp_path / "m.bin").read_bytes()[:size])
    with pytest.raises(DataError, match=r"cut\.bin: found the end of the file"):
        read_fasttext(path)


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_a_model_is_trained_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path / "m.bin")
    train = write_tsv(tmp_path / "t.tsv")
    main(["new", "classification", "--train", str(train), "-o", str(tmp_path / "m.json")])
    call = ["train", str(tmp_path / "m.json"), "--train", str(train), "-o", str(tmp_path / "o")]
    main([*call, "--vectors", str(tmp_path / "m.bin"), "--epochs", "1"])
    words = (tmp_path / "o/vectors/vectors.words.txt").read_text().split("\n")
    assert len(words) > len(WORDS) + 1
