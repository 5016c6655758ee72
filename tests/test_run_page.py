"""The page of a model that `reglue train` trained."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.metrics import Predictions
from nlp_core.site.breakdown import Breakdown
from nlp_core.site.run_errors import find_label_errors, list_reliability
from tests.user_files import SMALL, write_conll, write_tsv


def train(file: str, *more: str) -> tuple[str, str]:
    """Train into the folder `out`, and return its page as Markdown and as HTML."""
    main(["train", file, *SMALL, "--epochs", "2", "-o", "out", *more])
    markdown, html = (Path("out", name).read_text() for name in ("report.md", "report.html"))
    HTMLParser().feed(html)
    assert html.count("<h2 ") == markdown.count("\n## ")
    return markdown, html


def test_a_confident_other_label_is_suspected() -> None:
    score = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.95, 0.05], [0.3, 0.7]])
    # row 3 has label 1 by mistake: 0.95 is above the mean of label 0, (0.9 + 0.8) / 2
    target = np.array([0, 0, 1, 1, 1])
    assert find_label_errors(score, target).tolist() == [3]
    assert find_label_errors(score, score.argmax(1)).tolist() == []


def test_the_page_has_scores_curves_errors_data_and_commands(place: Path) -> None:
    write_tsv(place / "a.tsv", rows=60, header="text\tlabel")
    page, html = train("a.tsv")
    sections = [line for line in page.splitlines() if line.startswith("## ")]
    assert sections == [
        "## Scores on dev",
        "## Errors on dev",
        "## Learning curves",
        "## Data",
        "## Commands",
    ]
    assert "| accuracy | " in page
    assert " to " in page
    assert "| right / predicted | food |" in page
    assert "### Least confident rows" in page
    assert "| label | train | dev |\n| --- | --- | --- |\n| food | " in page
    assert "| train | 48 | " in page
    assert "reglue train out/model.json --train a.tsv" in page
    assert 'aria-label="Accuracy by step"' in html
    assert 'aria-label="Right answers by confidence, %"' in html
    assert "seeds" not in page


def test_reliability_is_by_tenths_of_the_confidence() -> None:
    score = np.array([[0.92, 0.08], [0.96, 0.04], [0.35, 0.65], [0.31, 0.69], [1.0, 0.0]])
    found = Predictions(
        labels=["a", "b"],
        target=["a", "b", "b", "a", "a"],
        prediction=["a", "a", "b", "b", "a"],
        score=score,
    )
    low, high = list_reliability(found)
    assert low == (67, 50.0)
    assert high == (96, pytest.approx(100 * 2 / 3))


def test_texts_are_escaped(place: Path) -> None:
    rows = "".join(f"<b>a | b {n}\t{('x|y', 'z')[n % 2]}\n" for n in range(40))
    (place / "a.tsv").write_text(f"text\tlabel\n{rows}")
    page, html = train("a.tsv")
    assert "<b>a" not in html
    assert "a \\| b" in page
    assert "| right / predicted | x\\|y | z |" in page
    assert '<th scope="col" class="n">x|y</th>' in html


def test_entities_have_sorts_of_errors_and_texts(place: Path) -> None:
    write_conll(place / "a.conll", rows=20)
    page, _ = train("a.conll")
    assert "| type | right | wrong type | wrong ends | missed | invented |" in page
    assert "| row | tokens | entities | not predicted | wrongly predicted | errors | text |" in page
    assert " went to " in page


def test_answers_that_are_texts_are_compared_with_the_right_ones(place: Path) -> None:
    rows = "".join(f"ring Ada {n}\tcall {n % 3}\n" for n in range(40))
    (place / "a.tsv").write_text(f"text\toutput\n{rows}")
    page, _ = train("a.tsv", "--kind", "generation")
    assert "| row | right | predicted | text |" in page
    assert "| ring Ada " in page


def test_spans_are_no_labels(place: Path) -> None:
    def ask(number: int) -> dict[str, object]:
        answer = {"text": str(number), "answer_start": 12}
        question = {"id": str(number), "question": "which year ?", "answers": [answer]}
        return {"context": f"it ended in {number} .", "qas": [question]}

    record = {"title": "years", "paragraphs": [ask(number) for number in range(1900, 1940)]}
    (place / "a.json").write_text(json.dumps({"data": [record]}))
    page, _ = train("a.json")
    assert "| exact_match | " in page
    assert "### Size" in page
    assert "### Labels" not in page


def test_a_column_is_of_numbers_or_of_texts() -> None:
    rows = [["1", "Rome", "2"], ["2", "1984", "-"], ["3", "", ""]]
    assert Breakdown("t", ["row", "right", "count"], rows).columns == [
        ("row", True),
        ("right", False),
        ("count", True),
    ]


def test_numbers_show_the_furthest_rows(place: Path) -> None:
    rows = "".join(f"a text {n}\t{n / 4}\n" for n in range(40))
    (place / "a.tsv").write_text(f"text\tnumber\n{rows}")
    page, _ = train("a.tsv", "--kind", "regression")
    assert "| row | right | predicted | error | text |" in page
    assert "| split | mean | sd | least | most |" in page


def test_repeats_conflicts_and_overlap_are_shown_with_their_rows(place: Path) -> None:
    write_tsv(place / "a.tsv", rows=60, header="text\tlabel")
    with (place / "a.tsv").open("a") as file:
        file.write("Twice here!\tfood\ntwice here\troom\n")
    (place / "t.tsv").write_text("text\tlabel\ntwice here\tfood\nonce\troom\n")
    (place / "d.tsv").write_text("text\tlabel\nonce more\tfood\nbath\troom\n")
    files = ["--dev", "d.tsv", "--test", "t.tsv"]
    page, _ = train("a.tsv", *files)
    assert "| repeated | train | 61 | room | train | 60 | food | twice here |" in page
    assert "| conflicting label | train | " in page
    assert "| in train | test | 0 | food | train | " in page
    assert "test 1 of 2" in page


@pytest.mark.parametrize("kind", ["multi_label", "ranking"])
def test_worst_examples_have_texts(place: Path, kind: str) -> None:
    rows = {
        "multi_label": [f"text number {n}\t{'a,b' if n % 3 else 'c'}" for n in range(40)],
        "ranking": [f"who {n // 4}\tanswer {n}\t{int(n % 4 == 1)}" for n in range(80)],
    }[kind]
    header = {"multi_label": "text\tlabels", "ranking": "question\tanswer\tlabel"}[kind]
    (place / "a.tsv").write_text("\n".join([header, *rows]) + "\n")
    page, _ = train("a.tsv", "--kind", kind)
    worst = page.partition("### Worst ")[2].partition("\n### ")[0]
    assert "| text |" in worst
    assert ("text number " if kind == "multi_label" else " / answer ") in worst
