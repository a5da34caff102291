"""GPipe: all forwards, then all backwards."""

from __future__ import annotations

from simgpu.parallel.schedules.action import Action


def gpipe(stages: int, microbatches: int, stage: int) -> tuple[Action, ...]:
    """Order of one stage under GPipe.

    Notes
    -----
    Bubble time (p-1)(F+B) per step and m live activations on every stage; backwards run in microbatch order, as
    PyTorch's ScheduleGPipe does.

    References
    ----------
    Y. Huang et al., arXiv 1811.06965.

    Examples
    --------
    >>> " ".join(map(str, gpipe(2, 3, 1)))
    '1F0 1F1 1F2 1B0 1B1 1B2'
    """
    del stages  # every stage does the same
    return tuple(Action(stage, kind, m) for kind in "FB" for m in range(microbatches))
