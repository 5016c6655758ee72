"""Trained models of one task as one model, which predicts their average.

Layers, inputs and heads of member k get the prefix `mk_`. So the ensemble is a graph like any
other: it is measured, asked and exported in the same ways.

Shape letters: B batch, T tokens, L labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from nlp_core.blocks.base import Block
from nlp_core.config.ensemble import Combination
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads.base import Head
from nlp_core.heads.parsing import ExpertHead
from nlp_core.heads.ranking import RankingHead
from nlp_core.heads.sentence import LabelScoring, MultiLabelHead, ValueScoring
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from nlp_core.models.batch import Batch
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, HeadScores, Layers
from nlp_core.models.plan import HeadPlan, LayerPlan, ModelPlan
from reglue_runtime.average import LEAST, Form, average

FORMS: Mapping[type[Head], Form] = {
    LabelScoring: "distribution",
    TaggingHead: "distribution",
    CRFTaggingHead: "distribution",
    MultiLabelHead: "flags",
    ValueScoring: "values",
    RankingHead: "values",
}
"""What the heads of each class predict, if it can be averaged."""


class MemberModel(NamedTuple):
    """A trained model of one task; `name` is for messages."""

    name: str
    model: GraphModel
    featurizer: Featurizer


class Ensemble(GraphModel):
    """The average of several models, decoded as the head of the first one.

    Members that all have random fields become one field by `logits`. Else the marginals of a field
    are averaged, so that each token gets its likeliest label. Heads that write step by step choose
    each step together, by the product of their probabilities.

    Args:
        scored: a graph of all members, with all their heads.
        plan: that graph with one head for each target.
        parts: by head of the plan those of the members.
    """

    def __init__(
        self,
        scored: GraphModel,
        plan: ModelPlan,
        parts: Mapping[str, Sequence[str]],
        combination: Combination,
    ) -> None:
        super().__init__(plan, {}, {})
        self.members = scored
        self.blocks = scored.blocks
        self.parts = parts
        self.combination = combination
        for name, own in parts.items():
            head, *others = [scored.heads[part] for part in own]
            if isinstance(head, ExpertHead):
                head = head.join(cast(list[ExpertHead], others))
            elif isinstance(head, CRFTaggingHead) and plan.heads[name].head is TaggingHead:
                head = TaggingHead(1, head.emission.out_features)
            elif isinstance(head, CRFTaggingHead):
                head = head.join(cast(list[CRFTaggingHead], others))
            self.heads[name] = head

    @property
    def scored(self) -> GraphModel:
        return self.members

    def forward(self, batch: Batch, *, informed: bool = False) -> dict[str, HeadScores]:
        layers = self.members.compute_layers(batch)
        return {name: self.score(name, layers, batch, informed) for name in self.heads}

    def score(self, name: str, layers: Layers, batch: Batch, informed: bool) -> HeadScores:
        head, parts = self.heads[name], self.parts[name]
        if isinstance(head, ExpertHead):
            inputs = [self.members.plan.heads[part].inputs[0] for part in parts]
            joined, mask = torch.cat([layers[0][key] for key in inputs], -1), layers[1][inputs[0]]
            return head(joined, mask, *head.read(batch, informed=informed)), mask
        heads = [cast(Head, self.members.heads[part]) for part in parts]
        form = find_form(type(heads[0]))
        assert form is not None, name
        found = [self.members.score(part, layers, batch, informed) for part in parts]
        if isinstance(head, CRFTaggingHead):
            return torch.stack([scores for scores, _ in found]).mean(0), found[0][1]
        items = zip(heads, found, strict=True)
        predicted = [_predict(head, *scores).detach().numpy() for head, scores in items]
        mean = average(predicted, form, self.combination)
        return torch.from_numpy(_score(mean, form)), found[0][1]


def find_form(head: type[Head]) -> Form | None:
    """Return what a head predicts, or None if it cannot be averaged."""
    return next((form for kind, form in FORMS.items() if issubclass(head, kind)), None)


def _predict(head: Head, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the probabilities of a head, or its values."""
    if isinstance(head, TaggingHead | CRFTaggingHead):
        assert mask is not None
        return head.marginals(scores, mask)
    if isinstance(head, RankingHead):
        return scores
    chances = head.decode(scores, mask).probability
    return scores if chances is None else chances


def _score(mean: np.ndarray, form: Form) -> np.ndarray:
    """Return the scores that a head decodes to these predictions."""
    if form == "values":
        return mean
    scores: np.ndarray = np.log(mean.clip(min=LEAST))
    if form == "flags":
        scores -= np.log((1 - mean).clip(min=LEAST))
    return scores


def join_members(
    members: Sequence[MemberModel], combination: Combination, *, where: str
) -> tuple[Ensemble, Featurizer]:
    """Return the ensemble of some models, and what reads the texts for all of them.

    Raises:
        ConfigError: a head predicts what cannot be averaged, or not in that way, or two members
            decode differently or cut texts differently where a head reads the pieces' texts.
        DataError: two members have other labels.
    """
    _check(members, combination, where)
    blocks: dict[str, Block] = {}
    heads: dict[str, Head] = {}
    plans = []
    featurizer = members[0].featurizer
    vocabularies: dict[str, Vocabulary] = {}
    for number, (_, model, own) in enumerate(members, 1):
        prefix = f"m{number}_"
        plans.append(_prefix(model.plan, prefix))
        blocks |= {f"{prefix}{name}": cast(Block, item) for name, item in model.blocks.items()}
        heads |= {f"{prefix}{name}": cast(Head, item) for name, item in model.heads.items()}
        vocabularies |= {f"{prefix}{name}": item for name, item in own.vocabularies.items()}
    whole = ModelPlan(
        where,
        {name: column for plan in plans for name, column in plan.inputs.items()},
        [layer for plan in plans for layer in plan.layers],
        {name: head for plan in plans for name, head in plan.heads.items()},
    )
    outer, parts = {}, {}
    for name, head in members[0].model.plan.heads.items():
        target = head.head.target
        parts[name] = [key for key, plan in whole.heads.items() if plan.head.target == target]
        outer[name] = _plan_head([whole.heads[part] for part in parts[name]], combination)
    plan = replace(whole, heads=outer)
    ensemble = Ensemble(GraphModel(whole, blocks, heads), plan, parts, combination)
    return ensemble, Featurizer(plan, vocabularies, featurizer.targets)


def _prefix(plan: ModelPlan, prefix: str) -> ModelPlan:
    """Return a plan with other names, and heads of no task."""

    def rename(names: Sequence[str]) -> list[str]:
        return [f"{prefix}{name}" for name in names]

    layers: list[LayerPlan] = [
        replace(
            layer,
            name=f"{prefix}{layer.name}",
            owner=f"{prefix}{layer.owner}",
            inputs=rename(layer.inputs),
        )
        for layer in plan.layers
    ]
    heads = {
        f"{prefix}{name}": replace(
            head, name=f"{prefix}{name}", inputs=rename(head.inputs), task=None
        )
        for name, head in plan.heads.items()
    }
    inputs = {f"{prefix}{name}": column for name, column in plan.inputs.items()}
    return ModelPlan(plan.where, inputs, layers, heads)


def _plan_head(heads: Sequence[HeadPlan], combination: Combination) -> HeadPlan:
    are_fields = [issubclass(plan.head, CRFTaggingHead) for plan in heads]
    if not are_fields[0] or (all(are_fields) and combination == "logits"):
        return heads[0]
    return replace(heads[0], head=TaggingHead, options={})


def _check(members: Sequence[MemberModel], combination: Combination, where: str) -> None:
    first = members[0]
    for member in members:
        for name, plan in member.model.plan.heads.items():
            place = f"{where}: {member.name}: head '{name}'"
            if issubclass(plan.head, ExpertHead):
                if combination != "logits":
                    raise ConfigError(
                        f"{place}: combination: found '{combination}', expected 'logits', the "
                        "product of the probabilities of each step; change it."
                    )
            elif find_form(plan.head) is None:
                raise ConfigError(
                    f"{place}: found {plan.head.__name__}, expected one that predicts labels, "
                    "tags, a number, a tree or a text; leave this member out."
                )
        if member.featurizer.targets != first.featurizer.targets:
            raise DataError(
                f"{where}: {member.name}: found the labels {member.featurizer.targets}, expected "
                f"those of {first.name}, {first.featurizer.targets}; average models of one task."
            )
        found, expected = (_describe_forms(item.model) for item in (member, first))
        if found != expected:
            raise ConfigError(
                f"{where}: {member.name}: found heads that predict {found}, expected "
                f"{expected}, as those of {first.name}; average models with heads of one sort."
            )
    _check_pieces(members, where)


def _check_pieces(members: Sequence[MemberModel], where: str) -> None:
    """Raise if the members cut texts differently and a head reads to which text a piece belongs."""
    heads = [plan.head for item in members for plan in item.model.plan.heads.values()]
    if not any(head.reads_parts for head in heads):
        return
    seen: dict[tuple[str, int, int], str] = {}
    for member in members:
        for item in member.featurizer.vocabularies.values():
            if isinstance(item, PieceVocabulary):
                seen.setdefault((item.tokenizer, item.max_length, item.stride), member.name)
    if len(seen) > 1:
        first, other, *_ = seen.values()
        raise ConfigError(
            f"{where}: {other}: found another tokenizer or max_length than that of {first}, "
            "expected the same, since a head reads to which text each piece belongs; leave "
            "this member out."
        )


def _describe_forms(model: GraphModel) -> str:
    """Return what the heads predict, with the thresholds of several labels."""
    found = []
    for head in model.heads.values():
        assert isinstance(head, Head)
        if isinstance(head, ExpertHead):
            found.append(f"{head.target} by {type(head).__name__} from {head.width} numbers")
            continue
        limit = f" from {head.threshold} on" if isinstance(head, MultiLabelHead) else ""
        found.append(f"{head.target} as {find_form(type(head))}{limit}")
    return " and ".join(sorted(found))
