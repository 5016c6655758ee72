"""The stages that make what a cell reads: tasks, groups of tasks and of cells, a start."""

from pathlib import Path

import pytest

from nlp_core.config.params import read_params
from nlp_core.report.cell import Place
from nlp_core.report.missing_stages import list_missing_stages


@pytest.mark.parametrize(
    ("place", "stages"),
    [
        (
            Place("ablations", "ablation_mtl_uniform", 1),
            ["gather@mrpc_rte_mrpc", "gather@mrpc_rte_rte", "preprocess@glove"],
        ),
        (
            Place("distillation", "glue_small_student_distilled", 1),
            [
                "gather@glue_small_taught_sst2_taught",
                "gather@glue_small_taught_rte_taught",
                "gather@glue_small_taught_mrpc_taught",
                "preprocess@glove",
            ],
        ),
        (Place("wikiqa", "cnn_bag", 1), ["preprocess@wikiqa", "finetune@cnn_resampled"]),
        (
            Place("glue", "sst2_models", 1),
            [
                "preprocess@sst2",
                "gather@sst2_models_sst2_bilstm",
                "gather@sst2_models_sst2_bilstm_attn",
            ],
        ),
        (Place("mtdnn", "rte_minilm", 1), ["preprocess@rte", "preprocess@minilm"]),
    ],
)
def test_stages_of_missing_data_and_members_are_named(
    tmp_path: Path, place: Place, stages: list[str]
) -> None:
    params = read_params(Path(__file__).resolve().parent.parent / "params.yaml")
    assert list_missing_stages([place], params, tmp_path) == stages
    for name in stages:
        stage, _, key = name.partition("@")
        path = f"artifacts/cells/{place.table}" if stage == "finetune" else "data/processed"
        folder = tmp_path / path / key
        if stage == "gather":
            folder = tmp_path / params.groups[key].copy_folder
        folder.mkdir(parents=True)
        (folder / ("cell.json" if "artifacts" in str(folder) else "manifest.json")).touch()
    assert list_missing_stages([place], params, tmp_path) == []
