import json
import shutil
from pathlib import Path

import pytest

from nlp_core.cli import main

DATASETS = Path(__file__).parent.parent / "datasets"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(["data", "list", "--datasets-dir", str(DATASETS), *arguments])
    return capsys.readouterr().out


def test_data_list_shows_licence_citation_and_labels_of_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "raw" / "cola").mkdir(parents=True)
    (tmp_path / "raw" / "cola" / "manifest.json").write_text("{}")
    rows = json.loads(run(capsys, "--json", "--data-dir", str(tmp_path)))
    found = {row["name"]: row for row in rows}
    assert len(found) == len(list(DATASETS.glob("*.yaml")))
    assert all(row["licence"] and row["citation"] and row["from"] for row in rows)
    assert found["cola"]["present"] == {"raw": True, "processed": False}
    assert found["sst2"]["splits"] == {"train": 67349, "dev": 872, "test": 1821}
    assert found["sample_ner"]["from"] == ["generated"]
    labels = found["glove"]["labels_of_digests"]["glove.6B.100d.txt"]
    assert "not complete" in labels[0]


def test_data_list_shows_a_card_for_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run(capsys)
    for part in ("licence", "citation", "conll2003", "Reuters", "train 8551", "accepted"):
        assert part in text


def test_a_wrong_registry_is_one_paragraph_and_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copy(DATASETS / "cola.yaml", tmp_path / "cola.yaml")
    with (tmp_path / "cola.yaml").open("a") as file:
        file.write("licencex: x\n")
    with pytest.raises(SystemExit) as caught:
        main(["data", "list", "--datasets-dir", str(tmp_path)])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "Did you mean 'licence'" in message
    assert message.count("\n") == 1
