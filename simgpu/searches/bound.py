"""A step that no candidate can beat, and memory that it cannot do without: all candidates at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

PLACES: Final = 3
"""Ranks of a pipeline that the bound looks at: the first, the last but one, the last."""

REASONS: Final = (
    "work and pipeline", "reductions beside the last backward", "gathers and reductions", "launches by the CPU",
)  # fmt: skip
"""What a bound rests on.

The chain through one rank, that with its reductions behind it, one stream's transfers, one CPU thread.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the bound is made of, one row a candidate; (n,) or (n, PLACES) int64, nanoseconds unless said otherwise.

    Parameters
    ----------
    fill_ns, drain_ns : (n, PLACES)
        From the first stage's first forward to the rank's; from the rank's last backward to the first stage's last.
    work_ns, passes_ns : (n, PLACES)
        All that the rank computes in the micro-batches; the same without weight gradients that nobody waits for.
    gaps_ns : (n, PLACES)
        Messages that the rank waits for between its passes.
    exposed_ns, behind_ns : (n, PLACES)
        Reductions that the compute stream waits for; of others, the one that the last gradient starts.
    hidden_ns, last_ns : (n, PLACES)
        Reductions that may run beside the last backward; that backward.
    stream_ns : (n, PLACES)
        Transfers of the busiest data-parallel stream.
    norm_ns, update_ns : (n, PLACES)
        Optimizer up to the norm of the gradients, and from there on.
    issue_ns : (n, PLACES)
        CPU time to issue the passes and the optimizer.
    together, chained : (n,) bool
        Ranks meet at the norm; every rank's work lies between the first stage's first forward and last backward.
    memory_bytes : (n, PLACES)
        What the rank holds at least, at some moment.
    """

    fill_ns: Int64
    drain_ns: Int64
    work_ns: Int64
    passes_ns: Int64
    gaps_ns: Int64
    exposed_ns: Int64
    behind_ns: Int64
    hidden_ns: Int64
    last_ns: Int64
    stream_ns: Int64
    norm_ns: Int64
    update_ns: Int64
    issue_ns: Int64
    together: NDArray[np.bool_]
    chained: NDArray[np.bool_]
    memory_bytes: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What no simulation of a candidate will be below.

    Parameters
    ----------
    step_ns, memory_bytes : (n,) int64
    reason : (n,) int64
        Place in `REASONS`.
    """

    step_ns: Int64
    memory_bytes: Int64
    reason: Int64


def bound(columns: Columns) -> Bounds:
    """Bound the step of every candidate from below.

    Parameters
    ----------
    columns : Columns

    Returns
    -------
    Bounds

    Notes
    -----
    A step runs from one end of rank 0's optimizer to the next. With t_r what rank r does after the norm of the
    gradients, f_r and d_r the way of the first micro-batch to it and of the last one back, W_r its work and P_r that
    part of it that gradients of inputs need, g_r its waits for messages, x_r its exposed reductions, b_r the
    reduction behind its last gradient and n_r its part of the norm, for every r

        T >= max(t_0 + f_r, t_r) + g_r + max(W_r + x_r + b_r + n_r, P_r + x_r + d_r + n_0)

    where all ranks meet at the norm. Where they do not (no optimizer), rank 0's own work bounds the step, and the way
    there and back through every other rank. Reductions that may be hidden begin no earlier than the last backward.
    Transfers of one stream follow each other between one optimizer step and the next. A CPU thread issues a whole step
    in each period.

    Whatever is left out, from launches that the GPU waits for to shared links, only takes longer.
    """
    c = columns
    first = np.arange(PLACES) == 0
    start = np.maximum(c.update_ns[:, :1] + c.fill_ns, c.update_ns)
    chained, together = c.chained[:, None], c.together[:, None]
    own = start + c.gaps_ns + c.work_ns + c.exposed_ns + c.behind_ns + c.norm_ns
    through = start + c.gaps_ns + c.passes_ns + c.exposed_ns + c.drain_ns + c.norm_ns[:, :1]
    beside = start + c.gaps_ns + c.work_ns - c.last_ns + c.hidden_ns + c.norm_ns
    stream = c.stream_ns + c.norm_ns + c.update_ns
    own, beside, stream, issue = (np.where(together | first, each, 0) for each in (own, beside, stream, c.issue_ns))
    through = np.where(chained, through, 0)
    ways = np.stack([each.max(axis=1) for each in (np.maximum(own, through), beside, stream, issue)])
    return Bounds(step_ns=ways.max(axis=0), memory_bytes=c.memory_bytes.max(axis=1), reason=ways.argmax(axis=0))
