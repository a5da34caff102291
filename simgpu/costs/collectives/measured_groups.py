"""Times of collectives that a user measured on the machine itself; they go before everything that SimGPU knows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from types import MappingProxyType
from typing import Final

_NS: Final = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSeries:
    """Times of one collective on one number of ranks and nodes.

    Parameters
    ----------
    kind : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all`` or ``send_recv``.
    ranks, nodes : int
    times_us : mapping of int to float
        Microseconds by payload in bytes.
    """

    kind: str
    ranks: int
    nodes: int
    times_us: Mapping[int, float]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCollectives:
    """What was measured, by collective and size of the group. Compared by identity, so that prices can be remembered.

    Parameters
    ----------
    series : iterable of MeasuredSeries
        Of several series of one group the later ones add their sizes; of one size the latest time counts.

    Notes
    -----
    Between two measured sizes log time is linear in log size. Below the smallest and above the largest the model's time
    counts, times what it was off there. Where a larger payload was measured to be faster than a smaller one, it takes
    as long as that.

    Examples
    --------
    >>> ring = MeasuredSeries(kind="all_reduce", ranks=8, nodes=1, times_us={1_000_000: 50.0, 4_000_000: 200.0})
    >>> measured = MeasuredCollectives([ring])
    >>> round(measured.time_ns("all_reduce", 8, 1, 2_000_000, float))
    100000
    >>> measured.time_ns("all_reduce", 8, 1, 8_000_000, lambda size: size / 100)  # the model is at a fifth of it
    400000.0
    >>> measured.time_ns("all_reduce", 4, 1, 2_000_000, float) is None
    True
    """

    series: Iterable[MeasuredSeries] = field(repr=False)
    _times: Mapping[tuple[str, int, int], tuple[tuple[int, ...], tuple[float, ...]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        listed = tuple(self.series)
        merged: dict[tuple[str, int, int], dict[int, float]] = {}
        for one in listed:
            merged.setdefault((one.kind, one.ranks, one.nodes), {}).update(one.times_us)
        times = {
            key: (tuple(sorted(found)), tuple(accumulate((found[size] * _NS for size in sorted(found)), max)))
            for key, found in merged.items()
            if found
        }
        object.__setattr__(self, "series", listed)
        object.__setattr__(self, "_times", MappingProxyType(times))

    @property
    def groups(self) -> tuple[tuple[str, int, int], ...]:
        """Collective, ranks and nodes of every series."""
        return tuple(self._times)

    def time_ns(
        self, kind: str, ranks: int, nodes: int, bytes: int, modelled_ns: Callable[[int], float]
    ) -> float | None:
        """Return the measured time of a collective; None where its group was not measured.

        Parameters
        ----------
        kind : str
        ranks, nodes : int
        bytes : int
            Payload, at least 1.
        modelled_ns : callable
            The model's time in nanoseconds of a payload in bytes.

        Returns
        -------
        float or None, nanoseconds
        """
        if (kind, ranks, nodes) not in self._times:
            return None
        sizes, times = self._times[kind, ranks, nodes]
        place = bisect_left(sizes, bytes)
        if place < len(sizes) and sizes[place] == bytes:
            return times[place]
        if place in (0, len(sizes)):
            edge = 0 if place == 0 else -1
            return times[edge] * modelled_ns(bytes) / modelled_ns(sizes[edge])
        share = math.log(bytes / sizes[place - 1]) / math.log(sizes[place] / sizes[place - 1])
        return math.exp(math.log(times[place - 1]) * (1 - share) + math.log(times[place]) * share)
