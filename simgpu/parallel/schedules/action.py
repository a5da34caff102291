"""One cell of a schedule."""

from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """A forward (``F``) or full backward (``B``) of one microbatch on one stage, written as PyTorch does: ``2F0``."""

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"
