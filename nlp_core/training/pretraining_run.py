"""The trainings that make an encoder, and what is measured between them."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any  # JSON holds anything

from nlp_core.config.dataset import HELD_OUT, TRAIN
from nlp_core.config.pretraining import AFTER, BEFORE, FRESH
from nlp_core.data.corpus import read_corpus
from nlp_core.data.masked_text import cut_text, mask_text, read_running_text
from nlp_core.data.window import encode_documents
from nlp_core.data.word_piece import read_pieces
from nlp_core.metrics import HONEST
from nlp_core.models.masked_split import (
    MEASURED_WINDOWS,
    MaskedSplit,
    build_masked_split,
    find_rule,
)
from nlp_core.models.pretraining import build_pretraining_model
from nlp_core.training.encoder_plan import EncoderPlan
from nlp_core.training.loop import Trainer
from nlp_core.training.pretraining_metrics import measure_text, sum_documents
from nlp_core.training.processes import Processes
from nlp_core.training.task_run import TaskRun

log = logging.getLogger(__name__)

CURVE_WINDOWS = 128
WINDOWS = 2  # which generator of the seed
PIECES = "pieces"
"""Folder in that of the run with the encoded corpus."""


class Pretraining:
    """The trainings of an encoder one after the other: of a new head, and of each phase.

    Each has its own checkpoint, so a killed run skips those that are done.

    Args:
        seed: of weights, windows and masks.
        tokenizer: as JSON.
        work: folder of the checkpoints and of the encoded corpus.
        processes: those that take part in each step.

    Raises:
        ConfigError: the encoder cannot read the windows of a phase, or its architecture is wrong.
    """

    def __init__(
        self, plan: EncoderPlan, seed: int, tokenizer: str, work: Path, processes: Processes
    ) -> None:
        self.plan, self.config, self.seed, self.work = plan, plan.config, seed, work
        self.processes = processes
        self.tokens = read_pieces(tokenizer, str(plan.init))
        size = self.tokens.tokenizer.get_vocab_size()
        architecture = plan.read_architecture(size, self.tokens.padding)
        positions = plan.count_positions(architecture)
        self.model = build_pretraining_model(
            self.config, architecture, tokenizer, task=plan.task.name, where=plan.where
        )
        self.model.model.to(processes.device)
        corpus = read_corpus(plan.task.folder)
        measured = {
            self.config.measured_on: read_running_text(plan.measured_on, self.tokens.unknown),
            HELD_OUT: corpus.read_paragraphs(HELD_OUT),
        }
        self.has_draws = self.config.replacement is not None
        self.texts = {
            name: build_masked_split(
                self.model.model.plan,
                mask_text(name, documents, self.tokens, length=positions),
                has_draws=self.has_draws,
            )
            for name, documents in measured.items()
        }
        documents, pieces = corpus.read_paragraphs(TRAIN), work / PIECES
        with processes.first_before_others():
            self.encoded = encode_documents(documents, self.tokens, pieces)

    def train(self, on_step: Callable[[int], None]) -> Iterator[dict[str, Any]]:
        """Train, call `on_step` after each step with the steps done, and yield the history.

        Raises:
            TrainingError: a loss is not finite.
        """
        trainings, done = self.config.list_trainings(), 0
        has_head_start = self.config.head_start is not None
        splits = {name: split.thin(CURVE_WINDOWS) for name, split in self.texts.items()}
        for name, split in splits.items():
            place = {"epoch": 0.0, "step": 0, "split": name}
            yield {
                "event": "validate",
                **place,
                "metrics": measure_text(self.plan.task, self.model, split).metrics,
            }
        for number, (phase, recipe) in enumerate(trainings):
            train = self._cut(number, phase.length)
            if number == 0:
                yield from self._measure_all(FRESH if has_head_start else BEFORE, train, done)
            elif number == 1 and has_head_start:
                yield from self._measure_all(BEFORE, train, done)
            self.model.model.blocks.requires_grad_(not (has_head_start and number == 0))
            item = TaskRun(
                task=self.plan.task,
                model=self.model.pieces,
                splits={TRAIN: train, **splits},
                selections={HONEST: HELD_OUT},
                measured=[self.config.measured_on],
                joint=self.model.model,
            )
            trainer = Trainer(
                self.model.model,
                [item],
                recipe=recipe,
                seed=self.seed,
                checkpoint=self.work / name_checkpoint(self.seed, number),
                max_steps=phase.steps,
                validate_every=self.config.validate_every,
                processes=self.processes,
            )

            def show(step: int, before: int = done) -> None:
                on_step(before + step)

            trained = trainer.run(show)
            self.model.model.load_state_dict(trained.states[HONEST])  # an average, if there is one
            events = trained.progress.events
            yield from ({**event, "step": event["step"] + done} for event in events)
            done += phase.steps
        yield from self._measure_all(AFTER, train, done)

    def _cut(self, number: int, length: int) -> MaskedSplit:
        text = cut_text(
            TRAIN,
            self.encoded,
            self.tokens,
            length=length,
            seed=[self.seed, WINDOWS, number],
            pairs=self.config.pairs,
            short_prob=self.config.short_prob,
        )
        plan, has_pairs = self.model.model.plan, self.config.pairs is not None
        return build_masked_split(
            plan, text, find_rule(plan), has_pairs=has_pairs, has_draws=self.has_draws
        )

    def _measure_all(self, at: str, train: MaskedSplit, step: int) -> Iterator[dict[str, Any]]:
        for name, split in {**self.texts, TRAIN: train}.items():
            thinned = split.thin(MEASURED_WINDOWS)
            measured = measure_text(self.plan.task, self.model, thinned)
            event = {"event": "measure", "at": at, "step": step, "split": name}
            log.info("pretrain measure at=%s split=%s %s", at, name, measured.metrics)
            # each seed trains on windows of its own, so nothing is resampled there
            sums = {} if name == TRAIN else sum_documents(measured, thinned)
            yield {**event, "metrics": measured.metrics, **sums}


def name_checkpoint(seed: int, number: int | str) -> str:
    """Return the name of the checkpoint of a seed's training, numbered from 0, or a pattern."""
    return f"seed-{seed}.training-{number}.safetensors"
