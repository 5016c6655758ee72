"""A bundle: a list of examples in, a list of predictions out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from reglue_runtime.decoding import Prediction, build_decoding
from reglue_runtime.error import BundleError
from reglue_runtime.example import Example, Given, Reader
from reglue_runtime.featurizing import Arrays, BundleFeaturizer
from reglue_runtime.manifest import PROGRAM, Manifest, read_manifest

BATCH = 32
"""Examples that are predicted at once; `predict` sorts by length, so that little is padding."""
AREA = 10_000**2
"""Examples that are predicted at once, times the square of the characters of the longest. A graph
may need memory for each pair of tokens, and for each word as much as for the longest one; no batch
needs more of that than one text of 10,000 characters does alone."""


class Graph(Protocol):
    """What runs a graph."""

    def run(self, arrays: Arrays) -> Arrays:
        """Return the graph's outputs by name."""


class Bundle:
    """An exported model, ready to predict. See `load`.

    Args:
        folder: the bundle.
        manifest: what it says.
        graph: what runs the graph.
    """

    def __init__(self, folder: Path, manifest: Manifest, graph: Graph) -> None:
        self.manifest = manifest
        self._reader = Reader(manifest)
        self._featurizer = BundleFeaturizer(manifest, folder)
        self._graph = graph
        self._decodings = {
            note["output"]: build_decoding(note, manifest.tokenizer, folder)
            for note in manifest.heads
        }

    @property
    def kind(self) -> str:
        """What is predicted: classification, regression, tagging ..."""
        return self.manifest.kind

    def labels(self, target: str | None = None) -> list[str]:
        """Return the labels of a target (label, labels, tags); of the first one without a name."""
        heads = [note for note in self.manifest.heads if target in (None, note["target"])]
        return list(heads[0]["labels"])

    def predict(self, examples: Sequence[Given], *, batch_size: int = BATCH) -> list[Prediction]:
        """Predict a list of examples; each gets what it would get alone.

        Args:
            examples: texts, lists of tokens, pairs of these, or dictionaries with columns.
            batch_size: examples that are predicted at once; of long ones, fewer are.

        Returns:
            For each example, by kind: `label`, `confidence` and `scores` by label; `labels` of
            several; `score` of a number; `tokens`, `tags`, `confidence` and `entities` of tags; of
            intents and slots all of the first and, as `slots`, all of the last; `answer` of a
            question.

        Raises:
            BundleError: the examples are no list, or one is not what the model reads: an
                ExampleError, which names it.
        """
        if isinstance(examples, str):
            raise BundleError("examples: found a text, expected a list of them: [text].")
        read = [self._reader.read(given, place) for place, given in enumerate(examples)]
        found: list[Prediction] = [{}] * len(read)
        for batch in _split(read, batch_size):
            scores = self._graph.run(self._featurizer.read(batch))
            for example, prediction in zip(batch, self.decode(scores, batch), strict=True):
                found[example.place] = prediction
        return found

    def featurize(self, examples: Sequence[Given]) -> tuple[list[Example], Arrays]:
        """Return the examples as they are read, and the graph's inputs of all of them."""
        read = [self._reader.read(given, place) for place, given in enumerate(examples)]
        return read, self._featurizer.read(read)

    def run(self, arrays: Arrays) -> Arrays:
        """Return the graph's outputs by name."""
        return self._graph.run(arrays)

    def decode(self, scores: Arrays, examples: Sequence[Example]) -> list[Prediction]:
        """Return what the graph's outputs say of the examples."""
        first, *others = (
            decoding(scores[name], examples) for name, decoding in self._decodings.items()
        )
        if others:
            return [{**item, "slots": tags} for item, tags in zip(first, others[0], strict=True)]
        return first


def _split(examples: Sequence[Example], batch_size: int) -> Iterator[list[Example]]:
    """Yield the examples in parts, the shortest first."""
    part: list[Example] = []
    longest = 0
    for example in sorted(examples, key=_count_tokens):
        length = max(longest, _count_characters(example))
        if part and (len(part) == batch_size or (len(part) + 1) * length**2 > AREA):
            yield part
            part, length = [], _count_characters(example)
        part.append(example)
        longest = length
    if part:
        yield part


def _count_tokens(example: Example) -> int:
    return sum(map(len, example.tokens.values()))


def _count_characters(example: Example) -> int:
    """Return the characters of the tokens, each with what stands between it and the next."""
    return sum(len(word) + 1 for words in example.tokens.values() for word in words)


def load(folder: Path | str, *, num_threads: int = 1) -> Bundle:
    """Read a bundle that `reglue export` wrote.

    Args:
        folder: the bundle.
        num_threads: threads of one call.

    Raises:
        BundleError: the folder holds no bundle, not a whole one, or a program of torch.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest.variant == PROGRAM:
        raise BundleError(
            f"{folder}: found a program, which torch runs and this runtime does not; export the "
            "model as float32 or int8."
        )
    # Imported here: training reads texts with this package, and needs no graph.
    from reglue_runtime.session import Session

    return Bundle(folder, manifest, Session(folder / manifest.graph, num_threads=num_threads))
