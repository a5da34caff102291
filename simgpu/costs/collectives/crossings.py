"""How often the shares of some bytes cross each link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from simgpu.costs.collectives.link_bytes import MANY, Int64, LinkBytes, columns, distinct_values

Share = Mapping[int, int] | tuple[Int64, Int64]
"""How often some bytes cross links: times by link, or links (which may come again) and times."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crossings:
    """How often equal shares of some bytes cross each link.

    Parameters
    ----------
    shares : int
        Parts that the bytes are cut in: channels, or halves of them.
    links : (n,) int64
        Links used, ascending.
    counts : (shares, n) int64
        ``counts[s, i]`` is how often shares 0 to s cross the i-th link in all.
    """

    shares: int
    links: Int64
    counts: Int64

    def loads(self, bytes: int) -> Mapping[int, int]:
        """Bytes on each link.

        Shares are whole bytes and sum to ``bytes``: the first ones take one byte more where it does not divide.

        Examples
        --------
        >>> crossings([{7: 1}, {7: 1, 9: 2}]).loads(101)
        {7: 101, 9: 100}
        """
        share, extra = divmod(bytes, self.shares)
        if not len(self.links):
            return {}
        loads = share * self.counts[-1]
        if extra:
            loads = loads + self.counts[extra - 1]
        found = LinkBytes(self.links, loads).where(loads > 0)
        return found if len(found) > MANY else dict(zip(found.links.tolist(), found.bytes.tolist(), strict=True))


def crossings(shares: Iterable[Share]) -> Crossings:
    """Sum up how often each share crosses each link.

    Parameters
    ----------
    shares : iterable of Share

    Returns
    -------
    Crossings
    """
    pairs = [columns(share) if isinstance(share, Mapping) else share for share in shares]
    crossed = np.concatenate([links for links, _ in pairs]) if pairs else np.zeros(0, np.int64)
    links, place = distinct_values(crossed)
    counts = np.zeros((len(pairs), len(links)), np.int64)
    begin = 0
    for number, (own, times) in enumerate(pairs):
        if number:
            counts[number] = counts[number - 1]
        np.add.at(counts[number], place[begin : begin + len(own)], times)
        begin += len(own)
    return Crossings(shares=len(pairs), links=links, counts=counts)
