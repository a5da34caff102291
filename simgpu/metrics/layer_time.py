"""Time of one layer in a played step, its communication included."""

from __future__ import annotations

from simgpu.errors import ProgramError
from simgpu.program import COMPUTE, Compute
from simgpu.timeline import Timeline


def layer_times_ns(timeline: Timeline, block: int) -> tuple[int, int]:
    """Return how long rank 0 spends on a block, forward and backward.

    Parameters
    ----------
    timeline : Timeline
        Of a model without a pipeline.
    block : int
        Neither the first nor the last, so that it has a block on either side.

    Returns
    -------
    int, nanoseconds
        Forward: from the block's first kernel to the next block's.
    int, nanoseconds
        Backward, recomputation included: from the block's first kernel to that of the block before it.

    Raises
    ------
    ProgramError
        When the block or one beside it is not there.
    """
    starts: dict[tuple[str, bool], int] = {}
    for row in timeline.rows(0, COMPUTE):
        instruction = timeline.instruction(row)
        if isinstance(instruction, Compute) and instruction.unit and timeline.spans.step[row] == timeline.step:
            key = instruction.unit, instruction.phase == "forward"
            starts.setdefault(key, int(timeline.spans.start_ns[row]))
    try:
        forward = starts[f"block {block + 1}", True] - starts[f"block {block}", True]
        backward = starts[f"block {block - 1}", False] - starts[f"block {block}", False]
    except KeyError as absent:
        raise ProgramError(f"rank 0 does not run {absent.args[0][0]}, which is beside block {block}") from None
    return forward, backward
