"""The page of a user's run."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from nlp_core.cli import main
from nlp_core.report.run_page import find_label_errors
from tests.user_files import SMALL, write_conll, write_tsv


def test_a_confident_other_label_is_suspected() -> None:
    score = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.95, 0.05], [0.3, 0.7]])
    # row 3 has label 1 by mistake: 0.95 is above the mean of label 0, (0.9 + 0.8) / 2
    target = np.array([0, 0, 1, 1, 1])
    assert find_label_errors(score, target).tolist() == [3]
    assert find_label_errors(score, score.argmax(1)).tolist() == []


def test_the_page_has_scores_errors_and_commands(place: Path) -> None:
    write_tsv(place / "a.tsv", rows=60, header="text\tlabel")
    main(["train", "a.tsv", *SMALL, "--epochs", "1", "-o", "out"])
    page = (place / "out/report.md").read_text()
    assert "| accuracy | " in page
    assert " to " in page
    assert "| right / predicted | food |" in page
    assert "## Least confident rows on dev" in page
    assert "reglue train out/model.json --train a.tsv" in page
    html = (place / "out/report.html").read_text()
    HTMLParser().feed(html)
    assert html.count("<h2>") == page.count("\n## ")


def test_texts_are_escaped_and_other_kinds_have_no_page(place: Path) -> None:
    rows = "".join(f"<b>a | b {n}\t{('x|y', 'z')[n % 2]}\n" for n in range(40))
    (place / "a.tsv").write_text(f"text\tlabel\n{rows}")
    main(["train", "a.tsv", *SMALL, "--epochs", "1", "-o", "out"])
    assert "<b>a" not in (place / "out/report.html").read_text()
    page = (place / "out/report.md").read_text()
    assert "a \\| b" in page
    assert "| right / predicted | x\\|y | z | all |" in page
    assert "<th>x|y</th>" in (place / "out/report.html").read_text()
    write_conll(place / "a.conll", rows=20)
    main(["train", "a.conll", *SMALL, "--epochs", "1", "-o", "tags"])
    assert not (place / "tags/report.md").exists()
