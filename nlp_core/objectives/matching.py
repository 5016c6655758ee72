"""How far the layers of a student's encoder lie from those of its teacher's.

The teacher reads each batch as the student does, in evaluation mode and without gradients, so it
draws no random number. It is part of what a student learns from, not of the student: none of its
weights is trained or saved.

Both are means over the real pieces of a window, then over the windows of the batch, then over the
mapped layers; a part of a batch counts by its windows.

Shape letters: W windows, H heads, L pieces, K pieces as keys, D width.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nlp_core.config.recipe import MatchingConfig
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.encoders.recording import Recorded
from nlp_core.errors import ConfigError
from nlp_core.models.batch import Batch
from nlp_core.models.plan import ModelPlan
from nlp_core.objectives.divergence import kl


@dataclass(frozen=True)
class Matching:
    """A teacher's encoder, in evaluation mode, and the layers that the student learns from it.

    It is not a module, so that the teacher's weights are not among those of the student.
    """

    config: MatchingConfig
    teacher: PretrainedEncoder

    def __deepcopy__(self, memo: object) -> "Matching":
        """Return itself: copies of a model share it."""
        return self

    @property
    def attention(self) -> bool:
        return bool(self.config.attention and self.config.attention_weight)

    @property
    def hidden(self) -> bool:
        return bool(self.config.hidden and self.config.hidden_weight)

    def watch(
        self, plan: ModelPlan, blocks: nn.ModuleDict
    ) -> AbstractContextManager[list[Recorded]]:
        """Record the student's encoder; see `PretrainedEncoder.record`."""
        return _find_encoder(plan, blocks, self.config.layer).record(attention=self.attention)

    def count_windows(self, batch: Batch) -> int:
        return len(batch.features[self.config.layer][2])

    def compare(self, plan: ModelPlan, batch: Batch, passes: list[Recorded]) -> Tensor:
        """Return the loss terms of the layers that `watch` recorded in a pass."""
        layers = {layer.name: layer for layer in plan.layers}
        own = layers[self.config.layer]
        sharing = [layer.name for layer in plan.layers if layer.owner == own.owner]
        student = passes[sharing.index(own.name)]
        features, mask = batch.features[own.name], batch.masks[own.inputs[0]]
        self.teacher.to(mask.device)
        with torch.no_grad(), self.teacher.record(attention=self.attention) as found:
            self.teacher(*features, mask)
        (teacher,) = found
        inside_WL = features[2]
        losses = []
        if self.hidden:
            parts = [
                compare_hidden(teacher.hidden[theirs], student.hidden[ours], inside_WL)
                for ours, theirs in self.config.hidden.items()
            ]
            losses.append(self.config.hidden_weight * torch.stack(parts).mean())
        if self.attention:
            parts = [
                compare_attention(
                    teacher.attended[theirs - 1].log_weights(inside_WL),
                    student.attended[ours - 1].log_weights(inside_WL),
                    inside_WL,
                )
                for ours, theirs in self.config.attention.items()
            ]
            losses.append(self.config.attention_weight * torch.stack(parts).mean())
        return torch.stack(losses).sum()


def compare_hidden(
    teacher_WLD: Float[Tensor, "W L D"],
    student_WLD: Float[Tensor, "W L D"],
    inside_WL: Bool[Tensor, "W L"],
) -> Float[Tensor, ""]:
    """Return the mean squared difference of the hidden states of real pieces.

    Source: Jiao et al. 2020 (TinyBERT), equation 8, without its map between two widths.
    """
    gap_WLD = (teacher_WLD.float() - student_WLD.float()).masked_fill(~inside_WL[..., None], 0.0)
    return _mean(gap_WLD.square().mean(-1), inside_WL)


def compare_attention(
    log_p_WHLK: Float[Tensor, "W H L K"],
    log_q_WHLK: Float[Tensor, "W H L K"],
    inside_WL: Bool[Tensor, "W L"],
) -> Float[Tensor, ""]:
    """Return the mean of KL(teacher || student) over the heads and the real pieces that attend.

    Args:
        log_p_WHLK: logarithms of the teacher's attention; q those of the student's.

    Source: Wang et al. 2020 (MiniLM), equation 5.
    """
    shape = log_p_WHLK.shape[:-1]
    rows_WHL = kl(log_p_WHLK.flatten(0, 2), log_q_WHLK.flatten(0, 2)).view(shape)
    return _mean(rows_WHL.masked_fill(~inside_WL[:, None], 0.0).mean(1), inside_WL)


def check_matching(plan: ModelPlan, blocks: nn.ModuleDict, matching: Matching, where: str) -> None:
    """Let two encoders record what is compared.

    Args:
        where: model file and layer of the teacher.

    Raises:
        ConfigError: a layer does not exist, widths or numbers of heads differ, or attention is
            computed in a way that cannot be recorded.
    """
    config, teacher = matching.config, matching.teacher
    student = _find_encoder(plan, blocks, config.layer)
    own = f"{plan.where}: layer '{config.layer}'"
    maps: dict[str, Mapping[int, int]] = {"hidden": config.hidden, "attention": config.attention}
    sides = ((own, student), (where, teacher))
    for name, pairs in maps.items():
        for (place, block), numbers in zip(sides, ([*pairs], [*pairs.values()]), strict=True):
            if pairs and max(numbers) > block.num_layers:
                raise ConfigError(
                    f"{place}: found {block.num_layers} transformer layers, but the recipe's "
                    f"distillation.matching.{name} names layer {max(numbers)}; expected at most "
                    f"{block.num_layers}."
                )
    if config.hidden:
        _require_equal(own, where, "hidden states of width", student.width, teacher.width)
    if config.attention:
        _require_equal(own, where, "attention heads:", student.num_heads, teacher.num_heads)
    for place, block in sides:
        if matching.attention and not block.allow_attention():
            raise ConfigError(
                f"{place}: found an encoder of type {block.encoder.config.model_type}, whose "
                "attention cannot be read, expected one that attends by the functions of "
                "transformers, such as bert or roberta; match hidden states only."
            )


def _require_equal(own: str, where: str, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ConfigError(
            f"{own}: found {what} {found}, expected {expected}, as in {where}, whose layers the "
            "recipe's distillation.matching names; take a student or a teacher of the same size, "
            "or a recipe without matching."
        )


def _find_encoder(plan: ModelPlan, blocks: nn.ModuleDict, layer: str) -> PretrainedEncoder:
    owner = next(item.owner for item in plan.layers if item.name == layer)
    block = blocks[owner]
    assert isinstance(block, PretrainedEncoder), layer
    return block


def _mean(value_WL: Float[Tensor, "W L"], inside_WL: Bool[Tensor, "W L"]) -> Float[Tensor, ""]:
    """Return the mean over the windows of the mean over their real pieces; 0 elsewhere."""
    return (value_WL.sum(1) / inside_WL.sum(1)).mean()
