"""One instruction as the engine plays it."""

from __future__ import annotations

from typing import NamedTuple

from simgpu.program import Compute

COMPUTE_STREAM = 0  # its index among a Timeline's streams
WORK, RECORD, WAIT, MEMORY, TRANSFER = range(5)


class Step(NamedTuple):
    """One instruction: what it is, its position, its work and numbers.

    ``number`` is a Compute's duration, an event, a change in bytes, or a transfer's place among the role's; ``other``
    says of a Wait which stream records its event, of a memory change its category. ``issued`` says whether the CPU
    issues it. Positions and events are relative to the passage's.
    """

    code: int
    position: int
    number: int
    other: int
    issued: bool
    work: Compute | None
