"""The links between leaves and the spine, and which of them a flow takes."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.errors import TopologyError
from simgpu.hardware.fabric import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Trunks:
    """Uplinks of the leaves, by their positions among the cluster's links.

    Parameters
    ----------
    fabric : Fabric
    nics : int
        NICs of one node.
    first : int
        Position of the first leaf's first uplink; of each, the way up comes before the way down.
    uplinks : int
        Of each leaf.
    absent : frozenset of int
        Positions of those that are out of order.
    """

    fabric: Fabric
    nics: int
    first: int
    uplinks: int
    absent: frozenset[int] = frozenset()

    def between(self, source: tuple[int, int], target: tuple[int, int], flow: int) -> tuple[int, ...]:
        """Links from one NIC's leaf to another's.

        Parameters
        ----------
        source, target : tuple of int
            Node and NIC.
        flow : int
            Which of the two NICs' queue pairs.

        Returns
        -------
        tuple of int
            Empty when both NICs are on one leaf.

        Raises
        ------
        TopologyError
            When no spine is left that joins the two leaves.

        Examples
        --------
        >>> fabric = Fabric(kind="fat_tree", nodes_per_leaf=1, oversubscription=1.0)
        >>> Trunks(fabric=fabric, nics=1, first=100, uplinks=1).between((0, 0), (2, 0), 0)
        (100, 105)
        """
        leaf, other = (self.fabric.leaf(*end, self.nics) for end in (source, target))
        if leaf == other:
            return ()
        ways = [(self._up(leaf, spine), self._up(other, spine) + 1) for spine in range(self.uplinks)]
        if self.absent:
            ways = [way for way in ways if self.absent.isdisjoint(way)]
        if not ways:
            names = " to ".join(self.fabric.leaf_name(end, self.nics) for end in (leaf, other))
            raise TopologyError(f"no spine is left that joins {names}")
        return ways[self.fabric.spine((*source, *target, flow), len(ways))]

    def _up(self, leaf: int, spine: int) -> int:
        return self.first + 2 * (leaf * self.uplinks + spine)
