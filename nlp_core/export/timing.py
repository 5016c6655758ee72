"""Time the bundles of a cell together with the trained model."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from nlp_core.config.base import name_folder
from nlp_core.config.column import NUMBERS, SYMBOLS, TOKEN_NUMBERS, TOKEN_VECTORS
from nlp_core.config.params import EAGER, TEACHER, Params
from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.tokenization import TOKENIZERS
from nlp_core.errors import DataError, UsageError
from nlp_core.export.latency import TimedModel, Timing, describe_hardware, time_models
from nlp_core.export.parity import Answers, name_scores
from nlp_core.export.program import load_any
from nlp_core.export.real_examples import list_examples, read_examples
from nlp_core.kinds import SENTENCES
from nlp_core.models.batch import Batch, EncodedSplit
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import BundleError

COMPILED = "compiled"
FLOAT32 = "float32"


class TimedTorchModel:
    """A trained model as training runs it, or compiled by torch.

    Raises:
        UsageError: its answers are spans of a passage or ranks, which are looked up in a file.
    """

    def __init__(self, trained: TrainedModel, *, compiled: bool) -> None:
        kind = trained.task.kind
        if kind.has_passages or kind.is_searched:
            raise UsageError(
                f"--against: found a model of kind {kind}, which cannot be timed in torch."
            )
        self._trained = trained
        self._tokenize = TOKENIZERS.get(trained.tokenizer)
        self._model: Any = trained.model.eval()  # Any: what torch.compile returns
        if compiled:
            self._model = torch.compile(self._model, dynamic=True)

    def featurize(self, examples: Sequence[Mapping[str, Any]]) -> tuple[EncodedSplit, Batch]:
        encoded = self._trained.featurizer.encode(self._build_split(examples))
        return encoded, encoded.batch(np.arange(len(examples)))

    @torch.no_grad()
    def answer(self, read: tuple[EncodedSplit, Batch]) -> list[Answers]:
        encoded, batch = read
        return name_scores(self._trained, self._model(batch), encoded, batch.rows)

    def _build_split(self, examples: Sequence[Mapping[str, Any]]) -> Split:
        texts, numbers = {}, {}
        for name in self._trained.texts:
            key = name.replace("text", "tokens")
            given = [example.get(key) or self._tokenize(example[name]) for example in examples]
            if name == SENTENCES:
                sizes = [[*map(len, sentences)] for sentences in given]
                numbers[name] = NumberColumn.build(name, sizes)
                key, given = "tokens", [[*chain.from_iterable(item)] for item in given]
            texts[key] = TextColumn.join([words[: self._trained.max_tokens] for words in given])
        for name in examples[0]:
            column = [example[name] for example in examples]
            if name.startswith(SYMBOLS):
                texts[name] = TextColumn.join(column)
            elif name.startswith((NUMBERS, TOKEN_NUMBERS, TOKEN_VECTORS)):
                numbers[name] = NumberColumn.build(name, column)
        raw = None
        if self._trained.texts[0] in examples[0]:
            given = [[example[name] for example in examples] for name in self._trained.texts]
            raw = RawText(given[0], given[1] if len(given) > 1 else None)
        size = len(examples)
        targets = {name: [None] * size for name in self._trained.featurizer.targets}
        return Split("timed", np.arange(size), texts, targets, None, numbers, None, raw)


def build_timed_models(
    trained: TrainedModel, *, threads: int, compiled: bool
) -> dict[str, TimedModel]:
    """Return a trained model, eager and perhaps compiled, and set torch's number of threads."""
    torch.set_num_threads(threads)
    models: dict[str, TimedModel] = {EAGER: TimedTorchModel(trained, compiled=False)}
    if compiled:
        models[COMPILED] = TimedTorchModel(trained, compiled=True)
    return models


def list_all_examples(trained: TrainedModel, file: Path | None = None) -> Sequence[Any]:
    """Return the examples of `read_examples` as a bundle reads them."""
    examples = read_examples(trained, file)
    return list_examples(trained, examples, np.arange(len(examples)))


class TimedExport(NamedTuple):
    """The times of an export: on what hardware, and the metrics of `measure_ways`."""

    hardware: str
    metrics: dict[str, dict[str, list[float]]]


def time_export(name: str, params: Params, root: Path) -> TimedExport:
    """Time the trained model of an export of the grid, its bundles and its teacher's bundle.

    Raises:
        DataError: the cell is not trained, or a bundle is incomplete.
    """
    export = params.exports[name]
    config, folder = params.timing[export.table], root / name_folder(export.table, name)
    trained = TrainedModel.open(root / export.cell, seed=export.seed, task=export.task)
    models = build_timed_models(trained, threads=config.threads, compiled=config.compiled)
    bundles: dict[str, Path] = {variant: folder / variant for variant in export.variants}
    if export.teacher is not None:
        bundles[TEACHER] = folder.with_name(export.teacher) / FLOAT32
    for way, path in bundles.items():
        try:
            models[way] = load_any(path, num_threads=config.threads)
        except BundleError as err:
            raise DataError(str(err)) from err
    examples = list_all_examples(trained)
    runs = [time_models(models, examples, config, seed=run) for run in range(1, config.runs + 1)]
    return TimedExport(describe_hardware(config.threads), measure_ways(runs))


def measure_ways(runs: Sequence[Sequence[Timing]]) -> dict[str, dict[str, list[float]]]:
    """Return the metrics of each way of running a model, over the runs.

    `ratio` compares it with the eager model, `gain` with the float32 bundle and `lead` with the
    teacher's float32 bundle, all within a run; above 1 it is faster.

    Args:
        runs: the times of each way, for each run.
    """
    found = {}
    for timing in runs[0]:
        if timing.name != TEACHER:
            values = [_measure_run(timing.name, {item.name: item for item in run}) for run in runs]
            found[timing.name] = {key: [run[key] for run in values] for key in values[0]}
    return found


def _measure_run(way: str, timings: Mapping[str, Timing]) -> dict[str, float]:
    own, eager = timings[way], timings[EAGER]
    exact, teacher = timings.get(FLOAT32), timings.get(TEACHER)
    values = {f"latency.p{rank}": ms for rank, ms in own.model.items()}
    values |= {f"latency.whole_p{rank}": ms for rank, ms in own.whole.items()}
    values |= {"speed.per_second": own.model_rate, "speed.whole_per_second": own.whole_rate}
    values |= {f"ratio.p{rank}": eager.model[rank] / ms for rank, ms in own.model.items()}
    values["ratio.per_second"] = own.model_rate / eager.model_rate
    if exact is not None:
        values["gain.per_second"] = own.model_rate / exact.model_rate
    if teacher is not None:
        values["lead.per_second"] = own.model_rate / teacher.model_rate
        values |= {f"lead.p{rank}": teacher.model[rank] / ms for rank, ms in own.model.items()}
    return values
