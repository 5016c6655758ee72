"""Export a trained model as a bundle, a folder that predicts without the training code.

The folder appears complete, and only if the exported model predicts what the trained one does.
"""

import logging
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.config.export import ExportConfig, Variant
from nlp_core.config.name import CELL, name_folder
from nlp_core.data.task import Split
from nlp_core.data.tokenization import describe_tokenizer
from nlp_core.errors import ConfigError
from nlp_core.export.graph import build_graph
from nlp_core.export.heads import check_heads, describe_heads
from nlp_core.export.inputs import InputPlan, plan_inputs
from nlp_core.export.parity import EXACT, Parity, compare
from nlp_core.export.program import FILE, load_any, write_program
from nlp_core.export.quantization import quantize, require_half
from nlp_core.export.real_examples import read_examples
from nlp_core.files import check_replaceable, digest_file, replacing_folder, write_json, write_text
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime.manifest import FORMAT, MANIFEST, PROGRAM

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

    `max_drop`: by how much the task's first metric may be worse than the trained model's, in points
    or in its own units; required for int8 and float16.

    Raises:
        ConfigError: the model or the variant cannot be exported, or the folder exists.
        ExportError: the exported model predicts something else.
    """
    check_replaceable(target, marker=MANIFEST, name="bundle", option="--to", force=force)
    _check_drop(variant, max_drop)
    if variant == "float16":
        require_half()
    check_heads(trained)
    inputs = plan_inputs(trained.featurizer)
    with replacing_folder(target) as folder:
        for name, text in inputs.files.items():
            write_text(folder / name, text)
        heads = describe_heads(trained, folder)
        if variant == PROGRAM:
            write_program(trained.model, inputs, folder)
        else:
            graph = build_graph(trained.model, inputs)
            (folder / GRAPH).write_bytes(quantize(graph) if variant == "int8" else graph)
        _write_manifest(folder, trained, inputs, heads, variant)
        parity = compare(trained, examples, load_any(folder), max_drop)
        write_json(folder / PARITY, parity.describe())
    log.info("export done folder=%s %s", target, parity.describe())
    return parity


def export_cell(name: str, config: ExportConfig) -> Path:
    """Write an export of the grid: a bundle for each variant, all of them or none, and cell.json.

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
            bundles[variant] = {**parity.describe(), "bytes": _count_bytes(bundle)}
        note = read_mapping(Path(config.cell) / CELL)
        runs = {key: run for key, run in note["runs"].items() if key == str(config.seed)}
        own = {"table": config.table, "cell": name, "seeds": [config.seed], "runs": runs}
        write_json(folder / CELL, {**note, **own, "bundles": bundles}, exact=True)
    return target


def _count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _check_drop(variant: Variant, max_drop: float | None) -> None:
    if (variant in EXACT) != (max_drop is None):
        found = "none" if max_drop is None else f"{max_drop:g}"
        expected = "none, since it predicts the same as the trained model"
        if variant not in EXACT:
            expected = "by how much the task's first metric may be worse, such as 0.3"
        raise ConfigError(f"--max-drop: found {found} with {variant}, expected {expected}.")


def _write_manifest(
    folder: Path,
    trained: TrainedModel,
    inputs: InputPlan,
    heads: list[dict[str, Any]],
    variant: Variant,
) -> None:
    """Write bundle.json, with the digest of every other file."""
    files = sorted(path.name for path in folder.iterdir())
    tokenizer = {
        "name": trained.tokenizer,
        "substitutions": describe_tokenizer(trained.tokenizer),
        "max_tokens": trained.max_tokens,
    }
    note = {
        "format": FORMAT,
        "kind": trained.task.kind.name,
        "variant": variant,
        "tokenizer": tokenizer,
        "texts": trained.texts,
        "inputs": inputs.notes,
        "heads": heads,
        "graph": FILE if variant == PROGRAM else GRAPH,
        "files": {name: digest_file(folder / name) for name in files},
    }
    write_json(folder / MANIFEST, note)
