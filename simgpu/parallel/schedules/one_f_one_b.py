"""1F1B (PipeDream-Flush): a warm-up of forwards, then one forward and one backward in turn, then the rest."""

from __future__ import annotations

from simgpu.parallel.schedules.action import Action


def one_f_one_b(stages: int, microbatches: int, stage: int) -> tuple[Action, ...]:
    """Order of one stage under 1F1B.

    Notes
    -----
    Warm-up min(p - 1 - stage, m) forwards; bubble time (p-1)(F+B), live activations min(m, p - stage).
    With one stage this is plain gradient accumulation.

    References
    ----------
    D. Narayanan et al., arXiv 2104.04473; Megatron-LM core/pipeline_parallel/schedules.py.

    Examples
    --------
    >>> " ".join(map(str, one_f_one_b(3, 4, 1)))
    '1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3'
    """
    warm_up = min(stages - 1 - stage, microbatches)
    actions = [Action(stage, "F", m) for m in range(warm_up)]
    for m in range(microbatches - warm_up):
        actions += [Action(stage, "F", warm_up + m), Action(stage, "B", m)]
    actions += [Action(stage, "B", m) for m in range(microbatches - warm_up, microbatches)]
    return tuple(actions)
