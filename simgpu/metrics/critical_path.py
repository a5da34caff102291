"""The critical path: the chain of ops that decides the step, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from simgpu.metrics.activity import CLASSES
from simgpu.metrics.critical_link import GAP, Link
from simgpu.metrics.critical_walk import walk_back
from simgpu.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Links that follow each other on one rank and belong to one pass, such as the forward of a micro-batch.

    Parameters
    ----------
    rank : int
        Representative of its class.
    phase : str
        ``forward``, ``backward``, ``recompute``, ``optimizer`` or empty.
    microbatch : int
        -1 when there is none.
    start_ns, end_ns : int, nanoseconds
        Relative to the start of the step.
    links : int
        How many links it is made of.
    breakdown_ns : mapping
        Nanoseconds by accounting class; sum to its length.
    released_by : str
        What let its first link begin; see `Link`.
    """

    rank: int
    phase: str
    microbatch: int
    start_ns: int
    end_ns: int
    links: int
    breakdown_ns: Mapping[str, int]
    released_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The chain of ops from the end of the reported step back to its start.

    Each link begins when the one before it ends, so that their lengths sum to the step, exactly.

    Parameters
    ----------
    links : tuple of Link
        In order of time.
    """

    links: tuple[Link, ...]

    @property
    def breakdown_ns(self) -> dict[str, int]:
        """Nanoseconds on the path by accounting class, those without any left out; sum to the step."""
        return breakdown_of(self.links)

    @property
    def rank_ns(self) -> dict[int, int]:
        """Nanoseconds on the path by rank, in the order in which the path meets them."""
        found: dict[int, int] = {}
        for link in self.links:
            found[link.rank] = found.get(link.rank, 0) + link.duration_ns
        return found

    @property
    def crossings(self) -> int:
        """How often the path changes from one rank to another."""
        ranks = [link.rank for link in self.links]
        return sum(one != other for one, other in pairwise(ranks))

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The path by passes: neighbouring links of one rank, phase and micro-batch taken together."""
        found: list[list[Link]] = []
        for link in self.links:
            if found and _same_pass(found[-1][-1], link):
                found[-1].append(link)
            else:
                found.append([link])
        return tuple(_stretch(links) for links in found)

    def __str__(self) -> str:
        """Say how long the chain is, and where most of it runs."""
        if not self.links:
            return "nothing takes time"
        ranks = self.rank_ns
        rank, most = max(ranks.items(), key=lambda item: item[1])
        total = sum(ranks.values())
        ops = f"{len(self.links):,} op{'s' if len(self.links) > 1 else ''}"
        if len(ranks) == 1:
            return f"{ops}, all on rank {rank}"
        return f"{ops}, {self.crossings:,} times from one rank to another, {most / total:.0%} of it on rank {rank}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``; docs/json.md has the keys."""
        return {
            "breakdown_ns": self.breakdown_ns,
            "rank_ns": {str(rank): time for rank, time in self.rank_ns.items()},
            "links": len(self.links),
            "crossings": self.crossings,
            "stretches": [
                {
                    "rank": one.rank,
                    "phase": one.phase,
                    "microbatch": one.microbatch,
                    "start_ns": one.start_ns,
                    "end_ns": one.end_ns,
                    "links": one.links,
                    "released_by": one.released_by,
                    "breakdown_ns": dict(one.breakdown_ns),
                }
                for one in self.stretches
            ],
        }


def critical_path(timeline: Timeline) -> CriticalPath:
    """Return the chain of ops that decides the reported step.

    The path starts where the step ends, at the last instruction of rank 0's compute stream, and goes back from each
    op to what released it: the op before it on its stream, the stream that recorded the event it waited for, the
    member that came last to its transfer, or the CPU that issued it. A nanosecond less in any one link is a nanosecond
    less in the step, as long as no other chain is as long.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    CriticalPath

    Notes
    -----
    Waits are never on the path: they end with what ended them. A transfer counts as exposed communication of its
    axis; time that the CPU needs to issue what is on the path counts as host. What no span explains, which the engine
    never leaves, would be a link named ``gap`` of class bubble.

    Examples
    --------
    >>> import simgpu
    >>> case = simgpu.load_scenario("pipeline_ideal").cases[0]  # 4 stages, 16 micro-batches of 1 and 2 ms
    >>> path = critical_path(simgpu.play_case(case))
    >>> sum(path.breakdown_ns.values()) / 1e6  # (16 + 3) x 3 ms
    57.0
    """
    return CriticalPath(links=tuple(reversed(walk_back(timeline))))


def breakdown_of(links: Sequence[Link]) -> dict[str, int]:
    """Sum the accounting of some links, in the order of CLASSES."""
    totals = dict.fromkeys(CLASSES, 0)
    for link in links:
        for name, duration in link.accounting:
            totals[name] += duration
    return {name: duration for name, duration in totals.items() if duration}


def _same_pass(one: Link, other: Link) -> bool:
    return (one.rank, one.phase, one.microbatch) == (other.rank, other.phase, other.microbatch) and GAP not in (
        one.name,
        other.name,
    )


def _stretch(links: Sequence[Link]) -> Stretch:
    first, last = links[0], links[-1]
    return Stretch(
        rank=first.rank,
        phase=first.phase,
        microbatch=first.microbatch,
        start_ns=first.start_ns,
        end_ns=last.end_ns,
        links=len(links),
        breakdown_ns=breakdown_of(links),
        released_by=first.released_by,
    )
