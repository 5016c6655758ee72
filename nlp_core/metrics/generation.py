"""Metrics of written texts, each against one right text.

Words are joined by spaces in both, so scores are of tokenized texts.

Source: BLEU (13a tokens, 4-grams, exponential smoothing) and chrF (6-grams of characters) are those
    of sacrebleu (Post 2018). ROUGE-L (Lin 2004) is that of rouge-score: the mean F1 over the texts,
    without stemming, of words of a-z and digits only.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from nlp_core.metrics.base import Predictions, register


def list_texts(predictions: Predictions) -> tuple[list[str], list[str]]:
    """Return the right and the predicted texts."""
    return cast(list[str], [*predictions.target]), cast(list[str], [*predictions.prediction])


def count_bleu(predictions: Predictions) -> list[list[float]]:
    """Return for each text what corpus BLEU sums: lengths, matches and numbers of n-grams."""
    return _count("BLEU", predictions)


def combine_bleu(sums: Sequence[float]) -> float:
    """Return the corpus BLEU of sums, in points."""
    return _combine("BLEU", sums)


def count_chrf(predictions: Predictions) -> list[list[float]]:
    """Return for each text what corpus chrF sums: numbers of n-grams and of matches."""
    return _count("CHRF", predictions)


def combine_chrf(sums: Sequence[float]) -> float:
    """Return the corpus chrF2 of sums, in points."""
    return _combine("CHRF", sums)


def score_rouge(predictions: Predictions) -> list[float]:
    """Return the ROUGE-L of each text."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    # without a tokenizer it logs that it takes this one
    scorer = RougeScorer(["rougeL"], tokenizer=DefaultTokenizer(use_stemmer=False))
    pairs = zip(*list_texts(predictions), strict=True)
    return [float(scorer.score(*pair)["rougeL"].fmeasure) for pair in pairs]


@register("bleu", "generation")
def measure_bleu(predictions: Predictions) -> float:
    """Return the corpus BLEU."""
    return combine_bleu(np.sum(count_bleu(predictions), axis=0)) / 100


@register("chrf", "generation")
def measure_chrf(predictions: Predictions) -> float:
    """Return the corpus chrF2."""
    return combine_chrf(np.sum(count_chrf(predictions), axis=0)) / 100


@register("rouge_l", "generation")
def measure_rouge_l(predictions: Predictions) -> float:
    return float(np.mean(score_rouge(predictions)))


@register("exact_match", "generation")
def measure_exact_texts(predictions: Predictions) -> float:
    """Return the share of texts with all the right words."""
    pairs = zip(*list_texts(predictions), strict=True)
    return float(np.mean([right == found for right, found in pairs]))


@cache
def _load(name: str) -> Any:  # sacrebleu's types leave its sums out
    from sacrebleu import metrics

    return getattr(metrics, name)()


def _count(name: str, predictions: Predictions) -> list[list[float]]:
    right, found = list_texts(predictions)
    return [[*map(float, row)] for row in _load(name)._extract_corpus_statistics(found, [right])]


def _combine(name: str, sums: Sequence[float]) -> float:
    return float(_load(name)._compute_score_from_stats([round(item) for item in sums]).score)
