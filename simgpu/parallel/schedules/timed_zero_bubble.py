"""ZB-2p: a zero-bubble schedule made for given times of forward, input gradient, weight gradient and message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.table import OrderWriter, PipelineSchedule

_KEPT: Final = 0.5
"""Share of a micro-batch's activations that lasts from its input gradient to its weight gradient: 32 of the
34 + 5 a s / h bytes per element that a layer keeps (arXiv 2401.10241, section 2.3; 0.43 in its models)."""
_NEGLIGIBLE: Final = 1e-9  # of times that are equal but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """What a micro-batch takes on a stage, the same on every one, in any unit.

    Parameters
    ----------
    forward, input_gradient, weight_gradient : float
    message : float
        From stage to stage.
    """

    forward: float = 1.0
    input_gradient: float = 1.0
    weight_gradient: float = 1.0
    message: float = 0.0


EQUAL: Final = StageTimes()
"""Forward, input and weight gradient take the same time, messages none."""


def zb2p_schedule(ranks: int, virtual: int, microbatches: int, times: StageTimes = EQUAL) -> PipelineSchedule:
    """ZB-2p: the automatic schedule of zero-bubble pipelines with memory for the activations of 2p micro-batches.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 1.
    times : StageTimes

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Before its first input gradient a rank does as many forwards as fit in the wait for it, one more at least than the
    next rank. Then it alternates; it puts a weight gradient before an input gradient or forward that is not there yet
    where it fits in the wait, or where the wait would make this rank the one that has idled longest, and before a
    forward that memory has no room for. What is left comes last. No ranks meet at the step's end: the optimizer's step
    is checked afterwards, so that the bubble is that of the rank that takes longest from its first action to its last.

    References
    ----------
    P. Qi et al., arXiv 2401.10241, section 3.1.

    Examples
    --------
    >>> schedule = zb2p_schedule(2, 1, 4, StageTimes(forward=3, input_gradient=3, weight_gradient=2))
    >>> " ".join(map(str, schedule.order(0)))
    '0F0 0F1 0F2 0I0 0F3 0I1 0W0 0W1 0I2 0W2 0I3 0W3'
    """
    line = [_Rank(times=times, start=rank * (times.forward + times.message), stage=rank) for rank in range(ranks)]
    for rank, forwards in zip(line, _warm_up(line, microbatches, times), strict=True):
        rank.forwards(forwards)
    while any(len(rank.gradients) < microbatches for rank in line):
        longest = max(rank.idle for rank in line)
        for index in reversed(range(ranks)):
            rank, done = line[index], len(line[index].gradients)
            if done < microbatches:
                there = rank.outputs[done] if index == ranks - 1 else line[index + 1].gradients[done] + times.message
                rank.fill(there, longest)
                rank.do("I", there)
                longest = max(longest, rank.idle)
        for index, rank in enumerate(line):
            done = len(rank.outputs)
            if done < microbatches and rank.make_room(2 * ranks):
                there = 0.0 if index == 0 else line[index - 1].outputs[done] + times.message
                rank.fill(there, longest)
                rank.do("F", there)
                longest = max(longest, rank.idle)
    rows = []
    for rank in line:
        rank.writer.weights()
        rows.append(rank.writer.row())
    return PipelineSchedule(name="zb2p", placement=loop(ranks, virtual), microbatches=microbatches, rows=tuple(rows))


def _warm_up(line: list[_Rank], microbatches: int, times: StageTimes) -> list[int]:
    """Return how many forwards each rank does before its first input gradient.

    A rank that memory stops early has fewer than fit, and so have the ranks behind it, which must stay one behind.
    """
    most, counts = 2 * len(line), list[int]()
    arrival = line[-1].start + times.forward
    for rank in reversed(line):
        fitting = int((arrival - rank.start) / times.forward + _NEGLIGIBLE) if times.forward > 0 else 1
        counts.append(max(fitting, counts[-1] + 1 if counts else 1))
        begin = max(arrival, rank.start + counts[-1] * times.forward)
        arrival = begin + times.input_gradient + times.message
    return [min(count, most - index, microbatches) for index, count in enumerate(reversed(counts))]


@dataclass(slots=True, kw_only=True)
class _Rank:
    """A rank whose row is under way."""

    times: StageTimes
    start: float
    stage: int
    now: float = 0.0
    idle: float = 0.0
    weights: int = 0
    outputs: list[float] = field(default_factory=list)  # when each forward ended
    gradients: list[float] = field(default_factory=list)  # when each input gradient ended
    writer: OrderWriter = field(default_factory=OrderWriter)

    def __post_init__(self) -> None:
        self.now = self.start

    @property
    def owed(self) -> bool:
        """There is a weight gradient to do."""
        return self.weights < len(self.gradients)

    @property
    def held(self) -> float:
        """Activations that are alive, in micro-batches."""
        return len(self.outputs) - len(self.gradients) * (1 - _KEPT) - self.weights * _KEPT

    def forwards(self, count: int) -> None:
        for _ in range(count):
            self.do("F", self.now)

    def do(self, kind: str, there: float) -> None:
        """Append the next forward or input gradient, whose input is there then."""
        begin = max(self.now, there)
        self.idle += begin - self.now
        self.now = begin + (self.times.forward if kind == "F" else self.times.input_gradient)
        (self.outputs if kind == "F" else self.gradients).append(self.now)
        self.writer.do(kind, self.stage)

    def weight(self) -> None:
        self.now += self.times.weight_gradient
        self.weights += 1
        self.writer.weight()

    def fill(self, there: float, longest: float) -> None:
        """Put weight gradients into the wait for an input."""
        while self.owed and there - self.now > _NEGLIGIBLE:
            wait = there - self.now
            if wait < self.times.weight_gradient - _NEGLIGIBLE and self.idle + wait <= longest + _NEGLIGIBLE:
                return
            self.weight()

    def make_room(self, limit: int) -> bool:
        """Do weight gradients until a forward more fits in memory; False when none does."""
        while self.held + 1 > limit + _NEGLIGIBLE and self.owed:
            self.weight()
        return self.held + 1 <= limit + _NEGLIGIBLE
