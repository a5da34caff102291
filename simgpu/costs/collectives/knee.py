"""Measured durations of collectives: the knee model with the rows of ``simgpu/data/collective_fits.csv``.

The model is t = alpha + S f/B + beta min(S, S*) with payload S, bus factor f and bus bandwidth B. Chunks that fill the
pipeline make small and middle messages slower than latency and bandwidth alone; past the knee S* that is paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.costs.collectives.rings import rings_of
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link_type import link_type
from simgpu.hardware.table import read_table

# GPUs of the measured tables, where an NVSwitch joins them.
_SWITCHED: Final[Mapping[str, str]] = {
    "A100-SXM4-40GB": "a100_sxm",
    "A100-SXM4-80GB": "a100_sxm",
    "H100-SXM5-80GB": "h100_sxm",
    "H200-SXM5-141GB": "h200_sxm",
    "B200-SXM-180GB": "b200_sxm",
    "B300-SXM-288GB": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
}
# Cards with peer access over PCIe, and pairs on NVLink bridges.
_PEERS: Final[Mapping[str, str]] = {"L40S": "l40s", "RTX-PRO-6000-Blackwell": "rtx_pro_6000_server"}
_BRIDGED: Final[Mapping[str, str]] = {
    "A100-PCIe-40GB": "a100 PCIe NVLink pair",
    "A100-PCIe-80GB": "a100 PCIe NVLink pair",
}
# NVLinks of these machines; others, or slower ones, were not measured.
_NVLINKS: Final[Mapping[str, str]] = {
    "Ampere": "NVLink3 link (A100)",
    "Hopper": "NVLink4 link (H100/H200)",
    "Blackwell": "NVLink5 link (B200/GB200)",
    "Blackwell Ultra": "NVLink5 link (B200/GB200)",
}
_BRIDGE: Final = "A100 PCIe NVLink bridge pair (12 links)"
_SAME_RATE: Final = 0.02
# Over nodes: GPU, ports, and nodes of the row; every GPU of eight a node takes part.
_OVER_NODES: Final[Mapping[tuple[str, str, int], str]] = {
    ("A100-SXM4-40GB", "AWS EFA 100G (p4d NIC)", 2): "a100_sxm EFA 400G/node",
    ("A100-SXM4-80GB", "AWS EFA 100G (p4d NIC)", 2): "a100_sxm EFA 400G/node",
    ("H100-SXM5-80GB", "AWS EFA 32x100G (p5) per GPU", 2): "h100_sxm EFA 3200G/node",
    ("B200-SXM-180GB", "AWS EFA 8x400G (p6-b200) per GPU", 4): "b200_sxm EFA",
}
# Beyond the sizes of a row its bandwidth still grows: 480 of 456 GB/s on H100, 838 of 783 on B200, 232 of 224 on A100
# (sums up to 16 GiB of NVIDIA/dgxc-benchmarking and nccl-tests).
GROWTH: Final = 1.05
_UNITS: Final[Mapping[str, float]] = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
_NAMES: Final[Mapping[str, str]] = {"all_to_all": "alltoall"}  # the tables' word


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """A measured row of ``simgpu/data/collective_fits.csv``; ``from_bytes`` and ``to_bytes`` are the sizes measured."""

    alpha_us: float
    busbw_gb_per_s: float
    knee_bytes: float
    beta_us_per_mb: float
    from_bytes: float = 0
    to_bytes: float = float("inf")

    def latency_ns(self, bytes: int) -> float:
        """Time that no bandwidth explains: alpha + beta min(S, S*)."""
        return 1e3 * (self.alpha_us + self.beta_us_per_mb * min(bytes, self.knee_bytes) / 1e6)

    def stream_ns(self, bus_bytes: float) -> float:
        """Time of ``bus_bytes`` = S f at the measured bus bandwidth."""
        return bus_bytes / self.busbw_gb_per_s

    def times_ns(self, bytes: int, bus_factor: float, link_ns: float, constructed_ns: float) -> tuple[float, float]:
        """Whole time and the part of it that bandwidth explains.

        Parameters
        ----------
        bytes : int
            Payload.
        bus_factor : float
        link_ns : float, nanoseconds
            Time that the links need at the least.
        constructed_ns : float, nanoseconds
            What is constructed for the same; counts below the sizes that were measured, where it is less.

        Returns
        -------
        float, float, nanoseconds

        Examples
        --------
        >>> row = Knee(alpha_us=10, busbw_gb_per_s=100, knee_bytes=1e6, beta_us_per_mb=5, from_bytes=7e4)
        >>> row.times_ns(10**8, 1.5, 0, 9e9), row.times_ns(1000, 1.5, 0, 7e3)
        ((1515000.0, 1500000.0), (7000.0, 15.0))
        """
        beyond = max(0.0, bytes - self.to_bytes)
        stream_ns = max(self.stream_ns((bytes - beyond + beyond / GROWTH) * bus_factor), link_ns)
        total_ns = self.latency_ns(bytes) + stream_ns
        return (min(total_ns, constructed_ns) if bytes < self.from_bytes else total_ns), stream_ns


def measured_row(cluster: Cluster, members: tuple[int, ...], kind: str) -> Knee | None:
    """Row for a group, where its system is in the table.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Two ranks or more.
    kind : str

    Returns
    -------
    Knee or None
        None where nothing was measured.

    Raises
    ------
    TopologyError
        When members cannot reach each other.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> box = {"name": "box", "devices": {"gpu": {"kind": "gpu", "count": 8, "model": "A100-SXM4-80GB"},
    ...                                    "nvswitch": {"kind": "nvswitch"}},
    ...        "links": [{"from": "gpu", "to": "nvswitch", "type": "NVLink3 link (A100)", "count": 12}]}
    >>> measured_row(build_cluster(box, nodes=1, gpus=None), tuple(range(8)), "all_reduce").busbw_gb_per_s
    224.0
    """
    key = ("measured row", members, kind)
    if key not in cluster.memo:
        cluster.memo[key] = _row(cluster, members, kind)
    found: Knee | None = cluster.memo[key]
    return found


def _row(cluster: Cluster, members: tuple[int, ...], kind: str) -> Knee | None:
    gpu, n = cluster.gpu(members[0]).name, len(members)
    rings = rings_of(cluster, tuple(sorted(members)), None)
    if rings.inside in ("direct", "switch") and not _as_measured(cluster, rings.links, members[0]):
        return None
    if rings.nodes == 1:
        systems = {"switch": _SWITCHED, "pcie": _PEERS, "direct": _BRIDGED}.get(rings.way, {})
        system = systems.get(gpu)
    else:
        full = n == 8 * rings.nodes and rings.most_per_node == 8 and rings.inside == "switch"
        full = full and not staged(cluster, rings.links)
        system = _OVER_NODES.get((gpu, _port(cluster), rings.nodes)) if full else None
    return None if system is None else _rows().get((system, _NAMES.get(kind, kind), n))


def _as_measured(cluster: Cluster, links: Iterable[int], rank: int) -> bool:
    """Whether all NVLinks in use have the rate of the machines that were measured: as many, and none slowed."""
    gpu = cluster.gpu(rank)
    name = _NVLINKS.get(gpu.arch, "")
    usual = link_type(name).bytes_per_s * gpu.nvlink_count if name and gpu.form != "PCIe" else 0
    usual = usual or link_type(_BRIDGE).bytes_per_s
    return all(
        abs(cluster.links[link].bytes_per_s / usual - 1) < _SAME_RATE
        for link in cluster.distinct(links)
        if cluster.links[link].kind == "nvlink"
    )


def staged(cluster: Cluster, links: Iterable[int]) -> bool:
    """Whether data passes through host memory, as in no measured row over nodes.

    Parameters
    ----------
    cluster : Cluster
    links : iterable of int

    Returns
    -------
    bool
    """
    return any(cluster.links[link].kind == "host_memory" for link in cluster.distinct(links))


def measured_send(system: str) -> Knee | None:
    """Row of a send and its receive: ``a100_sxm NVLink``, ``h100_sxm NVLink``, ``h100 inter-node 400G``.

    Parameters
    ----------
    system : str

    Returns
    -------
    Knee or None

    Examples
    --------
    >>> measured_send("h100_sxm NVLink").alpha_us
    7.7
    """
    return _rows().get((system, "send_recv", 2))


def _port(cluster: Cluster) -> str:
    port = cluster.fabric.port or cluster.machine.devices[cluster.machine.nics[0]].port
    return "" if port is None else port.name


@cache
def _rows() -> Mapping[tuple[str, str, int], Knee]:
    found: dict[tuple[str, str, int], Knee] = {}
    for row in read_table("collective_fits.csv"):
        if row["B_busbw_gb_s"]:
            key = (row["system"], row["collective"], int(row["n_ranks"]))
            sizes = _sizes(row["size_range"])
            knee = Knee(
                alpha_us=float(row["alpha_us"]),
                busbw_gb_per_s=float(row["B_busbw_gb_s"]),
                knee_bytes=float(row["knee_mb"]) * 1e6,
                beta_us_per_mb=float(row["beta_us_per_mb"]),
                from_bytes=sizes[0],
                to_bytes=sizes[1],
            )
            found.setdefault(key, knee)
    return found


def _sizes(text: str) -> tuple[float, float]:
    """Read ``0.07-537MB`` or ``32KB-17GB``."""
    low, high = text.split("-")
    unit = high[-2:]
    first = float(low[:-2]) * _UNITS[low[-2:]] if low[-2:] in _UNITS else float(low) * _UNITS[unit]
    return first, float(high[:-2]) * _UNITS[unit]
