"""Export a trained model as a bundle, a folder that predicts without the training code.

The folder appears complete, and only if the exported model predicts what the trained one does.
"""

import logging
from pathlib import Path

from nlp_core.config.export import Variant
from nlp_core.data.task import Split
from nlp_core.errors import UsageError
from nlp_core.export.card import README, format_card
from nlp_core.export.graph import build_graph, quantize
from nlp_core.export.inputs import plan_inputs
from nlp_core.export.layer import LayerModel, compare_vectors
from nlp_core.export.manifest import check_heads, write_manifest
from nlp_core.export.parity import EXACT, Parity, compare, measure_trained
from nlp_core.export.program import FILE, load_any, write_program
from nlp_core.export.written import build_decoder_graphs
from nlp_core.files import check_replaceable, replacing_folder, write_json, write_text
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime.manifest import MANIFEST, PROGRAM

log = logging.getLogger(__name__)

GRAPH = "model.onnx"
PARITY = "parity.json"


def export_model(
    trained: TrainedModel,
    examples: Split,
    target: Path,
    *,
    variant: Variant,
    max_drop: float | None = None,
    force: bool = False,
) -> Parity:
    """Write a bundle, and return how it compares with the trained model.

    `max_drop`: by how much the task's first metric may be worse than the trained model's, in its
    units; of a `LayerModel`, by how much 100 times the mean cosine may be below 100; required for
    int8.

    Raises:
        ConfigError: the model or the variant cannot be exported, or the folder exists.
        ExportError: the exported model predicts something else.
    """
    check_replaceable(target, marker=MANIFEST, name="bundle", option="--to", force=force)
    _check_drop(variant, max_drop)
    check_heads(trained)
    inputs = plan_inputs(trained.featurizer)
    with replacing_folder(target) as folder:
        for name, text in inputs.files.items():
            write_text(folder / name, text)
        if variant == PROGRAM:
            write_program(trained.model.scored, inputs, folder)
        else:
            graph = build_graph(trained.model.scored, inputs)
            (folder / GRAPH).write_bytes(quantize(graph) if variant == "int8" else graph)
        for file, graph in build_decoder_graphs(trained.model.scored).items():
            (folder / file).write_bytes(quantize(graph) if variant == "int8" else graph)
        name = FILE if variant == PROGRAM else GRAPH
        write_manifest(folder, trained, inputs, variant=variant, graph=name)
        if isinstance(trained, LayerModel):
            parity, scores = compare_vectors(trained, examples, load_any(folder), max_drop), {}
        else:
            parity = compare(trained, examples, load_any(folder), max_drop)
            scores = measure_trained(trained, examples)
        write_json(folder / PARITY, parity.describe())
        card = format_card(trained, variant, parity=parity, scores=scores, max_drop=max_drop)
        write_text(folder / README, card)
    log.info("export done folder=%s %s", target, parity.describe())
    return parity


def _check_drop(variant: Variant, max_drop: float | None) -> None:
    if (variant in EXACT) != (max_drop is None):
        found = "none" if max_drop is None else f"{max_drop:g}"
        expected = "none, since it predicts the same as the trained model"
        if variant not in EXACT:
            expected = (
                "by how much the task's first metric, or with --layer 100 times the mean cosine of "
                "the vectors, may be worse, such as 0.3"
            )
        raise UsageError(f"--max-drop: found {found} with {variant}, expected {expected}.")
    if max_drop is not None and not max_drop >= 0:  # nor a nan
        raise UsageError(f"--max-drop: found {max_drop:g}, expected 0 or more.")
