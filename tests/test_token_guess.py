"""The tokenizer of a data file without a model file."""

from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.data.guess import guess_data
from nlp_core.kinds import CLASSIFICATION, TAGGING
from tests.user_files import SMALL, put

REVIEWS = [("这部电影非常好看", "good"), ("剧情很无聊,不推荐", "bad")]
JAPANESE = [("この映画はとても面白い", "good"), ("つまらない作品でした", "bad")]
CUT = [("这部 电影 非常 好看", "good"), ("剧情 很 无聊 不 推荐", "bad")]
ENGLISH = [("a film about 北京 and its people", "good"), ("no plot at all", "bad")]


def write_rows(path: Path, rows: list[tuple[str, str]], times: int = 20) -> Path:
    """Write the rows again and again, each with another number in its text."""
    lines = [f"{text} {idx}\t{label}\n" for idx in range(times) for text, label in rows]
    return put(path, "".join(lines))


@pytest.mark.parametrize(
    ("rows", "tokens"),
    [(REVIEWS, "characters"), (JAPANESE, "characters"), (CUT, "words"), (ENGLISH, "words")],
)
def test_texts_without_spaces_are_cut_into_characters(
    tmp_path: Path, rows: list[tuple[str, str]], tokens: str
) -> None:
    assert guess_data(write_rows(tmp_path / "a.tsv", rows), CLASSIFICATION).data.tokens == tokens


def test_entities_of_chinese_texts_are_found_in_characters(tmp_path: Path) -> None:
    row = '{"text": "我在北京大学学习", "entities": [[2, 6, "ORG"]]}\n'
    data = guess_data(put(tmp_path / "a.jsonl", row * 20), TAGGING).data
    assert (data.scheme, data.tokens) == ("spans", "characters")


def test_train_prints_the_guess_and_the_bundle_reads_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(place / "a.tsv", REVIEWS)
    main(["train", "a.tsv", *SMALL, "--epochs", "1", "-o", "out"])
    shown = capsys.readouterr().err
    assert 'data.tokens = "characters"  (most letters are Chinese or Japanese' in shown
    main(["export", "out", "--data", "a.tsv", "--to", "bundle"])
