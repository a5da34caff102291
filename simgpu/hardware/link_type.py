"""Link types: what a cable or bus of a kind offers and what software gets out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.errors import TopologyError
from simgpu.hardware.table import read_table, suggestion

# Kinds of the table that a link can be made of, and what SimGPU calls them. The others (per-system totals,
# hashing factors) are for reading only.
_KINDS: Final[Mapping[str, str]] = {
    "nvlink": "nvlink",
    "xgmi": "nvlink",  # GPU to GPU, as NVLink is
    "c2c": "c2c",
    "pcie": "pcie",
    "cpu_socket": "socket",
    "host_memory": "host_memory",
    "net": "network",
}
_GB: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkType:
    """A row of ``simgpu/data/links.csv``.

    Parameters
    ----------
    name : str
    kind : str
        ``nvlink`` (xGMI too), ``c2c``, ``pcie``, ``socket``, ``host_memory`` or ``network``.
    bytes_per_s : int, bytes per second
        What NCCL achieves in one direction; the capacity used in simulation.
    nominal_bytes_per_s : int, bytes per second
        What the vendor prints, one direction.
    latency_ns : int, nanoseconds
        One way; for network types through one switch. Zero where the start-up of software hides it.
    source : str
    """

    name: str
    kind: str
    bytes_per_s: int
    nominal_bytes_per_s: int
    latency_ns: int
    source: str

    @property
    def is_infiniband(self) -> bool:
        """Whether its switches are InfiniBand's, which cut through faster than Ethernet's."""
        return self.name.startswith("IB ")


def link_type(name: str, *, network: bool = False) -> LinkType:
    """Look a link type up by name, upper or lower case.

    Parameters
    ----------
    name : str
        As in ``simgpu/data/links.csv``.
    network : bool
        Ask for one that joins machines rather than devices of one machine.

    Returns
    -------
    LinkType

    Raises
    ------
    TopologyError
        When there is none of that name; says which come close.

    Examples
    --------
    >>> link_type("PCIe 4.0 x16").bytes_per_s
    24000000000
    """
    known = {key: found for key, found in _catalogue().items() if (found.kind == "network") == network}
    found = known.get(name.lower())
    if found is None:
        names = [entry.name for entry in known.values()]
        hint = suggestion(name, names) or f"known: {'; '.join(names)}"
        raise TopologyError(f"no {'network ' if network else ''}link type is named {name!r}; {hint}")
    return found


@cache
def switch_hop_ns(infiniband: bool) -> int:
    """Time through one more network switch.

    Parameters
    ----------
    infiniband : bool
        Or Ethernet.

    Returns
    -------
    int, nanoseconds

    Examples
    --------
    >>> switch_hop_ns(True)
    100
    """
    name = f"{'IB' if infiniband else 'Ethernet'} switch hop (cut-through)"
    return next(_nanoseconds(row["latency_us"]) for row in read_table("links.csv") if row["name"] == name)


@cache
def _catalogue() -> Mapping[str, LinkType]:
    found = {}
    for row in read_table("links.csv"):
        kind = _KINDS.get(row["kind"])
        nominal, achieved = row["gb_s_per_dir_nominal"], row["gb_s_per_dir_achieved"]
        if kind is None or not nominal:
            continue
        # Within a machine only write latencies are the link's own; the rest is NCCL's start-up, which costs counts.
        own = kind == "network" or row["latency_scope"] == "p2p write"
        found[row["name"].lower()] = LinkType(
            name=row["name"],
            kind=kind,
            bytes_per_s=round(float(achieved or nominal) * _GB),
            nominal_bytes_per_s=round(float(nominal) * _GB),
            latency_ns=_nanoseconds(row["latency_us"]) if own and row["latency_us"] else 0,
            source=row["source"],
        )
    return found


def _nanoseconds(latency_us: str) -> int:
    return round(float(latency_us) * 1000)
