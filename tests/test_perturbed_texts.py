"""Behavioural checks: changes of texts, and the answers that change with them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.cli import main
from nlp_core.data.perturbation import CHANGES, NAMES, change_pieces, change_texts
from tests.user_commands import fail
from tests.user_files import QUICK, SMALL, write_conll, write_pairs, write_tsv


def change(name: str, *texts: str, seed: int = 0) -> list[str]:
    return change_texts(texts, CHANGES[name], np.random.default_rng(seed))


@given(st.text("aA1 .\u00df\u0130x", max_size=30), st.integers(0, 9))
def test_a_change_keeps_the_number_of_tokens(text: str, seed: int) -> None:
    tokens = [text.split(), ["Anna", "12"]]
    for item in CHANGES.values():
        found = change_pieces(tokens, item, np.random.default_rng(seed))
        assert [*map(len, found)] == [*map(len, tokens)]
        assert found == change_pieces(tokens, item, np.random.default_rng(seed))


def test_a_typo_swaps_two_inner_letters_of_a_long_word() -> None:
    assert change("typos", "we ate axyb") == ["we ate ayxb"]
    assert change("typos", "we ate it") == ["we ate it"]
    assert change("typos", "look") == ["look"]  # both inner letters are the same
    words = [f"w{'abcdefghij'[idx % 10]}rd" for idx in range(40)]
    (found,) = change("typos", " ".join(words))
    assert sum(one != other for one, other in zip(words, found.split(), strict=True)) == 4


def test_case_names_and_numbers() -> None:
    assert change("lower case", "Oslo, NY") == ["oslo, ny"]
    assert change("upper case", "Oslo, ny") == ["OSLO, NY"]
    first, second = change("names", "Anna met Peter and anna.", "Anna left")
    woman, _, man, *rest = first.split()
    assert rest == ["and", "anna."]
    assert woman in NAMES[0] - {"Anna"}
    assert man in NAMES[1] - {"Peter"}
    assert second == f"{woman} left"
    one, other = change("numbers", "2 of 12.50 in 3rd", "2")
    assert one[0] == other not in "02"
    assert one.endswith("3rd")
    assert all(a != b for a, b in zip("12.50", one.split()[2], strict=True) if a != ".")


def test_answers_that_change_are_counted_and_shown(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=60)
    main(["train", "a.tsv", *QUICK, "-o", "out"])
    test = ["test", "out", "--data", "a.tsv", "--checks"]
    capsys.readouterr()
    main([*test, "--json"])
    first = json.loads(capsys.readouterr().out)
    checks = {item["check"]: item for item in first["checks"]}
    assert [*checks] == [*CHANGES]
    assert checks["names"] == {
        "check": "names",
        "texts": 0,
        "changed": 0,
        "percent": 0.0,
        "worst": [],
    }
    assert checks["lower case"]["texts"] == 0
    typos = checks["typos"]  # a word that training never saw says nothing
    assert typos["changed"] > 10
    assert typos["percent"] == pytest.approx(100 * typos["changed"] / typos["texts"])
    assert len(typos["worst"]) == 3
    for one in typos["worst"]:
        assert sorted(one["text"]) == sorted(one["changed_text"])
        assert one["answer"] != one["changed_answer"]
    main([*test, "--json"])
    assert json.loads(capsys.readouterr().out) == first
    with pytest.raises(SystemExit) as caught:
        main([*test, "--max-changed", "5"])
    assert caught.value.code == 1
    assert "typos, line " in capsys.readouterr().out
    main([*test, "--max-changed", "100"])
    assert "add --checks" in fail(capsys, *test[:-1], "--max-changed", "5")


def test_pairs_and_tags_are_checked_and_numbers_are_not(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(place / "a.jsonl", rows=40)
    main(["train", "a.jsonl", *SMALL, "--epochs", "1", "-o", "pairs"])
    write_conll(place / "a.conll", rows=30)
    main(["train", "a.conll", *SMALL, "--epochs", "3", "--lr", "0.05", "-o", "tags"])
    capsys.readouterr()
    main(["test", "pairs", "--data", "a.jsonl", "--checks", "--json"])
    assert json.loads(capsys.readouterr().out)["checks"][0]["texts"] > 20
    main(["test", "tags", "--data", "a.conll", "--checks", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert checks[0]["texts"] == 30
    for one in [one for item in checks for one in item["worst"]]:
        before, after = one["answer"].split(), one["changed_answer"].split()
        assert [item.partition("/")[0] for item in before] == [
            item.partition("/")[0] for item in after
        ]
        assert all(a != b for a, b in zip(before, after, strict=True))
    lines = [f"word {idx % 7}\t{idx % 7}.5\n" for idx in range(40)]
    (place / "n.tsv").write_text("text\tnumber\n" + "".join(lines))
    main(["train", "n.tsv", "--kind", "regression", *SMALL, "--epochs", "1", "-o", "number"])
    assert "kind regression" in fail(capsys, "test", "number", "--data", "n.tsv", "--checks")
