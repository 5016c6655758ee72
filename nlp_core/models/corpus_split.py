"""A split as arrays: of examples by their columns, of documents by windows of their pieces."""

from nlp_core.data.corpus import TRAIN, DocumentSplit
from nlp_core.data.masked_text import cut_text, mask_text
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.task import Split
from nlp_core.data.window import encode_documents
from nlp_core.data.word_piece import PieceSet, read_pieces
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.features import Featurizer
from nlp_core.models.masked_split import MEASURED_WINDOWS, build_masked_split, find_input, find_rule


def encode_split(featurizer: Featurizer, split: Split) -> EncodedSplit:
    """Turn a split into arrays, by its columns or, of documents, by their windows.

    Raises:
        ConfigError: the model cannot read documents.
        DataError: a label that the task does not name; no document is as long as a window.
    """
    if not isinstance(split, DocumentSplit):
        return featurizer.encode(split)
    assert split.corpus is not None, split.name
    plan = featurizer.plan
    find_input(plan)
    pieces, length = _find_pieces(featurizer)
    documents = split.corpus.read_paragraphs(split.name)
    if split.name == TRAIN:
        text = cut_text(TRAIN, encode_documents(documents, pieces), pieces, length=length)
        return build_masked_split(plan, text, find_rule(plan))
    text = mask_text(split.name, documents, pieces, length=length)
    return build_masked_split(plan, text).thin(MEASURED_WINDOWS)


def _find_pieces(featurizer: Featurizer) -> tuple[PieceSet, int]:
    """Return the tokenizer of the encoder, and the most pieces of its windows."""
    owner = next(layer.owner for layer in featurizer.plan.raw_layers)
    vocabulary = featurizer.vocabularies[owner]
    assert isinstance(vocabulary, PieceVocabulary), type(vocabulary)
    return read_pieces(vocabulary.tokenizer, featurizer.plan.where), vocabulary.max_length
