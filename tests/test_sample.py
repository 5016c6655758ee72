from collections import Counter
from pathlib import Path

import pytest

from nlp_core.config.dataset import read_dataset
from nlp_core.data.sample import GENERATORS, Dice, generate
from nlp_core.data.tagging_scheme import read_spans
from nlp_core.files import digest_file
from tests.test_readers import read_wikiqa


@pytest.mark.parametrize("name", GENERATORS.names())
def test_generator_writes_the_pinned_bytes(name: str, tmp_path: Path) -> None:
    generator = read_dataset(name).generator
    assert generator is not None
    generate(generator.name, tmp_path, sizes=generator.sizes, seed=generator.seed)
    found = {path.name: digest_file(path) for path in sorted(tmp_path.iterdir())}
    assert found == dict(generator.sha256)


@pytest.mark.parametrize("name", GENERATORS.names())
def test_another_seed_gives_other_bytes(name: str) -> None:
    write = GENERATORS.get(name)
    assert write(Dice("1"), 5) == write(Dice("1"), 5)
    assert write(Dice("1"), 5) != write(Dice("2"), 5)


def test_sentences_have_both_labels_in_balance() -> None:
    lines = GENERATORS.get("sample_sentence")(Dice("1"), 400).splitlines()
    labels = Counter(line.split("\t")[1] for line in lines[1:])
    assert lines[0] == "sentence\tlabel"
    assert set(labels) == {"0", "1"}
    assert min(labels.values()) > 150


def test_news_holds_all_entity_types_in_iob1() -> None:
    blocks = GENERATORS.get("sample_ner")(Dice("1"), 200).strip().split("\n\n")[1:]
    kinds: Counter[str] = Counter()
    for block in blocks:
        rows = [line.split(" ") for line in block.strip().splitlines()]
        assert {len(row) for row in rows} == {4}
        kinds.update(span.label for span in read_spans([row[3] for row in rows], "IOB1"))
    assert sorted(kinds) == ["LOC", "MISC", "ORG", "PER"]


def test_questions_are_distinct_and_have_at_most_one_answer(tmp_path: Path) -> None:
    generate("sample_answer", tmp_path, sizes={"a.txt": 100}, seed=3)
    answers: Counter[int] = Counter()
    groups: dict[int, str] = {}
    for row in read_wikiqa(tmp_path / "a.txt"):
        assert row.group is not None
        groups[row.group] = row.text_a
        answers[row.group] += row.label == "1"
    assert len(set(groups.values())) == len(groups) == 100
    assert set(answers.values()) == {0, 1}


def test_vectors_of_one_meaning_lie_near_each_other() -> None:
    lines = GENERATORS.get("sample_vectors")(Dice("1"), 50).splitlines()
    rows = {line.split()[0]: [float(part) for part in line.split()[1:]] for line in lines}

    def dot(a: str, b: str) -> float:
        return sum(x * y for x, y in zip(rows[a], rows[b], strict=True))

    assert dot("clever", "crisp") > 1.5 * abs(dot("clever", "boring"))
