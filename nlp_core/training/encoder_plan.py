"""All that an encoder of the grid is made of, read and checked before any work starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.config.base import PROCESSED, check_known, read_mapping
from nlp_core.config.params import GRID, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.data.corpus import CorpusTask, read_corpus_task
from nlp_core.data.pieces import count_positions
from nlp_core.data.task import read_task
from nlp_core.encoders.folder import read_architecture
from nlp_core.errors import ConfigError
from nlp_core.files import digest_json
from nlp_core.training.determinism import describe_machine
from nlp_core.training.start import digest_init, read_init_kind


@dataclass(frozen=True)
class EncoderPlan:
    """What a pretrained encoder is made from; everything is checked.

    Attributes:
        measured_on: folder of the text that it is measured on; `text_digest` is that text's.
        init_digest: digest of what it begins with.
    """

    name: str
    config: EncoderConfig
    numerics: int
    task: CorpusTask
    measured_on: Path
    text_digest: str
    init_digest: str

    @property
    def init(self) -> Path:
        """Folder of the encoder that is trained on, or file of an architecture."""
        return Path(self.config.init)

    @property
    def where(self) -> str:
        return f"{GRID}/{self.config.table}.yaml: encoders.{self.name}"

    def read_architecture(self, num_pieces: int, padding: int) -> dict[str, Any]:
        """Return the configuration, as transformers has it, of the encoder that it begins with.

        Args:
            num_pieces: size of the tokenizer.
            padding: id of the piece that pads.

        Raises:
            ConfigError: the architecture file is wrong.
        """
        if self.config.is_from_scratch:
            return read_architecture(self.init, num_pieces, padding)
        return read_mapping(self.init / "config.json")

    def count_positions(self, architecture: Mapping[str, Any]) -> int:
        """Return how many pieces the encoder can read at most.

        Raises:
            ConfigError: the windows of a phase are longer.
        """
        positions = count_positions(architecture)
        for number, phase in enumerate(self.config.phases):
            if phase.length > positions:
                raise ConfigError(
                    f"{self.where}.phases.{number}.length: found {phase.length}, expected at most "
                    f"{positions}, the positions that the encoder has."
                )
        return positions

    @property
    def key(self) -> str:
        """Digest of what the weights depend on."""
        return digest_json(
            {
                "numerics": self.numerics,
                "config": self.config.describe(),
                "data": [self.task.digest, self.text_digest],
                "init": self.init_digest,
                "machine": describe_machine(),
            }
        )


def read_encoder(name: str, params: Params) -> EncoderPlan:
    """Read and check all that an encoder is made of, before any work starts.

    Raises:
        ConfigError: no encoder has that name, or what it names is of another kind.
        DataError: what it names is not there yet.
    """
    check_known(f"{GRID}/: encoders", "encoder", name, params.encoders, ConfigError)
    config = params.encoders[name]
    measured_on = Path(PROCESSED) / config.measured_on
    return EncoderPlan(
        name=name,
        config=config,
        numerics=params.numerics,
        task=read_corpus_task(Path(PROCESSED) / config.data),
        measured_on=measured_on,
        text_digest=read_task(measured_on).digest,
        init_digest=_digest_init(name, config),
    )


def _digest_init(name: str, config: EncoderConfig) -> str:
    init = Path(config.init)
    if config.is_from_scratch:
        return digest_json(read_mapping(init))
    found = read_init_kind(init, f"encoder '{name}'")
    if found != "encoder":
        raise ConfigError(
            f"{GRID}/{config.table}.yaml: encoders.{name}.init: found '{init}' with data of kind "
            f"{found}, expected a pretrained encoder, such as data/processed/minilm."
        )
    return digest_init(init)
