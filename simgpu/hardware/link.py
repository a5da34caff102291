"""Links and routes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A directed link of a cluster.

    Parameters
    ----------
    name : str
        ``node0/gpu3->nvswitch0``, ``node0/nic2->pod0/leaf2``, ``pod0/leaf2->spine`` (under hashed
        routing ``pod0/leaf2->spine5``).
    source, target : str
        Names of its ends in the graph.
    kind : str
        ``nvlink`` (xGMI too), ``c2c`` (a GPU and its CPU in one package), ``pcie``, ``socket`` (between CPUs),
        ``host_memory`` or ``network``. Everywhere in SimGPU these words mean these links.
    bytes_per_s : int, bytes per second
        What NCCL achieves in this direction: the capacity in simulation.
    nominal_bytes_per_s : int, bytes per second
        What the vendor prints.
    latency_ns : int, nanoseconds
    added_latency_ns : int, nanoseconds
        What a topology file gives the link on top of its type's latency; negative when below.
    """

    name: str
    source: str
    target: str
    kind: str
    bytes_per_s: int
    nominal_bytes_per_s: int
    latency_ns: int
    added_latency_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The links that data crosses from one GPU to another.

    Parameters
    ----------
    links : tuple of int
        Positions among the cluster's links, in order; a link crossed twice is listed twice.
    kind : str
        ``nvlink``, ``pcie``, ``host`` (staged in host memory) or ``network``.
    latency_ns : int, nanoseconds
        Sum of the links' latencies.
    added_latency_ns : int, nanoseconds
        Sum of what is on top of their types'.
    distance : int
        Rank of nearness within a machine, smaller is nearer; for choosing, not for timing.
    """

    links: tuple[int, ...]
    kind: str
    latency_ns: int
    added_latency_ns: int = 0
    distance: int = 0

    def moved(self, by: int) -> Route:
        """Return the same route on links that stand ``by`` places on: those of another node.

        Examples
        --------
        >>> Route(links=(0, 3), kind="nvlink", latency_ns=5).moved(10).links
        (10, 13)
        """
        return replace(self, links=tuple(link + by for link in self.links))
