"""`reglue export`: write a trained model as a bundle that predicts without torch.

Write a bundle: an ONNX graph with its vocabulary. The bundle is checked against the trained model
on real examples. With --layer the bundle gives vectors, for example those of a retrieval model.

Examples:
    reglue export artifacts/reviews --data later.tsv --to bundles/reviews
    reglue export data/processed/minilm --layer mean --data texts.txt --to bundles/minilm
"""

import argparse
from pathlib import Path
from typing import get_args

from nlp_core.cli.encoder_argument import open_encoder
from nlp_core.cli.output import print_json, show_log
from nlp_core.cli.trained_argument import add_trained
from nlp_core.config.export import Variant
from nlp_core.data.archive import open_data
from nlp_core.data.task import Split
from nlp_core.errors import UsageError
from nlp_core.export.bundle import export_model
from nlp_core.export.layer import cut_layer
from nlp_core.export.real_examples import read_examples
from nlp_core.export.unlabelled_examples import read_unlabelled
from nlp_core.prediction.file_embedding import POOLS
from nlp_core.prediction.trained_folder import is_trained
from nlp_core.prediction.trained_model import TrainedModel

GROUP = "export and serve"
PLACE = 1
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_trained(
        parser,
        "a trained cell, a seed of one, a folder of `reglue train`, or with --layer a pretrained "
        "encoder (a folder or a name on the Hugging Face hub)",
    )
    add("--to", type=Path, required=True, metavar="FOLDER", help="bundle to write")
    add("--force", action="store_true", help="overwrite a bundle")
    add("--variant", choices=get_args(Variant), default="float32", help="form of the bundle")
    add(
        "--max-drop",
        type=float,
        metavar="POINTS",
        help="for int8: the largest allowed drop of the task's first metric, or with --layer of "
        "100 times the mean cosine with the model's vectors",
    )
    add("--data", type=open_data, metavar="FILE", help="examples, for a folder of `reglue train`")
    add(
        "--layer",
        help="write a bundle that gives this layer's vector of a text (default: predict with the "
        f"whole model). Of a pretrained encoder: {', '.join(POOLS)}",
    )


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    trained, examples = _read(options)
    parity = export_model(
        trained,
        examples,
        options.to,
        variant=options.variant,
        max_drop=options.max_drop,
        force=options.force,
    )
    if options.json:
        print_json({key: item for key, item in parity._asdict().items() if key != "predictions"})
        return
    if options.layer is not None and parity.exported is not None:
        print(
            f"{options.to}: {options.variant}, a mean cosine of {parity.exported:.2f} % with the "
            f"trained model's vectors over {parity.examples} examples"
        )
        return
    answer = "label" if options.layer is None else "vector"
    line = (
        f"{options.to}: {options.variant}, the same {answer} for {parity.same_labels} of "
        f"{parity.examples} examples, scores within {parity.max_difference:.1g}"
    )
    if parity.metric is not None:
        line += f", {parity.metric} {parity.exported:.2f} after {parity.trained:.2f}"
    print(line)


def _read(options: argparse.Namespace) -> tuple[TrainedModel, Split]:
    """Return the model to export and the examples that check it."""
    if options.layer is not None and not is_trained(options.folder):
        if options.data is None:
            raise UsageError(
                "--data: found none, expected a file of texts, which check the bundle."
            )
        encoder = open_encoder(options)
        return cut_layer(encoder, options.layer), read_unlabelled(encoder, options.data)
    trained = TrainedModel.open(
        options.folder, seed=options.seed, task=options.task, plugins=options.plugin
    )
    if options.layer is None:
        return trained, read_examples(trained, options.data)
    return cut_layer(trained, options.layer), read_unlabelled(trained, options.data)
