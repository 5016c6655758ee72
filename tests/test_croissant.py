"""`reglue data croissant`: each source in the form that data catalogues read."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.config.dataset import read_dataset, read_registry
from nlp_core.data.croissant import describe_source
from nlp_core.data.source import Places
from tests.tiny import write_task

ROOT = Path(__file__).resolve().parent.parent
SOURCES = read_registry(ROOT / "sources")


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_its_files_with_digests(name: str, tmp_path: Path) -> None:
    found = describe_source(name, SOURCES[name], Places(tmp_path), tmp_path)
    files = {item["@id"]: item for item in found["distribution"]}
    assert len(files) == len(found["distribution"])
    if name in ("ax_categories", "fever", "multiwoz", "top"):
        unknown = {"train.tsv", "train.jsonl", "diagnostic-full.tsv", "train_dialogues_001.json"}
        assert not unknown & {*files}
        assert "Not listed, since no digest is known: " in found["description"]
    else:
        assert {*SOURCES[name].member_names} <= {*files}
        assert "Not listed" not in found["description"]
    for item in files.values():
        digest = item.get("sha256") or files[item["containedIn"]["@id"]]["sha256"]
        assert len(digest) == 64
    assert found["license"] == SOURCES[name].licence
    assert found["citeAs"]
    assert found["recordSet"] == []


def test_members_of_a_pinned_archive_are_inside_it(tmp_path: Path) -> None:
    found = describe_source("rte", SOURCES["rte"], Places(tmp_path), tmp_path)
    archive, first, *_ = found["distribution"]
    assert archive["contentUrl"] == "https://dl.fbaipublicfiles.com/glue/data/RTE.zip"
    assert archive["encodingFormat"] == "application/zip"
    assert first["containedIn"] == {"@id": "RTE.zip"}


def test_a_processed_split_is_a_record_set_of_its_columns(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "tagging")
    manifest = json.loads((folder / "manifest.json").read_text())
    config = read_dataset("sample_ner", ROOT / "sources")
    found = describe_source(folder.name, config, Places(tmp_path / "data"), tmp_path / "out")
    records = {item["@id"]: item for item in found["recordSet"]}
    assert sorted(records) == sorted(manifest["splits"])
    fields: dict[str, dict[str, Any]] = {item["name"]: item for item in records["dev"]["field"]}
    assert fields["tokens"]["dataType"] == "sc:Text"
    assert fields["tokens"]["repeated"] is True
    assert fields["tokens"]["source"]["extract"] == {"column": "tokens"}
    (file,) = (item for item in found["distribution"] if item["@id"] == "dev.parquet")
    assert file["sha256"] == manifest["splits"]["dev"]["sha256"]
    assert file["contentUrl"] == f"../data/processed/{folder.name}/dev.parquet"


def test_the_command_prints_or_writes_the_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    main(["data", "croissant", "wikiqa", "--data-dir", str(tmp_path)])
    printed = json.loads(capsys.readouterr().out)
    assert printed["name"] == "wikiqa"
    output = tmp_path / "wikiqa.json"
    main(["data", "croissant", "wikiqa", "--data-dir", str(tmp_path), "-o", str(output)])
    assert json.loads(output.read_text(encoding="utf-8"))["conformsTo"] == printed["conformsTo"]
    with pytest.raises(SystemExit):
        main(["data", "croissant", "wikiqua"])
    assert "Did you mean 'wikiqa'" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("mlcroissant") is None, reason="mlcroissant is not installed")
@pytest.mark.parametrize("name", SOURCES)
def test_the_reference_library_accepts_the_description(name: str, tmp_path: Path) -> None:
    from mlcroissant import Dataset

    path = tmp_path / "source.json"
    found = describe_source(name, SOURCES[name], Places(ROOT / "data"), tmp_path)
    path.write_text(json.dumps(found))
    assert not Dataset(jsonld=str(path)).metadata.issues.errors
