"""How busy every link was over the step: pieces of constant rate, from the flows the engine recorded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simgpu.timeline import Float64, Int64, Timeline

Rates = tuple[Int64, Float64]


def link_rates(timeline: Timeline) -> Mapping[int, Rates]:
    """Return the rate of every link that carried something in the reported step.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    mapping of int to (times_ns, rates)
        By index into ``Program.links``. ``times_ns`` (n,) int64, nanoseconds since the step began, ascending, from 0;
        ``rates`` (n,) float64, bytes per second from that time to the next; the last is 0, at the end of the step.

    Notes
    -----
    ``Flows.rate_per_ns`` is a transfer's progress; link l carries ``load_l`` bytes times it, and a class of alike
    transfers counts as often as it stands on the link.
    """
    flows, program = timeline.flows, timeline.program
    begin, end = timeline.window_ns
    changes: dict[int, list[Rates]] = {}
    inside = (flows.end_ns > begin) & (flows.start_ns < end)
    for number in np.unique(flows.transfer[inside]).tolist():
        mine = inside & (flows.transfer == number)
        starts = np.maximum(flows.start_ns[mine], begin) - begin
        ends = np.minimum(flows.end_ns[mine], end) - begin
        rate = flows.rate_per_ns[mine] * 1e9
        for load in program.transfers[timeline.transfers[number]].loads:
            carried = rate * load.bytes * load.count
            changes.setdefault(load.link, []).append(
                (np.concatenate([starts, ends]), np.concatenate([carried, -carried]))
            )
    return {link: _summed(found, end - begin) for link, found in sorted(changes.items())}


def _summed(changes: list[Rates], length_ns: int) -> Rates:
    times = np.concatenate([np.array([0, length_ns], dtype=np.int64), *(time for time, _ in changes)])
    steps = np.concatenate([np.zeros(2), *(step for _, step in changes)])
    unique, where = np.unique(times, return_inverse=True)
    rates: Float64 = np.cumsum(np.bincount(where, weights=steps, minlength=len(unique)).astype(np.float64))
    rates[np.abs(rates) < 1.0] = 0.0  # rounding of sums that cancel; less than a byte per second
    return unique, rates
