"""How much of each kind of transfer kernels ran beside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simgpu.metrics.communication import Calls
from simgpu.metrics.step_sums import StepSums, common_ns
from simgpu.timeline import Timeline

Kind = tuple[int, str, str, int]
"""Rank, axis, kind and bytes: what a `TransferReport` is about."""


def hidden_shares(timeline: Timeline) -> Mapping[Kind, float]:
    """Return the share of the time of transfers during which kernels ran on the rank's compute stream.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    mapping of (rank, axis, kind, bytes) to float
        0 when the rank computed nothing meanwhile, 1 when all of it was hidden; of what lies in the reported step.

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("zero_stages").cases[0])  # DDP's buckets
    >>> sorted(f"{share:.0%}" for share in hidden_shares(timeline).values())[-1]
    '100%'
    """
    program, spans = timeline.program, timeline.spans
    begin, end = timeline.window_ns
    sums, calls = StepSums(timeline), Calls(timeline)
    found: dict[Kind, tuple[int, int]] = {}
    for rank, binding in enumerate(program.ranks):
        running = sums.running_ns(rank)
        for stream in timeline.streams:
            rows, which = calls.between(rank, stream, begin, end)
            low, high = spans.start_ns[rows], np.minimum(spans.end_ns[rows], end)
            hidden = np.bincount(which, weights=common_ns(running, (low, high)), minlength=len(calls.listed))
            length = np.bincount(which, weights=high - low, minlength=len(calls.listed))
            for number in np.unique(which).tolist():
                communicator, transfer = calls.listed[number]
                axis = program.communicators[communicator].axis
                key = (binding.members[0], axis, transfer.kind, transfer.bytes)
                before = found.get(key, (0, 0))
                found[key] = (before[0] + int(hidden[number]), before[1] + int(length[number]))
    return {key: hidden / total if total else 0.0 for key, (hidden, total) in found.items()}
