"""One action of a schedule, and the slot that holds it."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

_TOKEN = re.compile(r"([0-9]{1,6})([FIWB])([0-9]{1,6})")


class Action(NamedTuple):
    """What one stage does with one microbatch, written as PyTorch does: ``2F0``.

    Parameters
    ----------
    stage : int
        Global stage.
    kind : str
        ``F`` forward, ``I`` gradient of the input, ``W`` gradient of the weights, ``B`` both gradients at once.
    microbatch : int

    References
    ----------
    pytorch/pytorch torch/distributed/pipelining/schedules.py; the split of B is that of arXiv 2401.10241.

    Examples
    --------
    >>> str(Action(2, "B", 0)), Action(2, "B", 0).makes
    ('2B0', Action(stage=2, kind='I', microbatch=0))
    >>> Action(2, "B", 0).needs(stages=4)
    ((2, 'F', 0), (3, 'I', 0))
    """

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @property
    def makes(self) -> Action:
        """What others wait for: a full backward makes an input gradient too, so it counts as ``I``."""
        return Action(self.stage, "I", self.microbatch) if self.kind == "B" else self

    def needs(self, stages: int) -> tuple[tuple[int, str, int], ...]:
        """Return what must have been made before, in terms of ``makes``; own results first."""
        stage, kind, microbatch = self
        if kind == "F":
            return ((stage - 1, "F", microbatch),) if stage else ()
        if kind == "W":
            return ((stage, "I", microbatch),)
        own = (stage, "F", microbatch)
        return (own, (stage + 1, "I", microbatch)) if stage < stages - 1 else (own,)


Slot: TypeAlias = tuple[Action, ...]
"""One cell of a table: empty when idle, one action, or a forward and a full backward that overlap (DualPipe)."""

Row: TypeAlias = tuple[Slot, ...]
"""The slots of one rank, first to last."""


def slot_text(slot: Slot) -> str:
    """Write a slot as PyTorch's schedule CSV does.

    Parameters
    ----------
    slot : tuple of Action

    Returns
    -------
    str
        Empty for an idle slot.

    Examples
    --------
    >>> slot_text((Action(0, "F", 7), Action(7, "B", 3)))
    '(0F7;7B3)OVERLAP_F_B'
    """
    if len(slot) > 1:
        return f"({';'.join(map(str, slot))})OVERLAP_F_B"
    return "".join(map(str, slot))


def parse_slot(text: str) -> Slot | None:
    """Read a slot that computes; the whole text must match, unlike in PyTorch, which reads ``2F0xyz`` as ``2F0``.

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of Action, or None
        None when the text is no such slot.

    Examples
    --------
    >>> parse_slot("(0F7;7B3)OVERLAP_F_B"), parse_slot(""), parse_slot("2F0xyz")
    ((Action(stage=0, kind='F', microbatch=7), Action(stage=7, kind='B', microbatch=3)), (), None)
    """
    if not text:
        return ()
    inside = re.fullmatch(r"\((.*)\)OVERLAP_F_B", text)
    actions = []
    for token in inside[1].split(";") if inside else [text]:
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        actions.append(Action(int(found[1]), found[2], int(found[3])))
    return tuple(actions)
