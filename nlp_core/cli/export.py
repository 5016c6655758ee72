"""`reglue export`: write a trained model as a bundle that predicts without torch.

Write a bundle: an ONNX graph with its vocabulary. The bundle is checked against the trained model
on real examples.

Examples:
    reglue export artifacts/reviews --data later.tsv --to bundles/reviews
    reglue export artifacts/cells/slu/atis_joint_bilstm --to bundles/atis --variant int8
"""

import argparse
from pathlib import Path
from typing import get_args

from nlp_core.cli.output import print_json, show_log
from nlp_core.cli.trained_argument import add_trained
from nlp_core.config.params import Variant
from nlp_core.data.archive import open_data
from nlp_core.export.bundle import export_model
from nlp_core.export.real_examples import read_examples
from nlp_core.prediction.trained_model import TrainedModel

GROUP = "export and serve"
PLACE = 1
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_trained(parser, "a trained cell, a seed of one, or a folder of `reglue train`")
    add("--to", type=Path, required=True, metavar="FOLDER", help="bundle to write")
    add("--force", action="store_true", help="overwrite a bundle")
    add("--variant", choices=get_args(Variant), default="float32", help="form of the bundle")
    add(
        "--max-drop",
        type=float,
        metavar="POINTS",
        help="for int8: the largest allowed drop of the task's first metric",
    )
    add("--data", type=open_data, metavar="FILE", help="examples, for a folder of `reglue train`")


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    trained = TrainedModel.open(
        options.folder, seed=options.seed, task=options.task, plugins=options.plugin
    )
    parity = export_model(
        trained,
        read_examples(trained, options.data),
        options.to,
        variant=options.variant,
        max_drop=options.max_drop,
        force=options.force,
    )
    if options.json:
        print_json(parity)
        return
    line = (
        f"{options.to}: {options.variant}, the same label for {parity.same_labels} of "
        f"{parity.examples} examples, scores within {parity.max_difference:.1g}"
    )
    if parity.metric is not None:
        line += f", {parity.metric} {parity.exported:.2f} after {parity.trained:.2f}"
    print(line)
