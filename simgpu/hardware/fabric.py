"""The network between machines: NIC ports, leaf switches, and the spine that joins the leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from simgpu.hardware.link_type import LinkType, link_type
from simgpu.hardware.reading import Reading
from simgpu.units import QuantityError, parse_number

FIELDS: Final = ("kind", "nodes_per_leaf", "oversubscription", "link", "sharp", "routing", "queue_pairs", "hash_seed")
ROUTINGS: Final = ("spray", "ecmp")
_KINDS: Final[Mapping[str, str]] = {
    "rail": "rail",
    "rail_optimised": "rail",
    "rail_optimized": "rail",
    "fat_tree": "fat_tree",
}
# Half the ports of the usual 64-port switch face down.
_NODES_PER_LEAF: Final = 32
# Above what is built: one leaf for as many nodes as a cluster may have, and a thousandth of the bandwidth.
_MOST_NODES_PER_LEAF: Final = 65_536
_MOST_OVERSUBSCRIPTION: Final = 1000
# Two channels of NCCL on each NIC (src/graph/search.cc doubles them), one queue pair each; 64 is the most in use.
_QUEUE_PAIRS: Final = 2
_MOST_QUEUE_PAIRS: Final = 128
_MOST_HASH_SEED: Final = 2**32 - 1
_OVERSUBSCRIPTIONS: Final = f"1 (non-blocking) to {_MOST_OVERSUBSCRIPTION:,}, such as 4 for a quarter of the bandwidth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """How NICs meet in leaves and leaves in the spine.

    Parameters
    ----------
    kind : str
        ``rail``: NIC r of every node of a pod is on leaf r of the pod; ``fat_tree``: all NICs of a node share a leaf.
    nodes_per_leaf : int
        Nodes on one leaf, which with rails are the nodes of one pod.
    oversubscription : float
        Bandwidth from the NICs into a leaf over bandwidth from it to the spine.
    port : LinkType or None
        What the NICs' ports are, when not what the topology file says.
    sharp : bool
        The switches add up in the network (InfiniBand SHARP), so that NCCL's CollNet and multi-node NVLS can run.
    routing : str
        ``spray``: all uplinks of a leaf act as one link each way, as with packet spraying or adaptive routing;
        ``ecmp``: each queue pair between two NICs is hashed on one spine switch and stays there.
    queue_pairs : int
        Queue pairs that carry equal shares of what one NIC sends another, under ``ecmp``: NCCL's channels on that NIC
        times NCCL_IB_QPS_PER_CONNECTION.
    hash_seed : int
        Another seed, another placement of the flows; the same seed, the same.

    Notes
    -----
    Under ``ecmp`` a leaf has as many uplinks as NICs below it over the oversubscription. Q flows hashed on U uplinks
    put about Q/U + sqrt(2 Q/U ln U) on the busiest one, so that a non-blocking fabric loses bandwidth to collisions.
    """

    kind: str
    nodes_per_leaf: int
    oversubscription: float
    port: LinkType | None = None
    sharp: bool = False
    routing: str = "spray"
    queue_pairs: int = _QUEUE_PAIRS
    hash_seed: int = 0

    @property
    def flows(self) -> int:
        """Shares that the bytes between two NICs are cut in, each with a path of its own."""
        return self.queue_pairs if self.routing == "ecmp" else 1

    def nics_per_leaf(self, nodes: int, nics: int) -> int:
        """NICs on the fullest leaf of so many nodes with so many NICs each."""
        return min(nodes, self.nodes_per_leaf) * (1 if self.kind == "rail" else nics)

    def uplinks(self, nics: int) -> int:
        """Links of a leaf to the spine, each way.

        Parameters
        ----------
        nics : int
            NICs on the fullest leaf.

        Returns
        -------
        int

        Examples
        --------
        >>> Fabric(kind="rail", nodes_per_leaf=32, oversubscription=2.0, routing="ecmp").uplinks(32)
        16
        >>> Fabric(kind="rail", nodes_per_leaf=32, oversubscription=2.0).uplinks(32)
        1
        """
        return max(1, round(nics / self.oversubscription)) if self.routing == "ecmp" else 1

    def spine(self, flow: tuple[int, int, int, int, int], uplinks: int) -> int:
        """Spine switch that a flow is hashed on.

        Parameters
        ----------
        flow : tuple of int
            Node and NIC it comes from, node and NIC it goes to, and which of their queue pairs it is.
        uplinks : int
            As `uplinks` gives it.

        Returns
        -------
        int

        Examples
        --------
        >>> ecmp = Fabric(kind="rail", nodes_per_leaf=32, oversubscription=1.0, routing="ecmp")
        >>> [ecmp.spine((0, 0, 40, 0, pair), 8) for pair in range(4)]
        [3, 1, 6, 0]
        """
        if uplinks == 1:
            return 0
        text = ":".join(map(str, (self.hash_seed, *flow)))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % uplinks

    def leaf(self, node: int, nic: int, nics: int) -> int:
        """Leaf of a node's NIC.

        Parameters
        ----------
        node, nic : int
        nics : int
            NICs of one node.

        Returns
        -------
        int

        Examples
        --------
        >>> rail = Fabric(kind="rail", nodes_per_leaf=32, oversubscription=1.0)
        >>> rail.leaf(33, 2, 8), rail.leaf(0, 2, 8)
        (10, 2)
        """
        pod = node // self.nodes_per_leaf
        return pod * nics + nic if self.kind == "rail" else pod

    def leaf_name(self, leaf: int, nics: int) -> str:
        """Name of a leaf: ``pod1/leaf2`` with rails, else ``leaf1``.

        Parameters
        ----------
        leaf : int
        nics : int
            NICs of one node.

        Returns
        -------
        str

        Examples
        --------
        >>> Fabric(kind="rail", nodes_per_leaf=32, oversubscription=1.0).leaf_name(10, 8)
        'pod1/leaf2'
        """
        return f"pod{leaf // nics}/leaf{leaf % nics}" if self.kind == "rail" else f"leaf{leaf}"


def read_fabric(own: object, override: Mapping[str, Any] | None, reading: Reading) -> Fabric:
    """Read a fabric.

    Parameters
    ----------
    own : object
        The topology file's ``fabric``, None when it has none.
    override : mapping, optional
        Fields that a scenario sets otherwise.
    reading : Reading
        Gets an issue for everything that is wrong.

    Returns
    -------
    Fabric

    Examples
    --------
    >>> read_fabric({"kind": "rail"}, {"oversubscription": 2}, Reading(source="")).oversubscription
    2.0
    """
    base = {} if own is None else reading.mapping(own, "fabric", FIELDS)
    over = {} if override is None else reading.mapping(override, "fabric", FIELDS)
    fields = {**base, **{key: value for key, value in over.items() if value is not None}}
    kind = reading.text(fields, "kind", "fabric").lower().replace("-", "_") or "fat_tree"
    reading.choice(kind, "fabric.kind", _KINDS)
    oversubscription = 1.0
    if fields.get("oversubscription") is not None:
        value = fields["oversubscription"]
        try:
            oversubscription = parse_number(value)
        except QuantityError as error:
            reading.problem("fabric.oversubscription", error.problem, value=value, allowed=error.allowed)
        if oversubscription < 1:
            reading.problem("fabric.oversubscription", "is below 1", value=value, allowed=_OVERSUBSCRIPTIONS)
            oversubscription = 1.0
        elif oversubscription > _MOST_OVERSUBSCRIPTION:
            problem = "is too large to be meant"
            reading.problem("fabric.oversubscription", problem, value=value, allowed=_OVERSUBSCRIPTIONS)
            oversubscription = 1.0
    name = reading.text(fields, "link", "fabric")
    sharp = fields.get("sharp", False)
    if not isinstance(sharp, bool):
        reading.problem("fabric.sharp", "is neither true nor false", value=sharp, allowed="true, false")
    routing = reading.text(fields, "routing", "fabric").lower() or "spray"
    reading.choice(routing, "fabric.routing", ROUTINGS)
    hash_seed = fields.get("hash_seed", 0)
    if isinstance(hash_seed, bool) or not isinstance(hash_seed, int) or not 0 <= hash_seed <= _MOST_HASH_SEED:
        allowed = f"a whole number from 0 to {_MOST_HASH_SEED:,}"
        reading.problem("fabric.hash_seed", "is no seed", value=hash_seed, allowed=allowed)
        hash_seed = 0
    return Fabric(
        kind=_KINDS.get(kind, kind),
        nodes_per_leaf=reading.whole(
            fields, "nodes_per_leaf", "fabric", default=_NODES_PER_LEAF, most=_MOST_NODES_PER_LEAF
        ),
        oversubscription=oversubscription,
        port=reading.lookup(partial(link_type, name, network=True), "fabric.link") if name else None,
        sharp=sharp is True,
        routing=routing,
        queue_pairs=reading.whole(fields, "queue_pairs", "fabric", default=_QUEUE_PAIRS, most=_MOST_QUEUE_PAIRS),
        hash_seed=hash_seed,
    )
