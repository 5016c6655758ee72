"""Tests of nlp_core/report/{table,markdown,figure}.py: what the report stage writes."""

import re
from pathlib import Path

import pytest
from fabricated import root

from nlp_core.errors import ConfigError
from nlp_core.report.comparison import read_comparison
from nlp_core.report.figure import draw_figure, split_panels
from nlp_core.report.markdown import flatten, render_rows, summarise_outcomes
from nlp_core.report.table import _render_commands, write_report

__all__ = ["root"]


def write(root: Path) -> list[str]:
    write_report("trial", root)
    return (root / "reports" / "trial.md").read_text().splitlines()


def test_a_row_says_published_ours_difference_and_verdict(root: Path) -> None:
    lines = write(root)
    assert (
        "| Alpha | AUC | 88.00 | 86.00 \u00b1 0.25 (Other 1999) | 87.50 \u00b1 17.68 (2) "
        "| -100.00 to 100.00 | -0.50 | reproduced |" in lines
    )
    assert "| Delta | AUC | 91.00 |  |  |  |  | not run [time] |" in lines
    assert "- not run [time]: for want of time." in lines
    assert (
        "| Beta | accuracy | 90.0 | as the paper | 100.00 \u00b1 0.00 (3) | 100.00 to 100.00 "
        "| +10.00 | above |" in lines
    )
    assert (
        "| Beta | accuracy | 90.0 | honest | 50.00 \u00b1 25.00 (3) | -74.21 to 100.00 | -40.00 "
        "| reproduced |" in lines
    )
    assert "- Beta, accuracy: Few examples." in lines
    assert "| gamma | test.f1 | 66.67 (1) | no published number |" in lines


def test_the_report_says_how_cells_were_made(root: Path) -> None:
    text = "\n".join(write(root))
    assert (
        "| `beta` | [zoo/trial/beta.json](../zoo/trial/beta.json) | quick | 1, 2, 3 | 12,345 "
        "| held_out | dev | honest: 1, 1, 1; as the paper: 2, 2, 2 |" in text
    )
    assert "- **quick**: ours, for tests. optimizer adam, optimizer.lr 0.001" in text
    assert "alpha `abababababab`, beta `abababababab`, gamma `abababababab`, words `cdcd" in text
    assert "- words.txt: a part of the official file" in text
    assert "Fingerprint of all cells: device cpu, isa avx2, torch 2.13.0; numerics 1." in text
    assert "No cell ran on a GPU." in text
    assert "`dvc repro finetune@alpha report@trial`" in text
    assert "snakemake --cores 2 reports/trial.md" in text
    assert "- First et al. 2000: A paper, Table 1. <https://example.org>" in text


def test_a_table_with_a_cell_of_a_gpu_names_it(root: Path) -> None:
    path = root / "results" / "trial.json"
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "NVIDIA X"', 1))
    text = "\n".join(write(root))
    assert "device NVIDIA X" in text
    assert "No cell ran on a GPU" not in text
    (cell,) = re.findall(r"Trained on a GPU: (\w+)\.", text)
    assert f"`REGLUE_DEVICE=cuda dvc repro finetune@{cell} && dvc repro report@trial`" in text
    assert text.count("REGLUE_DEVICE") == 2  # by DVC and by Snakemake


def test_the_summary_counts_each_way_of_choosing_apart(root: Path) -> None:
    entries = read_comparison("trial", root).entries
    assert summarise_outcomes(entries) == (
        "1 number measured, epoch chosen as the paper did: 1 reproduced or above; "
        "4 numbers measured, epoch chosen honestly: 2 reproduced or above, "
        "2 with no published number; 2 not run."
    )
    assert summarise_outcomes([]) == "Nothing measured."


def test_report_and_figure_have_the_same_bytes_every_time(root: Path) -> None:
    paths = [root / "reports" / "trial.md", root / "reports" / "trial.svg"]
    write(root)
    first = [path.read_bytes() for path in paths]
    write(root)
    assert [path.read_bytes() for path in paths] == first
    assert b"<dc:date>" not in first[1]
    assert str(root).encode() not in b"".join(first)


def test_a_table_without_results_still_shows_what_was_published(root: Path) -> None:
    (root / "results" / "trial.json").write_text('{"table": "trial", "cells": {}}')
    lines = write(root)
    assert "**4 not run.**" in lines
    assert "## How our numbers were made" not in lines


def test_numbers_of_one_metric_that_lie_close_share_a_panel(root: Path) -> None:
    ranking, classification, others = read_comparison("trial", root).parts
    assert [panel.title for panel in split_panels(ranking)] == ["AUC", "MAP"]
    (panel,) = split_panels(classification)
    assert panel.title == "Classification: accuracy"
    assert [len(entries) for entries in panel.lines.values()] == [2]
    assert len(split_panels(others)) == 1


def test_the_figure_names_its_rows_as_text(root: Path) -> None:
    figure = draw_figure(read_comparison("trial", root)).decode()
    for text in ("Alpha", "Reference", "published, nothing of ours", "ours, honest", "each seed"):
        assert f">{text}</text>" in figure


def test_the_figure_writes_dollar_signs_as_they_are(root: Path) -> None:
    path = root / "reports/published/trial.yaml"
    path.write_text(path.read_text().replace("name: Alpha", "name: A $5 model for $x_1$"))
    figure = draw_figure(read_comparison("trial", root)).decode()
    assert ">A $5 model for $x_1$</text>" in figure


def test_a_panel_without_a_number_of_ours_is_left_out(root: Path) -> None:
    path = root / "reports/published/trial.yaml"
    ours = draw_figure(read_comparison("trial", root)).decode()
    assert ">Ranking: AUC</text>" in ours
    path.write_text(path.read_text().replace("cell: alpha", "cell: absent"))
    comparison = read_comparison("trial", root)
    figure = draw_figure(comparison).decode()
    assert "Ranking" not in figure
    assert ">Classification: accuracy</text>" in figure
    assert any(entry.row == "Reference" for entry in comparison.entries)


def test_a_long_title_wraps_beside_long_names(root: Path) -> None:
    path = root / "reports/published/trial.yaml"
    title = "Classification of more texts than anyone would name in the title of a panel"
    text = path.read_text().replace("title: Classification", f"title: {title}")
    row = "A row of many words that say how it differs from all the other rows of the grid"
    path.write_text(text.replace("Reference", row))
    figure = draw_figure(read_comparison("trial", root)).decode()
    lines = re.findall(r">([^<]*)</text>", figure)
    assert " ".join(line for line in lines if line and line in row) == row
    found = [line for line in lines if line and line in f"{title}: accuracy"]
    assert " ".join(found) == f"{title}: accuracy"
    assert max(map(len, found)) < 30


def test_a_table_without_results_is_not_run(root: Path) -> None:
    (root / "results" / "trial.json").unlink()
    write_report("trial", root)
    assert "not run: that cell is not measured" in (root / "reports/trial.md").read_text()


def test_an_unknown_table_is_an_error(root: Path) -> None:
    (root / "reports" / "published" / "trial.yaml").unlink()
    with pytest.raises(ConfigError, match="no such file"):
        write_report("trial", root)


def test_a_bar_in_a_text_does_not_break_the_table() -> None:
    assert render_rows(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
    assert render_rows(["a"], [["x\ny"]]) == "| a |\n| --- |\n| x y |"


def test_flatten_calls_a_choice_by_its_key() -> None:
    nested = {"optimizer": {"name": "adam", "lr": 0.1}, "epochs": 3, "name": "outer"}
    assert flatten(nested) == {
        "optimizer": "adam",
        "optimizer.lr": "0.1",
        "epochs": "3",
        "name": "outer",
    }


def test_a_table_of_ensembles_only_has_nothing_to_train_from_scratch() -> None:
    text = _render_commands("trial", {"all": ("ensemble@all", "artifacts/cells/trial/all")}, [])
    assert "`dvc repro ensemble@all report@trial`" in text
    assert text.endswith("Both run only what is out of date.")
