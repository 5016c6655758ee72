"""A bundle: from a list of examples to a list of predictions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from reglue_runtime.average import MemberAverage
from reglue_runtime.decoding import ABSTAINED, AUTO, Prediction, build_decoding
from reglue_runtime.example import Given, InputExample, Reader
from reglue_runtime.featurizing import build_sources
from reglue_runtime.manifest import PROGRAM, BundleError, Manifest, read_manifest
from reglue_runtime.session import Arrays, Graph, Session
from reglue_runtime.sizes import check_sizes, pad_inputs

Featurized: TypeAlias = tuple[list[InputExample], Arrays]
RANKING = "ranking"
"""The kind whose confidence is that of a candidate."""
BATCH = 32
"""Examples per batch; `predict` sorts by length to save padding."""
AREA = 10_000**2
"""Limit of a batch: examples times the square of the longest one's characters. A graph may need
memory for each pair of tokens, and pads each word to the longest; so no batch needs more than a
single text of 10,000 characters."""
CHARACTERS = 1_500
"""Limit of an encoder's batch, in characters with padding: about 340 pieces. More do not fit into
a processor's cache: int8 MiniLM reads 9,300 pieces of SQuAD's passages a second with this limit,
and 5,100 in batches of 32."""


class Bundle:
    """An exported model, ready to predict. See `load`."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        graph: Graph,
        *,
        sizes: Sequence[int] = (),
        num_threads: int = 1,
    ) -> None:
        self.manifest = manifest
        self._sizes = check_sizes(sizes)
        self._reader = Reader(manifest)
        self._sources = build_sources(manifest, folder)
        self._has_encoder = any(note["source"] == "windows" for note in manifest.inputs)
        self._graph = graph
        self._decodings = {
            note["output"]: build_decoding(note, manifest.tokenizer, folder, num_threads)
            for note in manifest.heads
        }
        self._averages = {
            note["output"]: MemberAverage(note, folder)
            for note in manifest.heads
            if "members" in note
        }

    @property
    def kind(self) -> str:
        return self.manifest.kind

    @property
    def out_of_scope(self) -> str | None:
        """The label of what is answered with too little confidence, if there is one."""
        return (self.manifest.calibration or {}).get("out_of_scope")

    def labels(self, target: str | None = None) -> list[str]:
        """Return the labels of a target (label, labels, tags); by default of the first one."""
        heads = [note for note in self.manifest.heads if target in (None, note["target"])]
        return list(heads[0]["labels"])

    def predict(
        self,
        examples: Sequence[Given],
        *,
        batch_size: int = BATCH,
        advance: Callable[[int], None] | None = None,
        abstain_below: float | Literal["auto"] | None = None,
    ) -> list[Prediction]:
        """Predict a list of examples; the order and the batches change only last bits of scores.

        An int8 bundle has one scale for all numbers of a batch, so there `batch_size=1` keeps
        examples from changing each other's scores.

        Args:
            examples: texts, lists of tokens, pairs of these, or dictionaries with columns.
            batch_size: most examples per run of the graph; fewer if they are long.
            advance: called after each run with its number of examples.
            abstain_below: see `abstain`. None: every example gets a label, unless there is one out
                of scope: `auto`.

        Returns:
            For each example, by kind: `label`, `confidence` and `scores` by label; `labels` of
            multi-label; `score` of a number; `tokens`, `tags`, `confidence` and `entities` of tags;
            of intents and slots the intent's keys and, as `slots`, those of the tags; `answer` of a
            question; `text` of a text that is written, with its `confidence`.

        Raises:
            BundleError: the examples are not a list, the model cannot read one (ExampleError), or
                it does not choose one label and cannot abstain.
        """
        if isinstance(examples, str):
            raise BundleError("examples: found a text, expected a list: [text].")
        has_least = abstain_below is not None or self.out_of_scope is not None
        least = (
            self.find_least(AUTO if abstain_below is None else abstain_below) if has_least else None
        )
        read = self._read(examples)
        found: list[Prediction] = [{}] * len(read)
        for batch in _split(read, batch_size, CHARACTERS if self._has_encoder else None):
            predictions = self.answer((batch, self._build_arrays(batch)))
            for example, prediction in zip(batch, predictions, strict=True):
                found[example.place] = prediction
            if advance is not None:
                advance(len(batch))
        return found if least is None else self.abstain(found, least)

    def abstain(self, predictions: Sequence[Prediction], least: float) -> list[Prediction]:
        """Return predictions; below the least confidence the label is that out of scope, or empty.

        Args:
            least: see `find_least`; a row that another threshold rejected gets its label again.
        """
        silent = self.out_of_scope or ABSTAINED
        return [
            {**item, "label": silent if item["confidence"] < least else _find_best(item["scores"])}
            for item in predictions
        ]

    def find_least(self, abstain_below: float | Literal["auto"]) -> float:
        """Return the least confidence of a label; `auto`: what training chose.

        Raises:
            BundleError: no head chooses a label, training chose no threshold, or the one given is
                not from 0 to 1.
        """
        if self.manifest.heads[0]["decoding"] != "choice" or self.kind == RANKING:
            raise BundleError(
                f"abstain_below: found a bundle of the kind {self.kind}, expected one that chooses "
                "a label."
            )
        if abstain_below != AUTO:
            if not isinstance(abstain_below, int | float) or not 0 <= abstain_below <= 1:
                raise BundleError(
                    f"abstain_below: found {abstain_below!r}, expected a number from 0 to 1, or "
                    f"'{AUTO}'."
                )
            return float(abstain_below)
        least = (self.manifest.calibration or {}).get("abstain_below")
        if least is None:
            raise BundleError(
                "abstain_below: found auto, but the bundle has no threshold from training; give "
                "a number from 0 to 1."
            )
        return float(least)

    def featurize(self, examples: Sequence[Given]) -> Featurized:
        read = self._read(examples)
        return read, self._build_arrays(read)

    def answer(self, featurized: Featurized) -> list[Prediction]:
        """Predict examples in one run of the graph."""
        examples, arrays = featurized
        scores = self._graph.run(arrays)
        scores = {name: value[: len(examples)] for name, value in scores.items()}
        scores |= {name: item.compute(scores, examples) for name, item in self._averages.items()}
        first, *others = (
            decoding(scores[name], examples) for name, decoding in self._decodings.items()
        )
        if others:
            return [{**item, "slots": tags} for item, tags in zip(first, others[0], strict=True)]
        return first

    def _read(self, examples: Sequence[Given]) -> list[InputExample]:
        return [self._reader.read(given, place) for place, given in enumerate(examples)]

    def _build_arrays(self, examples: Sequence[InputExample]) -> Arrays:
        arrays: Arrays = {}
        for source in self._sources:
            arrays |= source(examples)
        return pad_inputs(arrays, self.manifest.inputs, self._sizes) if self._sizes else arrays


def _find_best(scores: Mapping[str, float]) -> str:
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] > 0 else ABSTAINED  # as in the decoding


def _split(
    examples: Sequence[InputExample], batch_size: int, characters: int | None
) -> Iterator[list[InputExample]]:
    """Yield batches, the shortest examples first."""
    part: list[InputExample] = []
    longest = 0
    for example in sorted(examples, key=_count_tokens):
        length, more = max(longest, _count_characters(example)), len(part) + 1
        is_large = characters is not None and more * length > characters
        if part and (more > batch_size or more * length**2 > AREA or is_large):
            yield part
            part, length = [], _count_characters(example)
        part.append(example)
        longest = length
    if part:
        yield part


def _count_tokens(example: InputExample) -> int:
    return sum(map(len, example.tokens.values()))


def _count_characters(example: InputExample) -> int:
    """Count the characters of the tokens, and one separator for each."""
    return sum(len(word) + 1 for words in example.tokens.values() for word in words)


def load(folder: Path | str, *, num_threads: int = 1, sizes: Sequence[int] = ()) -> Bundle:
    """Read a bundle that `reglue export` wrote.

    Args:
        sizes: numbers of examples, tokens and letters to which the graph's inputs are padded, each
            to the next one, above the largest to its multiples; none: as long as the longest.

    Raises:
        BundleError: the folder holds no complete bundle, or a torch program; a size is below 1.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest.variant == PROGRAM:
        raise BundleError(
            f"{folder}: found a program, which only torch runs; export the model as float32."
        )
    session = Session(folder / manifest.graph, num_threads=num_threads)
    return Bundle(folder, manifest, session, sizes=sizes, num_threads=num_threads)
