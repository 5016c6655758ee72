"""`reglue embed`: write a model's or an encoder's vectors of texts.

Examples:
    reglue embed artifacts/reviews --data later.tsv -o vectors.npy
    reglue embed data/processed/minilm --data texts.txt -o vectors.jsonl --layer mean
"""

import argparse
from pathlib import Path

from nlp_core.cli.encoder_argument import open_encoder
from nlp_core.cli.output import add_set, check_output, print_json, show_log
from nlp_core.cli.trained_argument import add_trained, build_predictor, open_predictor
from nlp_core.data.archive import open_data
from nlp_core.prediction.file_embedding import FORMS, POOLS, embed_file
from nlp_core.prediction.trained_folder import is_trained

GROUP = "train on your own file"
PLACE = 7
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trained(
        parser,
        "a folder that `reglue train` wrote, a trained cell, or a pretrained encoder (a folder or "
        "a name on the Hugging Face hub)",
    )
    add = parser.add_argument
    add("--data", type=open_data, required=True, help="the data file")
    add("-o", "--output", type=Path, required=True, help=f"file to write, {' or '.join(FORMS)}")
    add(
        "--layer",
        help="layer whose output is written (default for a model: the layer below its head). "
        f"For an encoder: {', '.join(POOLS)}, or encoder for one vector per token (default: "
        f"{POOLS[0]})",
    )
    add_set(parser, "data.texts.0=COLUMN")


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    layer, folder = options.layer, options.folder
    check_output(options.output, options.data)
    if is_trained(folder):
        predictor = open_predictor(options)
    else:
        layer = layer or POOLS[0]
        predictor = build_predictor(open_encoder(options), options)
    rows, width = embed_file(predictor, options.data, options.output, layer)
    if options.json:
        print_json({"output": str(options.output), "rows": rows, "width": width})
    else:
        print(f"{options.output}: {rows} rows, {width} numbers each")
