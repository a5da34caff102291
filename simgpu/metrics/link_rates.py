"""How busy every link was over the step: pieces of constant rate, from the flows the engine recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simgpu.metrics.numbering import distinct
from simgpu.timeline import Float64, Int64, Timeline

Rates = tuple[Int64, Float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkUse:
    """One link over the step.

    Parameters
    ----------
    name, kind : str
    bytes_per_s : int
        Its capacity, bytes per second.
    times_ns : (n,) int64, nanoseconds since the step began
        Ascending, from 0 to the end of the step.
    use : mapping of str to (n,) float64
        By axis of the transfers: part of the capacity in use from each time to the next; 0 at the last.
    """

    name: str
    kind: str
    bytes_per_s: int
    times_ns: Int64
    use: Mapping[str, Float64]

    @property
    def total(self) -> Float64:
        """Part of the capacity in use, all axes together, (n,)."""
        total: Float64 = np.sum(list(self.use.values()), axis=0)
        return total

    @property
    def mean(self) -> float:
        """Part of the capacity in use, mean over the step."""
        length = self.times_ns[-1] - self.times_ns[0]
        return float((self.total[:-1] * np.diff(self.times_ns)).sum() / length) if length else 0.0


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

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("four_vs_eight").cases[0])
    >>> [timeline.program.links[link].name for link in link_rates(timeline)]
    ['node0/gpu0->nvswitch0']
    """
    return {link: _summed(list(axes.values()), _length_ns(timeline)) for link, axes in _changes(timeline).items()}


def busiest_links(timeline: Timeline) -> tuple[LinkUse, ...]:
    """Return, of each kind of link, the one that was busiest over the reported step.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    tuple of LinkUse
        The busiest first.

    Examples
    --------
    >>> import simgpu
    >>> case = simgpu.load_scenario("four_vs_eight").cases[0]
    >>> [(one.kind, *one.use) for one in busiest_links(simgpu.play_case(case))]
    [('nvlink', 'dp')]
    """
    program = timeline.program
    found: dict[str, LinkUse] = {}
    for link, changes in _changes(timeline).items():
        one = program.links[link]
        axes = {axis: _summed([steps], _length_ns(timeline)) for axis, steps in changes.items()}
        times = distinct(np.concatenate([times for times, _ in axes.values()]))
        use = {
            axis: rates[np.searchsorted(own, times, "right") - 1] / one.bytes_per_s
            for axis, (own, rates) in sorted(axes.items())
        }
        of_link = LinkUse(name=one.name, kind=one.kind, bytes_per_s=one.bytes_per_s, times_ns=times, use=use)
        if one.kind not in found or of_link.mean > found[one.kind].mean:
            found[one.kind] = of_link
    return tuple(sorted(found.values(), key=lambda one: -one.mean))


def _length_ns(timeline: Timeline) -> int:
    begin, end = timeline.window_ns
    return end - begin


def _changes(timeline: Timeline) -> dict[int, dict[str, Rates]]:
    """Return times and changes of the rate of every link, by axis; in no order."""
    flows, program = timeline.flows, timeline.program
    begin, end = timeline.window_ns
    changes: dict[int, dict[str, list[Rates]]] = {}
    inside = np.flatnonzero((flows.end_ns > begin) & (flows.start_ns < end))
    inside = inside[np.argsort(flows.transfer[inside], kind="stable")]
    numbers, firsts = np.unique(flows.transfer[inside], return_index=True)
    for number, mine in zip(numbers.tolist(), np.split(inside, firsts[1:]), strict=False):
        group, transfer = timeline.transfers[number]
        axis = program.communicators[program.groups[group].communicator].axis
        starts = np.maximum(flows.start_ns[mine], begin) - begin
        ends = np.minimum(flows.end_ns[mine], end) - begin
        rate = flows.rate_per_ns[mine] * 1e9
        for load in program.transfers[group, transfer].loads:
            carried = rate * load.bytes * load.count
            steps = (np.concatenate([starts, ends]), np.concatenate([carried, -carried]))
            changes.setdefault(load.link, {}).setdefault(axis, []).append(steps)
    return {
        link: {axis: _joined(steps) for axis, steps in sorted(axes.items())} for link, axes in sorted(changes.items())
    }


def _joined(steps: list[Rates]) -> Rates:
    return np.concatenate([times for times, _ in steps]), np.concatenate([change for _, change in steps])


def _summed(changes: list[Rates], length_ns: int) -> Rates:
    times = np.concatenate([np.array([0, length_ns], dtype=np.int64), *(time for time, _ in changes)])
    steps = np.concatenate([np.zeros(2), *(step for _, step in changes)])
    unique, where = np.unique(times, return_inverse=True)
    rates: Float64 = np.cumsum(np.bincount(where, weights=steps, minlength=len(unique)).astype(np.float64))
    rates[np.abs(rates) < 1.0] = 0.0  # rounding of sums that cancel; less than a byte per second
    return unique, rates
