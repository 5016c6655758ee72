"""Which labels may be inside each other, and what a right sequence of actions builds.

Shape letters: B batch, S steps, N constituents, C parts of a constituent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from reglue_runtime.tree import OPEN, SHIFT

Constraint = Literal["grammar", "brackets", "none"]


class Grammar(nn.Module):
    """Which label may open inside which, learned from the trees of training.

    Args:
        max_open: constituents that may be open at a time.
        constraint: grammar: the answer is a tree, and each label was seen inside its parent;
            brackets: the answer is a tree; none: anything may be written.
    """

    seen: Tensor

    def __init__(self, num_labels: int, *, max_open: int, constraint: Constraint) -> None:
        super().__init__()
        # the last row is for the root
        self.register_buffer("seen", torch.zeros(num_labels + 1, num_labels, dtype=torch.bool))
        self.max_open = max_open
        self.constraint = constraint

    def learn(self, edges: Sequence[tuple[int, int]]) -> None:
        """Remember pairs of labels, one inside the other; the parent of a root is -1."""
        if edges:
            parent, child = zip(*edges, strict=True)
            self.seen[[*parent], [*child]] = True

    def describe(self) -> dict[str, Any]:  # Any: JSON
        """Return what may be written, as `TreeRules` of the runtime reads it."""
        free = self.constraint != "grammar" or not bool(self.seen.any())
        inside = torch.ones_like(self.seen) if free else self.seen
        return {
            "max_open": self.max_open,
            "free": self.constraint == "none",
            "inside": inside.int().tolist(),
        }


class Level(NamedTuple):
    """Constituents whose parts are all made by lower levels.

    Attributes:
        made: place of each one's last action among all actions of the batch, [N].
        label: of each, [N].
        parts: places of the actions that made its parts, [N, C], 0 after the last.
        mask: where there is a part, [N, C].
    """

    made: Tensor
    label: Tensor
    parts: Tensor
    mask: Tensor


class Structure(NamedTuple):
    """What the right actions of a batch build.

    Attributes:
        read: tokens before each action, [B, S].
        below: number of the stack's state that each action builds on: 0 is that of the empty stack,
            s + 1 that after action s, [B, S].
        levels: all constituents but roots, the innermost first.
        edges: label of the parent (-1 of a root) and of each constituent.
    """

    read: Tensor
    below: Tensor
    levels: list[Level]
    edges: list[tuple[int, int]]


@dataclass
class _Frame:
    step: int
    label: int
    parts: list[int] = field(default_factory=list)
    height: int = 0


def trace(target_BS: Tensor) -> Structure:
    """Return what actions build; they are right ones, and -1 after the end."""
    actions = target_BS.tolist()
    read = np.zeros(target_BS.shape, dtype=np.int64)
    below = np.zeros(target_BS.shape, dtype=np.int64)
    levels: dict[int, list[tuple[int, _Frame]]] = {}
    edges: list[tuple[int, int]] = []
    for row, own in enumerate(actions):
        stack: list[_Frame] = []
        position = 0
        for step, action in enumerate(own):
            if action < 0:
                break
            place = row * len(own) + step
            read[row, step], below[row, step] = position, step
            if action >= OPEN:
                edges.append((stack[-1].label if stack else -1, action - OPEN))
                stack.append(_Frame(step, action - OPEN))
                continue
            if action == SHIFT:
                position += 1
            else:
                frame = stack.pop()
                below[row, step] = frame.step
                if stack:
                    levels.setdefault(frame.height, []).append((place, frame))
                    stack[-1].height = max(stack[-1].height, frame.height + 1)
            if stack:
                stack[-1].parts.append(place)
    return Structure(
        torch.from_numpy(read),
        torch.from_numpy(below),
        [_build_level(levels[height]) for height in sorted(levels)],
        edges,
    )


def _build_level(made: Sequence[tuple[int, _Frame]]) -> Level:
    width = max(len(frame.parts) for _, frame in made)
    parts = [frame.parts + [0] * (width - len(frame.parts)) for _, frame in made]
    sizes = torch.tensor([len(frame.parts) for _, frame in made])
    return Level(
        torch.tensor([place for place, _ in made]),
        torch.tensor([frame.label for _, frame in made]),
        torch.tensor(parts),
        torch.arange(width) < sizes.unsqueeze(1),
    )
