"""How much of each kind of transfer kernels ran beside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simgpu.metrics.communication import step_calls
from simgpu.metrics.step_sums import common_ns, on_one_axis, running_ns, step_rows
from simgpu.timeline import Timeline, reported

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
    step = timeline.derived(reported)
    program, spans, calls = step.program, step.spans, step.derived(step_calls)
    begin, _ = step.window_ns
    found: dict[Kind, tuple[int, int]] = {}
    width = len(calls.listed)
    for rows in step_rows(timeline):
        ranks = spans.rank[calls.row]
        mine = slice(*np.searchsorted(ranks, [rows.ranks.start, rows.ranks.stop]).tolist())
        row, rank = calls.row[mine], ranks[mine]
        low, high = on_one_axis(rows, rank, spans.start_ns[row] - begin, spans.end_ns[row] - begin)
        pair = rank * width + calls.which[mine]
        hidden = np.bincount(pair, weights=common_ns(running_ns(rows), (low, high)))
        length = np.bincount(pair, weights=high - low)
        for number in np.flatnonzero(np.bincount(pair)).tolist():
            communicator, transfer = calls.listed[number % width]
            axis = program.communicators[communicator].axis
            key = (program.ranks[number // width].members[0], axis, transfer.kind, transfer.bytes)
            before = found.get(key, (0, 0))
            found[key] = (before[0] + int(hidden[number]), before[1] + int(length[number]))
    return {key: hidden / total if total else 0.0 for key, (hidden, total) in found.items()}
