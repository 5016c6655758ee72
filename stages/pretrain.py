"""Pretrain an encoder of the grid on a corpus: `python -m stages.pretrain ENCODER`.

Reads data/processed/CORPUS/ and what the encoder begins with; writes
artifacts/cells/TABLE/ENCODER/.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.training.encoder_plan import read_encoder
from nlp_core.training.pretraining import pretrain_encoder
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    pretrain_encoder(read_encoder(arguments.encoder, read_params(Path("params.yaml"))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.pretrain", description=__doc__)
    parser.add_argument("encoder", help="a key of encoders in grid/")
    run_stage(main, parser)
