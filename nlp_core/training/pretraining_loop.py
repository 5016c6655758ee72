"""The steps of pre-training: batches of a corpus, masked anew, to heads and encoder."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from torch.optim import AdamW, Optimizer

from nlp_core.config.pretraining import EncoderConfig, PhaseConfig
from nlp_core.config.recipe import WarmupLinearSchedule
from nlp_core.data.corpus_stream import CorpusStream, Place, PlacedBatch
from nlp_core.data.masked_text import MEASURED_WINDOWS, MaskedText
from nlp_core.data.masking import MaskingRule, mask_pieces
from nlp_core.data.window import WindowBatch
from nlp_core.encoders.masked_language_model import MaskedLanguageModel
from nlp_core.errors import TrainingError
from nlp_core.objectives import Objective, build_objective, check_tables
from nlp_core.training.checkpoint import OPTIMIZER, load_state, restore_optimizer, save_state
from nlp_core.training.device import find_device
from nlp_core.training.lamb import Lamb
from nlp_core.training.masked_learner import MaskedLearner, Seen, cut_part
from nlp_core.training.masked_perplexity import measure_masked
from nlp_core.training.optimizer import LearningRate, set_learning_rate, update_weights
from nlp_core.training.weight_digest import digest_weights

log = logging.getLogger(__name__)

MASKING = 3  # which generator of a step
OBJECTIVE = "objective"  # what belongs to it in a checkpoint
LOGS_BETWEEN_POINTS = 10
CURVE_WINDOWS = 128
FRESH, BEFORE, AFTER = "fresh", "before", "after"
"""When a text is measured in full: with a head of random weights; with the encoder as it began and
a head that was fitted to it; at the end."""


@dataclass
class PretrainingProgress:
    """Where a run stands.

    Attributes:
        step: steps done, those of the head alone among them.
        phase: number of the phase that the place belongs to.
        place: the next batch in the stream, as a list.
        events: what history.jsonl will hold.
    """

    step: int = 0
    phase: int = 0
    place: list[int] = field(default_factory=lambda: list(Place()))
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Tally:
    """What the steps since the last line of history came to."""

    loss: float = 0.0
    pieces: int = 0
    right: int = 0
    pair_loss: float = 0.0
    pairs: int = 0
    pairs_right: int = 0
    read: int = 0
    """Pieces that went through the encoder."""
    started: float = field(default_factory=time.monotonic)

    def count(self, seen: Seen) -> None:
        """Add what a pass over a part of a batch came to."""
        self.loss += seen.loss
        self.pieces += seen.pieces
        self.right += seen.right
        self.pair_loss += seen.pair_loss
        self.pairs += seen.pairs
        self.pairs_right += seen.pairs_right

    def describe(self) -> dict[str, float]:
        """Return means over pieces and over pairs; accuracies in points."""
        found = {"loss": self.loss / max(self.pieces, 1)}
        found["accuracy"] = 100.0 * self.right / max(self.pieces, 1)
        if self.pairs:
            found["pair_loss"] = self.pair_loss / self.pairs
            found["pair_accuracy"] = 100.0 * self.pairs_right / self.pairs
        return found


class Pretrainer:
    """Pretrain one encoder.

    Args:
        model: encoder and heads, built from the seed.
        stream: the corpus.
        texts: what is measured.
        config: how to train.
        name: of the encoder, for messages.
        checkpoint: path of the checkpoint; where it exists, the run goes on from it.
    """

    def __init__(
        self,
        model: MaskedLanguageModel,
        stream: CorpusStream,
        texts: Sequence[MaskedText],
        *,
        config: EncoderConfig,
        name: str,
        checkpoint: Path,
    ) -> None:
        self.model, self.stream, self.config = model.to(find_device()), stream, config
        self.learner = MaskedLearner(self.model)
        self.name, self.checkpoint = name, checkpoint
        self.texts = [text.thin(MEASURED_WINDOWS) for text in texts]
        self.curve_texts = [text.thin(CURVE_WINDOWS) for text in self.texts]
        self.rule = MaskingRule(**config.masking.model_dump())
        self.head_steps = config.head_start.steps if config.head_start else 0
        self.progress = PretrainingProgress()
        self.tally = Tally()
        self.batches: Iterator[PlacedBatch] | None = None
        self._check_adversarial()
        self._prepare()

    @property
    def is_head_alone(self) -> bool:
        """Whether the next step trains the heads and leaves the encoder as it is."""
        return self.progress.step < self.head_steps

    def run(self, on_step: Callable[[int], None] = lambda step: None) -> PretrainingProgress:
        """Train to the last step; return the history.

        Args:
            on_step: called after each step with the steps done.

        Raises:
            TrainingError: a loss is not finite.
        """
        if self.checkpoint.exists():
            self._restore()
        elif not self.progress.events:
            self._draw_point()
            self._measure(FRESH if self.head_steps else BEFORE)
        every = max(self.config.validate_every // LOGS_BETWEEN_POINTS, 1)
        while self.progress.step < self.config.all_steps:
            self.step()
            on_step(self.progress.step)
            if self._is_pause():
                self._pause()
            elif self.progress.step % every == 0:
                self._log_training()
        return self.progress

    def step(self) -> None:
        """Take one step: a batch, its masking, its gradient, an update.

        Raises:
            TrainingError: the loss is not finite.
        """
        batch = self._next_batch()
        step, lr = self.progress.step, self.learning_rate.at(self._own_step())
        masked = mask_pieces(
            batch.ids,
            batch.words,
            self.rule,
            mask=self.stream.pieces.mask,
            ordinary=self.stream.pieces.ordinary,
            generator=np.random.default_rng([self.config.seed, MASKING, step]),
        )
        set_learning_rate(self.optimizer, lr)
        self.optimizer.zero_grad(set_to_none=True)
        self.model.train()
        if self.is_head_alone:
            self.model.encoder.eval()
        self.objective.begin(self._own_step())
        for rows in np.array_split(np.arange(len(batch.ids)), self.config.accumulation):
            if len(rows):
                part = cut_part(self.model, batch, masked, rows)
                loss = self.objective.backward(part, self._own_step())
                if not math.isfinite(loss):
                    raise TrainingError(self._describe_divergence(loss, lr))
                self.tally.count(self.learner.seen[0])
                self.learner.seen.clear()
        if self.config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        update_weights(self.optimizer)
        self.progress.step += 1
        self.tally.read += int(batch.inside.sum())

    def _next_batch(self) -> WindowBatch:
        number, phase = find_phase(self.config, self._own_step() if not self.is_head_alone else 0)
        if number != self.progress.phase:
            epoch, pool, _ = self.progress.place
            self.progress.phase, self.progress.place = number, [epoch, pool + 1, 0]
            self.batches = None
        if self.batches is None:
            start = Place(*self.progress.place)
            self.batches = self.stream.read(start, length=phase.length, batch_size=phase.batch_size)
        found = next(self.batches)
        self.progress.place = list(found.after)
        return found.batch

    def _own_step(self) -> int:
        """Return the step in its part: of the head alone, or of all."""
        return self.progress.step - (0 if self.is_head_alone else self.head_steps)

    def _is_pause(self) -> bool:
        ends = (self.head_steps, self.config.all_steps)
        return self.progress.step in ends or self.progress.step % self.config.validate_every == 0

    def _pause(self) -> None:
        """Note where the run stands, and keep it."""
        self._log_training()
        self._draw_point()
        if self.head_steps and self.progress.step == self.head_steps:
            self._measure(BEFORE)
            self._prepare()
        if self.progress.step == self.config.all_steps:
            self._measure(AFTER)
        states = {"model": self.model.state_dict(), OBJECTIVE: self.objective.state()}
        save_state(self.checkpoint, asdict(self.progress), states, self.optimizer)

    def _restore(self) -> None:
        note, states = load_state(self.checkpoint)
        self.progress = PretrainingProgress(**note)
        self.model.load_state_dict(states["model"])
        self._prepare()
        self.objective.restore(states.get(OBJECTIVE, {}))
        restore_optimizer(self.optimizer, states.get(OPTIMIZER, {}))
        log.info("pretrain resume step=%d place=%s", self.progress.step, self.progress.place)

    def _check_adversarial(self) -> None:
        if self.config.adversarial is not None:
            where = f"params.yaml: encoders.{self.name}.adversarial"
            check_tables(self.config.adversarial, self.learner.find_word_tables(), where)

    def _prepare(self) -> None:
        """Make ready for the next step: what is trained, on what, and by which optimiser."""
        self.model.encoder.requires_grad_(not self.is_head_alone)
        self.optimizer, self.learning_rate = self._build_optimizer()
        self.objective: Objective = build_objective(
            None if self.is_head_alone else self.config.adversarial,
            self.learner,
            seed=self.config.seed,
            num_steps=self.config.steps,
        )

    def _build_optimizer(self) -> tuple[Optimizer, LearningRate]:
        """Return the optimiser of the next step, over what it trains."""
        config, start = self.config.optimizer, self.config.head_start
        alone = self.is_head_alone
        warmup = WarmupLinearSchedule(name="warmup_linear", warmup=config.warmup)
        groups = group_parameters(self.model, config.weight_decay)
        betas = (0.9, config.second_decay)
        if alone:
            assert start is not None, self.name
            rate = LearningRate(warmup, start.lr, start.steps, epochs=1)
            return AdamW(groups, lr=start.lr, betas=betas, eps=config.eps, fused=True), rate
        rate = LearningRate(warmup, config.lr, self.config.steps, epochs=1)
        if config.name == "lamb":
            return Lamb(groups, config.lr, betas=betas, eps=config.eps), rate
        return AdamW(groups, lr=config.lr, betas=betas, eps=config.eps, fused=True), rate

    def _log_training(self) -> None:
        tally, self.tally = self.tally, Tally()
        if not tally.read:
            return
        step, values = self.progress.step, tally.describe()
        self.progress.events.append({"event": "train", "step": step, **values})
        speed = tally.read / max(time.monotonic() - tally.started, 1e-9)
        text = " ".join(f"{key}={value:.3f}" for key, value in values.items())
        log.info("pretrain step step=%d %s pieces_per_s=%.0f", step, text, speed)

    def _draw_point(self) -> None:
        """Add a point of the curve: the digest of the weights, and a part of each text."""
        digest = digest_weights(self.model.state_dict())
        step = self.progress.step
        self.progress.events.append({"event": "weights", "step": step, "digest": digest})
        for text in self.curve_texts:
            self._note("point", text, {})

    def _measure(self, at: str) -> None:
        for text in self.texts:
            self._note("measure", text, {"at": at})

    def _note(self, event: str, text: MaskedText, more: dict[str, str]) -> None:
        score = measure_masked(self.model, text)
        place = {"event": event, "step": self.progress.step, "text": text.name, **more}
        self.progress.events.append({**place, **score._asdict()})
        log.info(
            "pretrain %s step=%d text=%s perplexity=%.2f accuracy=%.2f",
            *(event, self.progress.step, text.name, score.perplexity, score.accuracy),
        )
        self.tally = Tally()

    def _describe_divergence(self, loss: float, lr: float) -> str:
        kept = self.checkpoint if self.checkpoint.exists() else "none"
        return (
            f"{self.name}: found a loss of {loss} at step {self.progress.step + 1} with learning "
            f"rate {lr:.3g}, expected a finite one. The last good checkpoint is {kept}. Lower the "
            "encoder's learning rate or set its clip_norm."
        )


def find_phase(config: EncoderConfig, step: int) -> tuple[int, PhaseConfig]:
    """Return number and values of the phase of a step, counted from 0."""
    end = 0.0
    for number, phase in enumerate(config.phases):
        end += phase.share
        if step < round(end * config.steps):
            return number, phase
    return len(config.phases) - 1, config.phases[-1]


def group_parameters(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return what is trained in two groups: matrices decay, biases and norms do not."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {
            "params": [parameter for parameter in trained if (parameter.ndim > 1) == is_matrix],
            "weight_decay": weight_decay if is_matrix else 0.0,
            "scale": 1.0,
        }
        for is_matrix in (True, False)
    ]
