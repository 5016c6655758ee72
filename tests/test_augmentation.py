"""Altered texts: what is drawn, what is left out, what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from nlp_core.config.augmentation import EdaConfig
from nlp_core.config.teaching import AlterationConfig
from nlp_core.data.augmentation import MASK, alter_split, augment_split
from nlp_core.data.split_column import LabelColumn, NumberColumn, RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.errors import DataError

NOTHING: dict[str, Any] = {
    "copies": 1,
    "mask_prob": 0.0,
    "replace_prob": 0.0,
    "cut_prob": 0.0,
    "seed": 1,
}
ROWS = [["a", "good", "film"], ["a", "bad", "day"], [], ["the", "good", "day"]] * 25
ROWS = [[*row, f"x{idx}"] if row else row for idx, row in enumerate(ROWS)]


def make_split(*columns: list[list[str]]) -> Split:
    """Return a split of one text, or of two."""
    names = ["tokens"] if len(columns) == 1 else ["tokens_a", "tokens_b"]
    texts = {name: TextColumn.join(rows) for name, rows in zip(names, columns, strict=True)}
    raw = RawText(*[[" ".join(row) for row in rows] for rows in (*columns, *([[]] * 2))[:2]])
    raw = raw if len(columns) == 2 else replace(raw, second=None)
    return Split("train", np.arange(len(columns[0])), texts, {"label": ["0"] * 100}, None, raw=raw)


def alter(split: Split, **changes: Any) -> Split:
    return alter_split(split, AlterationConfig(**{**NOTHING, **changes}))


def rows_of(split: Split, name: str = "tokens") -> list[list[str]]:
    return [split.texts[name].row(row) for row in range(len(split))]


def test_tokens_are_masked_with_their_probability() -> None:
    rows = rows_of(alter(make_split(ROWS), mask_prob=0.25, copies=20))
    flat = [word for row in rows for word in row]
    assert {len(row) for row in rows} == {4}
    assert set(flat) == {word for row in ROWS for word in row} | {MASK}
    # Copies that are there already are left out: most of those without a mask, 0.75^4 of all.
    drawn, left = 20 * 75, 0.75**4
    assert flat.count(MASK) <= drawn
    assert flat.count(MASK) / len(flat) == pytest.approx(0.25 / (1 - left), abs=0.06)
    assert all(MASK in row for row in rows)


def test_a_token_gives_way_to_one_that_follows_the_same_token() -> None:
    texts = [["one", f"p{idx % 5}", f"q{idx}"] for idx in range(50)]
    texts += [["two", f"r{idx % 5}", f"s{idx}"] for idx in range(50)]
    rows = rows_of(alter(make_split(texts), replace_prob=0.5, copies=20))
    # What follows `one` is followed by nothing that follows what follows `two`.
    assert {row[1][0] + row[2][0] for row in rows} == {"pq", "rs"}
    assert {row[0] + row[1][0] for row in rows} == {"onep", "oner", "twop", "twor"}
    assert {row[1] for row in rows} == {row[1] for row in texts}
    assert {row[2] for row in rows} == {row[2] for row in texts}


def test_copies_are_cut_to_one_to_five_tokens_of_the_text() -> None:
    long = [[f"{idx}-{place}" for place in range(9)] for idx in range(100)]
    rows = rows_of(alter(make_split(long), cut_prob=1.0, copies=3))
    assert {len(row) for row in rows} == {1, 2, 3, 4, 5}
    whole = [" ".join(row) for row in long]
    assert all(any(" ".join(row) in text for text in whole) for row in rows)
    begins = {row[0].partition("-")[2] for row in rows}
    assert begins == {str(place) for place in range(9)}


def test_no_copy_is_empty_or_there_twice_and_none_has_a_label() -> None:
    split = alter(make_split(ROWS), replace_prob=0.3, cut_prob=0.3, copies=30)
    rows = [tuple(row) for row in rows_of(split)]
    assert len(set(rows)) == len(rows) > 100
    assert () not in rows
    assert not set(rows) & {tuple(row) for row in ROWS}
    assert split.ids.tolist() == list(range(len(rows)))
    assert split.targets == {"label": [None] * len(rows)}
    assert split.raw is not None
    assert split.raw.first == [" ".join(row) for row in rows]
    assert split.raw.second is None


def test_both_texts_of_a_pair_are_altered() -> None:
    split = alter(make_split(ROWS, ROWS[::-1]), mask_prob=0.5)
    first, second = rows_of(split, "tokens_a"), rows_of(split, "tokens_b")
    assert split.raw is not None
    assert split.raw.second == [" ".join(row) for row in second]
    assert any(MASK in a and MASK not in b for a, b in zip(first, second, strict=True))
    assert any(MASK in b and MASK not in a for a, b in zip(first, second, strict=True))


def test_the_seed_alone_says_what_is_drawn() -> None:
    one, same, other = (
        rows_of(alter(make_split(ROWS), mask_prob=0.3, seed=seed)) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_more_than_texts_is_refused() -> None:
    split = make_split(ROWS)
    votes = NumberColumn(np.zeros((100, 1)), None)
    with pytest.raises(DataError, match=r"found dense\.votes, expected only texts"):
        alter(replace(split, numbers={"dense.votes": votes}), mask_prob=0.5)
    tags = {**split.texts, "features.pos": split.texts["tokens"]}
    with pytest.raises(DataError, match=r"found features\.pos, expected only texts"):
        alter(replace(split, texts=tags), mask_prob=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "found mask_prob 0.0, .* expected one above 0"),
        ({"mask_prob": 0.6, "replace_prob": 0.6}, "found mask_prob 0.6, replace_prob 0.6"),
        ({"copies": 0, "mask_prob": 0.1}, r"^1 .*\ncopies\n.* greater than or equal to 1"),
        ({"cut_prob": 1.2}, r"^1 .*\ncut_prob\n.* less than or equal to 1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AlterationConfig(**{**NOTHING, **changes})


EDA = {"name": "eda", "copies": 2}


def augment(split: Split, **changes: Any) -> Split:
    return augment_split(split, EdaConfig.model_validate({**EDA, **changes}), 3)


def test_altered_copies_follow_the_texts_and_keep_their_labels() -> None:
    labels = [str(row % 2) for row in range(100)]
    split = replace(make_split(ROWS), targets={"label": LabelColumn.build("label", labels)})
    found = augment(split, replace_prob=0.2, insert_prob=0.1, swap_prob=0.1, delete_prob=0.1)
    assert 100 < len(found) <= 300
    assert rows_of(found)[:100] == ROWS
    assert found.ids.tolist() == [*range(len(found))]
    assert found.target[:100] == labels
    swapped = augment(split, swap_prob=0.5)
    of_text = {tuple(sorted(row)): label for row, label in zip(ROWS, labels, strict=True)}
    for text, label in zip(rows_of(swapped)[100:], swapped.target[100:], strict=True):
        assert label == of_text[tuple(sorted(text))]
    assert found.raw is not None
    assert [text.split() for text in found.raw.first[100:]] == rows_of(found)[100:]
    again = augment(split, replace_prob=0.2, insert_prob=0.1, swap_prob=0.1, delete_prob=0.1)
    assert rows_of(again) == rows_of(found)


@pytest.mark.parametrize(
    ("probability", "sizes"),
    [("swap_prob", {0}), ("insert_prob", {0, 1, 2, 3}), ("delete_prob", {-3, -2, -1})],
)
def test_each_change_does_what_its_name_says(probability: str, sizes: set[int]) -> None:
    split = replace(make_split(ROWS), targets={"label": LabelColumn.build("label", ["0"] * 100)})
    found = augment(split, **{probability: 0.5})
    words = {word for row in ROWS for word in row}
    copies = rows_of(found)[100:]
    assert copies
    assert {word for row in copies for word in row} <= words
    assert {len(row) - 4 for row in copies} <= sizes
    assert all(copies), "a text without words"
    if probability == "swap_prob":
        texts = {tuple(sorted(row)) for row in ROWS}
        assert all(tuple(sorted(row)) in texts for row in copies)


def test_copies_of_candidates_are_questions_of_their_own() -> None:
    pairs = make_split(ROWS[:100], ROWS[100:] or ROWS)
    labels = LabelColumn.build("label", ["0", "1"] * 50)
    split = replace(pairs, targets={"label": labels}, group=np.arange(100) // 4)
    found = augment(split, swap_prob=0.3)
    assert found.group is not None
    assert np.unique(found.group, return_counts=True)[1].tolist() == [4] * 75


def test_what_eda_cannot_alter_is_an_error() -> None:
    split = make_split(ROWS)
    tagged = replace(split, targets={"tags": [["O"]] * 100})
    dense = replace(split, numbers={"dense.votes": NumberColumn(np.zeros((100, 1)), None)})
    for wrong, named in ((tagged, "found tags"), (dense, r"found dense\.votes")):
        with pytest.raises(DataError, match=rf"split train: {named}, expected only texts"):
            augment(wrong, swap_prob=0.5)
    with pytest.raises(ValidationError, match="found no probability above 0"):
        EdaConfig.model_validate(EDA)
