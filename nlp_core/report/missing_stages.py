"""The stages that make what a cell reads and this project lacks: data, trained cells, a start."""

from collections.abc import Sequence
from pathlib import Path

from nlp_core.config.base import CELL, PROCESSED
from nlp_core.config.ensemble import EnsembleConfig
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.files import MANIFEST
from nlp_core.report.cell import Place
from nlp_core.training.start import name_init_stage


def list_missing_stages(places: Sequence[Place], params: Params, root: Path) -> list[str]:
    """Return the DVC stages that make missing data, members of groups and starting weights."""
    stages: dict[str, None] = {}
    for place in dict.fromkeys(places):
        item = params.list_cells(place.table, params.optional)[place.cell]
        assert not isinstance(item, ExportConfig), place
        needed = [f"{PROCESSED}/{item.data}"]
        if isinstance(item, EnsembleConfig):
            needed.append(item.cells)
        elif isinstance(item, EncoderConfig):
            needed.append(f"{PROCESSED}/{item.measured_on}")
        for folder in needed:
            stages |= {
                stage: None
                for path, stage in _find_makers(folder, params).items()
                if not any((root / path / file).exists() for file in (MANIFEST, CELL))
            }
        if not isinstance(item, EnsembleConfig) and not (root / item.init).exists():
            stages[name_init_stage(Path(item.init))] = None
    return list(stages)


def _find_makers(folder: str, params: Params) -> dict[str, str]:
    """Return the stage that makes each member of a group, or a trained cell or a task."""
    own = {key: item for key, item in params.groups.items() if item.group == folder}
    if own:
        return {item.copy_folder: f"gather@{key}" for key, item in own.items()}
    parent, _, name = folder.rpartition("/")
    if parent != PROCESSED:
        return {folder: f"finetune@{name}"}
    return {folder: f"teach@{name}" if name in params.taught else f"preprocess@{name}"}
