"""`reglue crate`: a table as a Workflow Run RO-Crate that names each file with its digest."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from nlp_core.cli import main
from nlp_core.report.citation import read_citation
from nlp_core.report.crate import METADATA, PROFILES
from tests.user_commands import fail

ROOT = Path(__file__).resolve().parent.parent
Graph = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crates") / "sample"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        main(["crate", "sample", "-o", str(folder), "--agent", "Ada Example"])
    return folder


@pytest.fixture(scope="module")
def graph(crate: Path) -> Graph:
    content = json.loads((crate / METADATA).read_text(encoding="utf-8"))
    entities: list[dict[str, Any]] = content["@graph"]
    assert len({entity["@id"] for entity in entities}) == len(entities)
    return {entity["@id"]: entity for entity in entities}


@pytest.mark.parametrize("folder", ["sample", "reports/crate"])
def test_a_crate_is_not_written_where_dvc_looks_for_stages(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    error = fail(capsys, "crate", "sample", "-o", folder)
    assert "expected one in crates or artifacts, or outside of the project" in error
    assert "crates" in Path(".dvcignore").read_text().split()


def list_references(value: object) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in list_references(item)]
    if isinstance(value, dict):
        return [value["@id"]] if [*value] == ["@id"] else []
    return []


def test_the_crate_contains_the_files_that_it_names(crate: Path, graph: Graph) -> None:
    paths = {path.relative_to(crate).as_posix() for path in crate.rglob("*") if path.is_file()}
    named = {name for name, entity in graph.items() if "File" in entity["@type"]}
    assert named == paths - {METADATA}
    assert named == {item["@id"] for item in graph["./"]["hasPart"]}
    for name in named:
        assert graph[name]["sha256"] == hashlib.sha256((crate / name).read_bytes()).hexdigest()


def test_every_reference_is_to_an_entity_or_an_address(graph: Graph) -> None:
    for entity in graph.values():
        for key, value in entity.items():
            for name in list_references(value) if key != "@id" else []:
                assert name in graph or name.startswith("https://"), (entity["@id"], key, name)


def test_the_run_reads_the_parameters_and_writes_the_table(graph: Graph) -> None:
    root, run, workflow = graph["./"], graph["#run"], graph["Snakefile"]
    assert {item["@id"] for item in root["conformsTo"]} == {*PROFILES}
    assert root["mainEntity"] == run["instrument"] == {"@id": "Snakefile"}
    assert {"@id": "#run"} in root["mentions"]
    read = {item["@id"] for item in run["object"]}
    assert {"params.yaml", "grid/sample.yaml", "sources/sample_ner.yaml"} <= read
    assert "zoo/sample/answer_cnn.json" in read
    written = {item["@id"] for item in run["result"]}
    assert {"results/sample.json", "reports/sample.md", "reports/sample.svg"} <= written
    for item in [*workflow["input"], *workflow["output"]]:
        assert graph[item["@id"]]["@type"] == "FormalParameter"
    assert graph[run["agent"]["@id"]]["name"] == "Ada Example"


def test_each_cell_has_an_action_with_its_weights_and_cost(graph: Graph) -> None:
    results = json.loads((ROOT / "results/sample.json").read_text())["cells"]
    for name, cell in results.items():
        action = graph[f"#train-{name}"]
        assert action["instrument"] == {"@id": "stages/finetune.py"}
        assert {"@id": cell["model"]} in action["object"]
        for seed, run in cell["runs"].items():
            assert graph[f"#weights-{name}-{seed}"]["value"] == run["weights"]
        assert action["startTime"] < action["endTime"]
        assert graph[f"#coreSeconds-{name}"]["value"] > 0


def test_a_source_has_its_licence_and_the_digest_of_each_file(graph: Graph) -> None:
    source = graph["sources/sample_answer.yaml"]
    assert source["license"]
    names = {graph[item["@id"]]["name"] for item in source["additionalProperty"]}
    assert names
    assert all(len(graph[item["@id"]]["value"]) == 64 for item in source["additionalProperty"])


def test_a_crate_is_replaced_only_by_force(
    crate: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    before = (crate / METADATA).read_bytes()
    command = ["crate", "sample", "-o", str(crate), "--agent", "Ada Example"]
    with pytest.raises(SystemExit):
        main(command)
    assert "found a crate" in capsys.readouterr().err
    main([*command, "--force"])
    assert (crate / METADATA).read_bytes() == before


@pytest.mark.skipif(
    find_spec("rocrate_validator") is None,
    reason="roc-validator is not installed; it also needs the network for the JSON-LD context",
)
def test_the_crate_meets_what_its_profile_requires(crate: Path) -> None:
    from rocrate_validator import models, services

    settings = services.ValidationSettings(
        rocrate_uri=str(crate),
        profile_identifier="workflow-run-crate",
        requirement_severity=models.Severity.REQUIRED,
    )
    assert [issue.message for issue in services.validate(settings).get_issues()] == []


def test_an_author_may_have_a_number_for_a_name(tmp_path: Path) -> None:
    path = tmp_path / "CITATION.cff"
    path.write_text("authors: [{name: 42}]\nversion: 1\nlicense: MIT\n")
    assert read_citation(path).authors == "42"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", None, "CITATION.cff: version: found none"),
        ("authors", None, "CITATION.cff: authors: found none"),
        ("authors", "A. Person", "CITATION.cff: authors: expected a list"),
        ("authors", ["A. Person"], "CITATION.cff: authors: expected a list"),
        ("authors", [{"email": "a@example.org"}], "CITATION.cff: authors: expected a list"),
    ],
)
def test_a_citation_that_cannot_describe_the_crate_is_one_paragraph(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    key: str,
    value: object,
    message: str,
) -> None:
    for path in ROOT.iterdir():
        if path.name not in (".git", "CITATION.cff"):
            (tmp_path / path.name).symlink_to(path)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changed = {name: item for name, item in (citation | {key: value}).items() if item is not None}
    (tmp_path / "CITATION.cff").write_text(yaml.safe_dump(changed))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["crate", "sample", "-o", "crates/sample"])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "crates").exists()
