"""Metrics of written texts, each against one right text.

Words are joined by spaces in both, so scores are of tokenized texts.

Source: BLEU (13a tokens, 4-grams, exponential smoothing) and chrF (6-grams of characters) are those
    of sacrebleu (Post 2018). ROUGE-L (Lin 2004) is that of rouge-score: the mean F1 over the texts,
    without stemming, of words of a-z and digits only.
"""

from typing import cast

import numpy as np

from nlp_core.metrics.base import Predictions, register


def list_texts(predictions: Predictions) -> tuple[list[str], list[str]]:
    """Return the right and the predicted texts."""
    return cast(list[str], [*predictions.target]), cast(list[str], [*predictions.prediction])


@register("bleu", "generation")
def measure_bleu(predictions: Predictions) -> float:
    """Return the corpus BLEU."""
    from sacrebleu.metrics.bleu import BLEU

    right, found = list_texts(predictions)
    return float(BLEU().corpus_score(found, [right]).score) / 100


@register("chrf", "generation")
def measure_chrf(predictions: Predictions) -> float:
    """Return the corpus chrF2."""
    from sacrebleu.metrics.chrf import CHRF

    right, found = list_texts(predictions)
    return float(CHRF().corpus_score(found, [right]).score) / 100


@register("rouge_l", "generation")
def measure_rouge_l(predictions: Predictions) -> float:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    # without a tokenizer it logs that it takes this one
    scorer = RougeScorer(["rougeL"], tokenizer=DefaultTokenizer(use_stemmer=False))
    pairs = zip(*list_texts(predictions), strict=True)
    return float(np.mean([scorer.score(*pair)["rougeL"].fmeasure for pair in pairs]))


@register("exact_match", "generation")
def measure_exact_texts(predictions: Predictions) -> float:
    """Return the share of texts with all the right words."""
    pairs = zip(*list_texts(predictions), strict=True)
    return float(np.mean([right == found for right, found in pairs]))
