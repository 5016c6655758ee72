"""Write the bundles of a cell of the grid, and what they and the trained model predict."""

from pathlib import Path

from nlp_core.config.base import CELL, name_folder, name_predictions, read_mapping
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import EAGER
from nlp_core.export.bundle import export_model
from nlp_core.export.card import README
from nlp_core.export.parity import EXACT
from nlp_core.export.real_examples import read_examples
from nlp_core.files import replacing_folder, write_json
from nlp_core.metrics import HONEST
from nlp_core.prediction.split_prediction import write_predictions
from nlp_core.prediction.trained_model import TrainedModel


def export_cell(name: str, config: ExportConfig) -> Path:
    """Write an export of the grid: a bundle for each variant, all of them or none, and cell.json.

    Where a metric is measured, the predictions that it is measured by are written too.

    Raises:
        ConfigError: the model, or a variant, cannot be exported.
        ExportError: an exported model predicts something else.
    """
    trained = TrainedModel.open(config.cell, seed=config.seed, task=config.task)
    examples = read_examples(trained)
    target, bundles = Path(name_folder(config.table, name)), {}
    with replacing_folder(target) as folder:
        for variant in config.variants:
            max_drop = None if variant in EXACT else config.max_drop
            bundle = folder / variant
            parity = export_model(trained, examples, bundle, variant=variant, max_drop=max_drop)
            # the size of what a runtime needs; the card is for people
            size = sum(path.stat().st_size for path in bundle.iterdir() if path.name != README)
            bundles[variant] = {**parity.describe(), "bytes": size}
            for way, found in zip((EAGER, variant), parity.predictions or (), strict=False):
                path = folder / name_predictions(way)
                write_predictions(path, trained.task, {HONEST: [found]})
        note = read_mapping(Path(config.cell) / CELL)
        runs = {key: run for key, run in note["runs"].items() if key == str(config.seed)}
        own = {"table": config.table, "cell": name, "seeds": [config.seed], "runs": runs}
        write_json(folder / CELL, {**note, **own, "bundles": bundles}, exact=True)
    return target
