"""Distillation: a model whose loss has the soft labels of teachers in it.

A student is the model itself with another loss, so that every objective trains it as any other
model. Soft labels are scores, as a head gives them; teacher and student are
compared by the `outputs` that the student's head makes of both, row by row: an example, a real
token, one of several labels, the candidates of a question. The members of an ensemble count alike,
each after its own softmax.

Tags: what is compared are the labels of each token by themselves. A conditional random field gives
its marginals, whether it teaches or learns, so that each may teach the other and a softmax.

Shape letters: K members of an ensemble, N rows, L classes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nlp_core.config.recipe import DistillationConfig, KlConfig, MseLogitsConfig
from nlp_core.data.soft_labels import SoftColumn
from nlp_core.errors import ConfigError
from nlp_core.heads.sentence import RegressionHead
from nlp_core.kinds import TAGS
from nlp_core.models.batch import Batch, Shares
from nlp_core.models.graph import GraphModel, HeadScores, find_shares
from nlp_core.objectives.divergence import kl
from nlp_core.objectives.matching import Matching

Scores = Mapping[str, HeadScores]


@dataclass(frozen=True)
class SoftTargets:
    """What a student learns of one task from its teachers.

    Attributes:
        columns: by target (label, labels, tags) the soft labels of the training split.
        widths: by target the numbers of a soft label; 0: one, a value.
        marginals: whether those of tags are log-probabilities of a conditional random field.
        weight: share of the soft labels in the loss.
        num_labelled: how many of the first examples have labels too.
        matching: what layers learn from those of the teacher; None: nothing.
    """

    columns: Mapping[str, SoftColumn]
    widths: Mapping[str, int]
    marginals: bool
    objective: DistillationConfig
    weight: float
    num_labelled: int
    matching: Matching | None = None


class Student(GraphModel):
    """A model, the same parameters, with the loss of a student.

    loss = (1 - weight) hard + weight soft; hard is the loss of the labelled examples of a batch,
    times their share of it, and soft the sum over the heads, each times its weight, of the mean of
    `compare_soft` over the rows (of tags: their sum, divided as the head's own loss is). What
    layers learn (`matching`) comes on top.

    Raises:
        ConfigError: a head has no outputs that could be compared, or others than the teacher.
    """

    def __init__(self, model: GraphModel, soft_targets: SoftTargets) -> None:
        super().__init__(model.plan, {}, {})
        self.blocks, self.heads = model.blocks, model.heads
        self.soft_targets = soft_targets
        for name in self.heads:
            self._check_head(name)

    def score_with_loss(self, batch: Batch) -> tuple[dict[str, HeadScores], Tensor]:
        matching = self.soft_targets.matching
        # a term without a weight is left out: the pass is then that of a student without it
        if matching is None or not (matching.hidden or matching.attention):
            return super().score_with_loss(batch)
        with matching.watch(self.plan, self.blocks) as passes:
            scores, loss = super().score_with_loss(batch)
        share = batch.shares.windows if batch.shares else 1.0
        return scores, loss + share * matching.compare(self.plan, batch, passes)

    def share_terms(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the parts of a step's batch, each with its share of the whole.

        Only labelled examples count in the loss of the labels, which is as much of the whole as
        there are of them.
        """
        device = next(iter(batches[0].targets.values())).device
        labelled = [
            select_rows({}, batch, self._find_labelled(batch).to(device))[1] for batch in batches
        ]
        portion = sum(len(batch.rows) for batch in labelled) / sum(len(b.rows) for b in batches)
        none = dict.fromkeys(self.plan.heads, 0.0)
        terms = find_shares([self.count_terms(b) if len(b.rows) else none for b in labelled])
        rows = find_shares([self.count_rows(batch) for batch in batches])
        soft = find_shares([self._count_soft(batch) for batch in batches])
        matching = self.soft_targets.matching
        sizes = [matching.count_windows(b) if matching else len(b.rows) for b in batches]
        windows = find_shares([{"": size} for size in sizes])
        return [
            replace(
                batch,
                shares=Shares(
                    terms={name: portion * share for name, share in terms[idx].items()},
                    rows=rows[idx],
                    soft=soft[idx],
                    windows=windows[idx][""],
                ),
            )
            for idx, batch in enumerate(batches)
        ]

    def _find_labelled(self, batch: Batch) -> Tensor:
        return torch.from_numpy(np.flatnonzero(batch.rows < self.soft_targets.num_labelled))

    def _count_soft(self, batch: Batch) -> dict[str, float]:
        """Return by head how many terms the soft loss of a batch is the mean of."""
        terms, rows = self.count_terms(batch), self.count_rows(batch)
        return {name: (terms if self.head(name).target == TAGS else rows)[name] for name in terms}

    def sum_losses(self, scores: Scores, batch: Batch) -> Tensor:
        weight = self.soft_targets.weight
        losses = []
        labelled = self._find_labelled(batch)
        if weight < 1 and len(labelled) == len(batch.rows):
            losses.append((1 - weight) * super().sum_losses(scores, batch))
        elif weight < 1 and len(labelled):
            # the shares of a part count labelled examples only
            share = 1.0 if batch.shares else len(labelled) / len(batch.rows)
            device = next(iter(scores.values()))[0].device
            part = select_rows(scores, batch, labelled.to(device))
            losses.append((1 - weight) * share * super().sum_losses(*part))
        if weight > 0 or not losses:
            losses.append(weight * self._compare(scores, batch))
        return torch.stack(losses).sum()

    def _compare(self, scores: Scores, batch: Batch) -> Tensor:
        losses = []
        for name, (score, mask) in scores.items():
            head = self.head(name)
            soft = torch.from_numpy(self.soft_targets.columns[head.target].take(batch.rows))
            teacher = soft.to(score.device)
            where = head.select_where(mask, batch.group)
            student = head.outputs(head.soften(score, mask).float(), where)
            teacher_KN = torch.stack([head.outputs(member, where) for member in teacher])
            rows_N = compare_soft(self.soft_targets.objective, teacher_KN, student)
            count = (
                head.count_terms(batch.targets[TAGS], mask) if head.target == TAGS else len(rows_N)
            )
            share = batch.shares.soft[name] if batch.shares else 1.0
            losses.append(share * self.plan.heads[name].weight * rows_N.sum() / count)
        return torch.stack(losses).sum()

    def _check_head(self, name: str) -> None:
        head, soft_targets = self.head(name), self.soft_targets
        place = f"{self.plan.where}: head '{name}': found {type(head).__name__}"
        if not head.comparable or head.target not in soft_targets.columns:
            raise ConfigError(
                f"{place}, expected one that predicts "
                f"{' and '.join(sorted(soft_targets.columns))} by outputs that can be compared "
                "with those of a teacher; take another head, or an experiment without a teacher."
            )
        width = soft_targets.widths[head.target]
        if head.grouped and width:
            raise ConfigError(
                f"{place}, which gives a candidate one score, and a teacher that gives it {width}; "
                "expected heads of one sort."
            )
        if not width and not head.grouped and not isinstance(head, RegressionHead):
            raise ConfigError(
                f"{place}, which gives an example a score for each label, and a teacher that gives "
                "it one; expected heads of one sort."
            )
        is_field = head.structured or (head.target == TAGS and soft_targets.marginals)
        if is_field and isinstance(soft_targets.objective, MseLogitsConfig):
            raise ConfigError(
                f"{place} and the objective mse_logits, but a conditional random field, which "
                "teaches or learns here, has no logits for single tokens; take kl or mse_scores."
            )


def select_rows(scores: Scores, batch: Batch, rows: Tensor) -> tuple[Scores, Batch]:
    kept = {
        name: (score[rows], None if mask is None else mask[rows])
        for name, (score, mask) in scores.items()
    }
    selected = replace(
        batch,
        masks={name: mask[rows] for name, mask in batch.masks.items()},
        targets={name: target[rows] for name, target in batch.targets.items()},
        group=None if batch.group is None else batch.group[rows],
        rows=batch.rows[rows.cpu().numpy()],
    )
    return kept, selected


def compare_soft(
    objective: DistillationConfig,
    teacher_KN: Float[Tensor, "K N ..."],
    student_N: Float[Tensor, "N ..."],
) -> Float[Tensor, " N"]:
    """Return how far a student's rows lie from those of its teachers, 0 where they are equal.

    Args:
        objective: how logits are compared; values by the squared difference from the mean.
        teacher_KN: logits [K, N, L] or values [K, N].
        student_N: logits [N, L] or values [N].

    Note: a mean over L counts only the classes that a row has (candidates of its question).
    """
    if student_N.ndim == 1:
        return (student_N - teacher_KN.mean(0)).square()
    if isinstance(objective, KlConfig):
        temperature = objective.temperature
        log_p_NL = (teacher_KN / temperature).log_softmax(-1).logsumexp(0) - math.log(
            len(teacher_KN)
        )
        log_q_NL = (student_N / temperature).log_softmax(-1)
        return temperature**2 * kl(log_p_NL, log_q_NL)
    if isinstance(objective, MseLogitsConfig):
        gap_NL = teacher_KN.mean(0) - student_N
    else:
        gap_NL = teacher_KN.softmax(-1).mean(0) - student_N.softmax(-1)
    real_NL = student_N > torch.finfo(student_N.dtype).min / 8
    return (gap_NL * real_NL).square().sum(-1) / real_NL.sum(-1)
