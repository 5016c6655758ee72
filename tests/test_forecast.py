"""`reglue plan`: which stages would run and why, for how long, and what they download."""

import json
from pathlib import Path

import pytest

from nlp_core import dag
from nlp_core.cli import main
from nlp_core.cli.plan import format_time
from nlp_core.config.base import parse_config
from nlp_core.config.dataset import DatasetConfig
from nlp_core.config.params import read_params
from nlp_core.data.source import Available, Places, find_available
from nlp_core.errors import ConfigError
from nlp_core.report.cost import Costs, RunNote
from nlp_core.report.forecast import (
    Duration,
    Forecast,
    PlannedStage,
    estimate_cell,
    forecast,
    select_needed,
    simulate,
)
from tests.fabricated import make_project
from tests.workflow_project import Project, copy_workflow, make_stub_project

SECONDS = {"finetune@large_one": 60.0, "finetune@large_two": 40.0}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_stub_project(tmp_path_factory.mktemp("stub"))


def plan_large(root: Path, cores: int = 2) -> Forecast:
    return forecast(
        select_needed(dag.load_stages(root), "report@large"),
        dag.find_stale(root),
        estimate=lambda name: Duration(SECONDS.get(name), "recorded"),
        locate=lambda name: [Available(name, "official address", "https://x", 5)],
        cores=cores,
    )


def test_everything_of_a_table_that_was_never_built_would_run(project: Project) -> None:
    plan = plan_large(project.root)
    assert [stage.name for stage in plan.stages] == [
        "preprocess@words",
        "preprocess@vectors",
        "finetune@large_one",
        "finetune@large_two",
        "evaluate@large",
        "report@large",
    ]
    assert plan.num_current == 0
    assert plan.stages[2].after == ("preprocess@words", "preprocess@vectors")
    assert (plan.seconds, plan_large(project.root, cores=1).seconds) == (60.0, 100.0)
    assert plan.download_bytes == 10
    assert plan.unknown == []


@pytest.mark.slow
def test_a_changed_recipe_is_named_and_what_follows_it_waits(tmp_path: Path) -> None:
    project = make_stub_project(tmp_path)
    project.build("dvc", "repro")
    assert plan_large(tmp_path).stages == []
    assert plan_large(tmp_path).num_current == 6
    project.set_recipe("slow", lr=0.5)
    stages = {stage.name: stage for stage in plan_large(tmp_path).stages}
    assert [*stages] == ["finetune@large_two", "evaluate@large", "report@large"]
    assert stages["finetune@large_two"].reasons == ("grid/large.yaml: recipes.slow changed",)
    assert stages["report@large"].after == ("evaluate@large",)


def make_stage(name: str, seconds: float | None, *after: str) -> PlannedStage:
    return PlannedStage(name, (), Duration(seconds, "recorded"), after)


def test_a_table_that_dvc_does_not_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"dvc\.yaml: found no stage 'report@new'"):
        select_needed([], "report@new")


def test_ready_stages_start_the_longest_first() -> None:
    stages = [make_stage(name, seconds) for name, seconds in {"a": 1, "b": 2, "c": 3}.items()]
    stages.append(make_stage("last", 4, "a", "c"))
    # two cores: c until 3, b until 2 and then a until 3, last until 7
    assert simulate(stages, 2) == 7.0
    assert simulate(stages, 1) == 10.0
    assert simulate([], 2) == 0.0
    assert simulate([make_stage("a", None)], 2) == 0.0


def test_a_cell_without_a_record_is_estimated_from_cells_on_its_data(tmp_path: Path) -> None:
    params = read_params(make_project(tmp_path) / "params.yaml")
    alike = params.experiments["alpha"].model_copy(update={"seeds": [1, 2, 3, 4]})
    experiments = {**params.experiments, "omega": alike}
    params = params.model_copy(update={"experiments": experiments})
    runs = {"1": RunNote(seconds=10.0), "2": RunNote(seconds=20.0)}
    costs = Costs(table="trial", cells={"alpha": runs})
    assert estimate_cell("alpha", params, costs) == (30.0, "recorded")
    assert estimate_cell("omega", params, costs) == (60.0, "similar cells")
    assert estimate_cell("beta", params, costs) == (None, "unknown")


DIGEST = "0" * 64
SOURCE = {
    "title": "Trial",
    "licence": "free",
    "citation": "none",
    "homepage": "https://example.org",
    "files": [
        {"name": "a.txt", "mirror": "far/a.txt", "sha256": [{"digest": DIGEST}]}
        | {"url": "https://example.org/a.txt", "bytes": 7},
        {"name": "b.txt", "mirror": "far/b.txt", "sha256": [{"digest": DIGEST}]},
    ],
}


def test_the_nearest_place_that_has_a_file_is_named(tmp_path: Path) -> None:
    config = parse_config(SOURCE, DatasetConfig, where="trial.yaml")

    def find(mirror: str | None = None) -> list[tuple[str, int | None]]:
        found = find_available("trial", config, Places(tmp_path, mirror))
        return [(item.origin, item.num_bytes) for item in found]

    assert find() == [("official address", 7), ("nowhere", None)]
    assert find("https://mirror.example.org") == [("official address", 7), ("mirror", None)]
    mirror = tmp_path / "mirror" / "far"
    mirror.mkdir(parents=True)
    (mirror / "b.txt").write_text("four")
    assert find(str(tmp_path / "mirror")) == [("mirror", 4), ("official address", 7)]
    dropped = tmp_path / "local" / "trial"
    dropped.mkdir(parents=True)
    (dropped / "a.txt").write_text("six...")
    assert find() == [("drop folder", 6), ("nowhere", None)]
    raw = tmp_path / "raw" / "trial"
    raw.mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (raw / name).touch()
    assert find() == [("raw folder", None)]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(7.4, "7 s"), (3540.0, "59 min"), (7500.0, "2 h 05 min")]
)
def test_a_time_is_said_in_words(seconds: float, expected: str) -> None:
    assert format_time(seconds) == expected


@pytest.mark.slow
def test_the_command_plans_the_sample_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ("params.yaml", "grid", "sources", "zoo", "reports/published", "results/cost")
    copy_workflow(tmp_path, *parts)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("REGLUE_MIRROR", raising=False)
    main(["plan", "sample", "--cores", "1"])
    out = capsys.readouterr().out
    assert "sample: 9 of 9 stages would run; training takes about" in out
    assert "generator" in out
    main(["plan", "glue", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["downloads_of_unknown_size"] > 5
    assert {item["source"] for item in found["sources"]} >= {"cola", "minilm_words"}
    with pytest.raises(SystemExit):
        main(["plan", "sample", "--cores", "0"])
    assert "expected at least 1" in capsys.readouterr().err
