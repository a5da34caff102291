"""Rings on NVLinks that join GPUs directly, without a switch: as many Hamiltonian cycles as the links have room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Cycle = tuple[int, ...]
Edge = tuple[int, int]

# The search is exact on all machines built so far (eight GPUs: the cube mesh has 30 cycles, a full mesh 2,520). The
# bounds only keep a made-up machine from taking forever; they count work, not time, so the answer is reproducible.
_MOST_CYCLES: Final = 4096
_MOST_STEPS: Final = 50_000


def pack_cycles(members: Sequence[int], room: Mapping[Edge, int]) -> tuple[Cycle, ...]:
    """Find the most cycles through all members that fit on the links together.

    Every cycle is run both ways round by one channel each, so a link of ``room`` 2 carries two channels in each
    direction.

    Parameters
    ----------
    members : sequence of int
        Three or more, in ascending order.
    room : mapping of (int, int) to int
        Channels that the link between two members (the smaller first) carries in each direction.

    Returns
    -------
    tuple of tuple of int
        Cycles as orders of the members, the first one first; the same cycle may come twice. Empty when there is none.

    Examples
    --------
    >>> pack_cycles((0, 1, 2), {(0, 1): 1, (0, 2): 1, (1, 2): 2})
    ((0, 1, 2),)
    """
    left = dict(room)
    candidates = _cycles(members, left)
    # Cycles on wide links first: they leave the narrow ones, which are scarce, to the others.
    candidates.sort(key=lambda cycle: (-sum(left[edge] for edge in _edges(cycle)), cycle))
    edges = [_edges(cycle) for cycle in candidates]
    best: list[int] = []
    chosen: list[int] = []
    steps = 0
    at = {member: [edge for edge in left if member in edge] for member in members}

    def bound() -> int:
        return min(sum(left[edge] for edge in at[member]) // 2 for member in members)

    def extend(start: int) -> bool:
        """Add cycles from ``start`` on; True when no better packing can exist or the search has gone on enough."""
        nonlocal best, steps
        if len(chosen) > len(best):
            best = chosen.copy()
        if len(chosen) + bound() <= len(best):
            return False
        for index in range(start, len(candidates)):
            steps += 1
            if steps > _MOST_STEPS:
                return True
            if all(left[edge] > 0 for edge in edges[index]):
                for edge in edges[index]:
                    left[edge] -= 1
                chosen.append(index)
                done = extend(index)
                chosen.pop()
                for edge in edges[index]:
                    left[edge] += 1
                if done or len(best) == limit:
                    return True
        return False

    limit = bound()
    extend(0)
    return tuple(candidates[index] for index in best)


def _cycles(members: Sequence[int], room: Mapping[Edge, int]) -> list[Cycle]:
    """All Hamiltonian cycles, each once: it starts at the first member and its second is below its last."""
    first = members[0]
    near = {a: [b for b in members if room.get((min(a, b), max(a, b)), 0) > 0] for a in members}
    found: list[Cycle] = []
    path = [first]

    def walk() -> None:
        if len(found) >= _MOST_CYCLES:
            return
        if len(path) == len(members):
            if path[1] < path[-1] and first in near[path[-1]]:
                found.append(tuple(path))
            return
        for following in near[path[-1]]:
            if following not in path:
                path.append(following)
                walk()
                path.pop()

    walk()
    return found


def _edges(cycle: Cycle) -> list[Edge]:
    return [(min(a, b), max(a, b)) for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
