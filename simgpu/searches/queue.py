"""Candidates in the order of their bounds, which are sharpened only for those that come to the front."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from simgpu.searches.bound import REASONS, bound
from simgpu.searches.candidates import Candidate
from simgpu.searches.estimate import Estimator

SCHEDULE: Final = "its schedule"
PIPELINE: Final = "its pipeline without contention"
_AT_ONCE: Final = 32  # candidates whose bounds are sharpened together


class Bounded(NamedTuple):
    """A candidate and what it cannot go below; sorts by bound, then in canonical order.

    Parameters
    ----------
    step_ns : int, nanoseconds
    place : int
        Of the candidate in canonical order.
    memory_bytes : int
    reason : str
        What the bound rests on.
    """

    step_ns: int
    place: int
    memory_bytes: int
    reason: str


@dataclass(slots=True)
class BoundQueue:
    """Hands out candidates, lowest bound first.

    Parameters
    ----------
    candidates : sequence of Candidate
    estimator : Estimator
    capacity_bytes : int
        Memory of a device; candidates that need more are never handed out.

    Attributes
    ----------
    bounds : dict of int to Bounded
        Of every candidate that can be laid out, as sharp as it is by now.
    wrong : dict of int to str
        Why others cannot.
    """

    candidates: Sequence[Candidate]
    estimator: Estimator
    capacity_bytes: int
    bounds: dict[int, Bounded] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    _rough: list[Bounded] = field(default_factory=list)  # last comes first
    _sharp: list[Bounded] = field(default_factory=list)  # a heap
    _walked: set[int] = field(default_factory=set)  # places whose schedule was played
    _played: set[int] = field(default_factory=set)  # places whose first pipeline was

    def __post_init__(self) -> None:
        found = self._bound(self.candidates, transfers=False)
        self._rough = sorted((one for one in found if one.memory_bytes <= self.capacity_bytes), reverse=True)

    @property
    def lowest(self) -> tuple[int, int] | None:
        """Bound and place that none of the candidates left is below; None when none is left."""
        fronts = [*self._rough[-1:], *self._sharp[:1]]
        return min(((one.step_ns, one.place) for one in fronts), default=None)

    def below(self, best: tuple[int, int] | None, known: Container[int]) -> int:
        """Count the candidates that fit by their bounds, are not known yet and may be faster than the best one."""
        return sum(
            one.place not in known
            and one.memory_bytes <= self.capacity_bytes
            and (best is None or (one.step_ns, one.place) < best)
            for one in self.bounds.values()
        )

    def __iter__(self) -> Iterator[Bounded]:
        return self

    def __next__(self) -> Bounded:
        """Return the next candidate; none that comes later has a lower bound.

        Raises
        ------
        StopIteration
            When none is left.
        """
        one = self._front()
        while one is not None:
            if one.place in self._played:
                return one
            self._sharpen(one)
            one = self._front()
        raise StopIteration

    def pick(self, among: int) -> list[Bounded]:
        """Take the best of the first few ahead of the others: its simulation can begin while those are bounded.

        Parameters
        ----------
        among : int
            Candidates to play first.

        Returns
        -------
        list of Bounded
            None or one; it does not come again.
        """
        one = self._front()
        while one is not None and one.place not in self._played and len(self._played) < among:
            self._sharpen(one)
            one = self._front()
        if one is not None:
            heappush(self._sharp, one)
        best = min((one for one in self._sharp if one.place in self._played), default=None)
        if best is None:
            return []
        self._sharp.remove(best)
        heapify(self._sharp)
        return [best]

    def _front(self) -> Bounded | None:
        """Take the candidate whose bound is the lowest so far."""
        while self._rough and (not self._sharp or self._rough[-1] < self._sharp[0]):
            chosen = [self._rough.pop() for _ in range(min(_AT_ONCE, len(self._rough)))]
            for one in self._bound([self.candidates[each.place] for each in chosen], transfers=True):
                heappush(self._sharp, one)
        return heappop(self._sharp) if self._sharp else None

    def _sharpen(self, one: Bounded) -> None:
        """Sharpen a bound by a step more, and put it where it belongs then."""
        candidate, memory_bytes = self.candidates[one.place], one.memory_bytes
        if one.place not in self._walked:
            self._walked.add(one.place)
            (step_ns, memory_bytes), reason = self.estimator.walked(candidate), SCHEDULE
        else:
            self._played.add(one.place)
            step_ns, reason = self.estimator.played_ns(candidate), PIPELINE
        if step_ns > one.step_ns:
            one = one._replace(step_ns=step_ns, reason=reason)
        one = self.bounds[one.place] = one._replace(memory_bytes=max(memory_bytes, one.memory_bytes))
        if one.memory_bytes <= self.capacity_bytes:
            heappush(self._sharp, one)

    def _bound(self, candidates: Sequence[Candidate], *, transfers: bool) -> list[Bounded]:
        columns, wrong = self.estimator.columns(candidates, transfers=transfers)
        self.wrong |= {candidates[row].index: reason for row, reason in wrong.items()}
        bounds = bound(columns)
        found = [
            Bounded(step_ns, candidate.index, memory_bytes, REASONS[reason])
            for row, (candidate, step_ns, memory_bytes, reason) in enumerate(
                zip(
                    candidates,
                    bounds.step_ns.tolist(),
                    bounds.memory_bytes.tolist(),
                    bounds.reason.tolist(),
                    strict=True,
                )
            )
            if row not in wrong
        ]
        self.bounds |= {one.place: one for one in found}
        return found
