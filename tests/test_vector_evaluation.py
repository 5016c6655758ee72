import json
from pathlib import Path

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.data.word_vectors import WordVectors
from nlp_core.errors import DataError
from nlp_core.prediction import vector_evaluation
from nlp_core.prediction.vector_evaluation import VectorScore, measure_analogies, measure_similarity

pytestmark = pytest.mark.usefixtures("place")
WORDS = {
    "man": [1.0, 0.0, 1.0],
    "woman": [1.0, 0.0, -1.0],
    "king": [0.0, 1.0, 1.0],
    "queen": [0.0, 1.0, -1.0],
    "soup": [-3.0, -3.0, 0.0],
    "none": [0.0, 0.0, 0.0],
}
VECTORS = WordVectors(
    np.array([*WORDS.values()], dtype=np.float32), {word: row for row, word in enumerate(WORDS)}
)
PAIRS = "word1\tword2\tmean\nman\tking\t7\nman\tsoup\t1.5\nKing\tqueen\t4\nman\tcolour\t9\n"
ANALOGIES = (
    ": family\nman woman king queen\nqueen king woman man\nman woman soup king\n\nman x king y\n"
)


def put(text: str, name: str = "a.txt") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_similarity_is_the_correlation_of_ranks() -> None:
    # cosines 1/2, -1/2 and 0 have the order of 7, 1.5 and 4; `colour` has no vector
    assert measure_similarity(put(PAIRS), VECTORS) == VectorScore(100.0, 3, 4)
    turned = PAIRS.replace("\t7", "\t2")  # ranks 2, 1, 3 of 3, 1, 2: 1 - 6 * 2 / 24
    assert measure_similarity(put(turned), VECTORS).score == pytest.approx(50.0)


@pytest.mark.parametrize("size", [1, 2, 512])
def test_analogies_count_the_nearest_other_word(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_evaluation, "QUESTIONS", size)
    # woman - man + soup is nearest to woman, which is left out, and then to queen
    found = measure_analogies(put(ANALOGIES), VECTORS)
    assert found == VectorScore(pytest.approx(200 / 3), 3, 4)


def test_analogies_are_those_of_a_loop_over_all_words(seed: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = WordVectors(
        generator.normal(size=(9, 4)).astype(np.float32), {f"w{row}": row for row in range(9)}
    )
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    lines, right = [], 0
    for _ in range(40):
        a, b, c, d = generator.choice(9, 4, replace=False).tolist()
        lines.append(f"w{a} w{b} w{c} w{d}\n")
        wanted = unit[b] - unit[a] + unit[c]
        others = [row for row in range(9) if row not in (a, b, c)]
        right += max(others, key=lambda row: float(wanted @ unit[row])) == d
    found = measure_analogies(put("".join(lines)), vectors)
    assert found.score == pytest.approx(100 * right / 40)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("man king 7\nman soup\n", "line 2: found 2 words, expected 3"),
        ("man king 7\nman soup x\n", "line 2: found 'x', expected a number"),
        ("man king 7\nman x 1\n", "found 1 of 2 lines .* expected two pairs"),
    ],
)
def test_a_malformed_file_is_named(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        measure_similarity(put(text), VECTORS)


def test_analogies_of_unknown_words_are_an_error() -> None:
    with pytest.raises(DataError, match="found 0 of 1 lines"):
        measure_analogies(put("a b c d\n"), VECTORS)
    with pytest.raises(DataError, match="no such file"):
        measure_analogies(Path("gone.txt"), VECTORS)


def test_the_command_measures_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{word} {' '.join(map(str, row))}\n" for word, row in WORDS.items()]
    put("".join(rows), "v.txt")
    put(PAIRS, "pairs.tsv")
    files = ["--similarity", "pairs.tsv", "--analogies", str(put(ANALOGIES))]
    main(["vectors", "v.txt", *files, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["similarity"] == {"score": pytest.approx(100.0), "known": 3, "lines": 4}
    assert found["analogies"]["known"] == 3
    main(["vectors", "v.txt", *files])
    assert "3 of 4" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["vectors", "v.txt"])
    assert "add --similarity or --analogies" in capsys.readouterr().err
