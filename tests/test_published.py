import re
from pathlib import Path

import pytest
import yaml
from fabricated import PUBLISHED, make_published

from nlp_core.config.params import read_params
from nlp_core.config.published import PartConfig, PublishedTable, read_published
from nlp_core.errors import ConfigError
from nlp_core.metrics import METRICS
from nlp_core.metrics.base import DEPTH

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "reports" / "published").glob("*.yaml"))
TIMES = {"gain", "latency", "lead", "ratio", "score", "size", "speed"}
"""What a table of times has instead of splits."""
DETECTION = {"detection_accuracy", "detection_auc", "original", "pair_accuracy"}
"""What pre-training by replaced pieces, and by pairs, measures."""
NAMES = {name.removesuffix(DEPTH) for metrics in METRICS.values() for name in metrics} | DETECTION


def read_changed(tmp_path: Path, old: str, new: str) -> PublishedTable:
    assert old in PUBLISHED
    path = make_published(tmp_path)
    path.write_text(PUBLISHED.replace(old, new, 1))
    return read_published(path)


def list_cells(part: PartConfig) -> set[str]:
    named = {number.cell for row in part.rows for number in row.numbers.values()}
    return {cell for cell in named | {row.cell for row in part.rows} if cell is not None}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_published_file_is_valid(path: Path) -> None:
    table = read_published(path)
    used = {row.reason for part in table.parts for row in part.rows} | {
        number.reason
        for part in table.parts
        for row in part.rows
        for number in row.numbers.values()
    }
    assert used - {None} == set(table.reasons), "a reason that nothing names"


@pytest.mark.parametrize("table", read_params(ROOT / "params.yaml").tables)
def test_each_experiment_has_its_place_in_the_published_table(table: str) -> None:
    published = read_published(ROOT / "reports" / "published" / f"{table}.yaml")
    cells = {cell for part in published.parts for cell in list_cells(part)}
    experiments = read_params(ROOT / "params.yaml").experiments
    assert {name for name, item in experiments.items() if item.table == table} <= cells
    for part in published.parts:
        columns = [metric.partition("@")[0].split(".") for metric in part.columns.values()]
        assert {names[-1] for names in columns if names[0] not in TIMES} <= NAMES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_row_of_another_tables_cells_names_cells_that_it_has(path: Path) -> None:
    for part in read_published(path).parts:
        for row in part.rows:
            if row.table is None:
                continue
            other = read_published(path.with_name(f"{row.table}.yaml"))
            cells = {cell for shown in other.parts for cell in list_cells(shown)}
            assert {item.cell for item in row.numbers.values()} | {row.cell} <= cells | {None}


def test_each_cell_of_several_tasks_says_the_task_of_each_number() -> None:
    part = read_published(ROOT / "reports" / "published" / "mtdnn.yaml").parts[0]
    rows = {row.name: row for row in part.rows}
    small = {"CoLA": "cola", "SST-2": "sst2", "MRPC F1": "mrpc", "STS-B Pearson": "stsb"}
    tasks = small | {"RTE": "rte", "MNLI": "mnli", "QNLI": "qnli", "QQP": "qqp"}
    for name, cell in (("MiniLM+MTL", "mtl_minilm"), ("MiniLM+MTL+AdvTrain", "mtl_minilm_adv")):
        numbers = rows[name].numbers
        assert {column: number.task for column, number in numbers.items()} == tasks
        assert rows[name].cell == cell
    # three cells of the plain names are teachers, trained differently
    plain = dict.fromkeys(tasks.values(), "") | dict.fromkeys(["sst2", "mrpc", "rte"], "_last")
    adversarial = dict.fromkeys(tasks.values(), "_adv")
    for name, suffixes in (("MiniLM", plain), ("MiniLM+AdvTrain", adversarial)):
        cells = {column: number.cell for column, number in rows[name].numbers.items()}
        assert cells == {column: f"{task}_minilm{suffixes[task]}" for column, task in tasks.items()}


def test_wikiqa_prints_the_numbers_of_the_paper() -> None:
    part = read_published(ROOT / "reports" / "published" / "wikiqa.yaml").parts[0]
    numbers = {row.name: row.numbers["AUC"].value for row in part.rows}
    assert numbers == {
        "CNN": 74.79,
        "BiLSTM": 76.73,
        "BiLSTM+Attn": 75.48,
        "BiLSTM+MatchAttn": 78.54,
        "CNN of Yang et al.": 73.59,
        "CNN-Cnt of Yang et al.": 75.33,
    }


def test_conll2003_has_all_twelve_cells() -> None:
    part = read_published(ROOT / "reports" / "published" / "conll2003.yaml").parts[0]
    chars = {"no characters": "", "character LSTM": "clstm_", "character CNN": "ccnn_"}
    found = {
        (row.name, column): number.cell
        for row in part.rows
        for column, number in row.numbers.items()
    }
    assert found == {
        (row, column): prefix + column.lower().replace("+", "_")
        for row, prefix in chars.items()
        for column in ("WLSTM+CRF", "WLSTM", "WCNN+CRF", "WCNN")
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "paper: first\n    columns",
            "paper: firsts\n    columns",
            "unknown paper 'firsts'. Did you mean 'first'",
        ),
        ("reason: time", "reason: tme", "unknown reason 'tme'. Did you mean 'time'"),
        ("        reason: time\n", "", "found not_run without a reason"),
        ("AUC: {value: 91.0", "AUV: {value: 91.0", "unknown column 'AUV'. Did you mean 'AUC'"),
        ("name: Delta", "name: Alpha", "found 'Alpha' twice"),
        ("{value: 92.0}", "{value: 92.0, claim: trend}", "expected 'against' with the claim trend"),
        (
            "{value: 92.0}",
            "{value: 92.0, claim: trend, against: Alphas}",
            "unknown row 'Alphas'. Did you mean 'Alpha'",
        ),
        ("paper: first\n    columns", "columns", "found a number without a paper"),
        ("test.auc", "auc", "should match pattern"),
        ("claim: not_run", "claim: notrun", "Did you mean 'not_run'"),
        ("decimals: 1", "decimal: 1", "unknown key. Did you mean 'decimals'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_changed(tmp_path, old, new)


def test_the_trial_table_is_what_it_says(tmp_path: Path) -> None:
    table = read_published(make_published(tmp_path))
    assert table.title == yaml.safe_load(PUBLISHED)["title"]
    assert table.parts[0].rows[0].numbers["AUC"].literature[0].sd == 0.25


def test_two_parts_have_two_titles(tmp_path: Path) -> None:
    values = yaml.safe_load((ROOT / "reports/published/sample.yaml").read_text())
    values["parts"].append(values["parts"][0])
    path = tmp_path / "sample.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=r"parts: found the title '.*' twice; rename one"):
        read_published(path)
