"""A cluster as NCCL's settings let NCCL use it: the same links, other routes and rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from simgpu.costs.collectives.settings import GDR_LEVELS, NcclSettings
from simgpu.errors import TopologyError
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Link
from simgpu.hardware.link_type import LinkType, link_type
from simgpu.hardware.paths import MachinePaths, Path

# Rows of simgpu/data/links.csv, by the rate of the port; faster ports get no more out of one socket stream per NIC.
_SOCKETS: Final = tuple(f"TCP {rate}GbE (NCCL socket)" for rate in (1, 10, 25, 100))
_SOCKET_PREFIX: Final = "TCP"


def as_set(cluster: Cluster, nccl: NcclSettings) -> Cluster:
    """Give the cluster that NCCL sees with its settings.

    Links keep their positions. Without peer access between GPUs their routes go through host memory. With sockets, by
    choice or because a port's type is TCP, data is staged in host memory on the way to a NIC and from it, and a port
    carries what NCCL's sockets reach on it. A level for GPUDirect stages what is farther apart.

    Parameters
    ----------
    cluster : Cluster
    nccl : NcclSettings

    Returns
    -------
    Cluster
        The same object where nothing changes.

    Raises
    ------
    TopologyError
        When data must be staged and the machine has no memory to do it in.
    """
    sockets = cluster.nodes > 1 and (nccl.ib_disable or _over_tcp(cluster))
    level = nccl.net_gdr_level if cluster.nodes > 1 else ""
    if not (nccl.p2p_disable or sockets or level):
        return cluster
    key = ("as set", nccl.p2p_disable, sockets, level)
    found: Cluster | None = cluster.memo.get(key)
    if found is None:
        if not any(device.kind == "memory" for device in cluster.machine.devices):
            what = "p2p_disable" if nccl.p2p_disable else "sockets" if sockets else "net_gdr_level"
            raise TopologyError(
                f"{cluster.name} has no host memory to stage data in, which NCCL's {what} needs; "
                "add a memory device and link it to the cpu"
            )
        links = _socket_links(cluster) if sockets else cluster.links

        def seen(paths: MachinePaths) -> MachinePaths:
            return _SetPaths(
                machine=paths.machine,
                absent=paths.absent,
                cut_nics=paths.cut_nics,
                p2p_disable=nccl.p2p_disable,
                sockets=sockets,
                gdr_level=level,
            )

        odd = {node: replace(found, paths=seen(found.paths)) for node, found in cluster._odd_nodes.items()}
        found = cluster.memo[key] = replace(
            cluster, links=links, memo={}, _paths=seen(cluster._paths), _odd_nodes=odd, _graph=[]
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SetPaths(MachinePaths):
    """Paths that the settings leave."""

    p2p_disable: bool
    sockets: bool
    gdr_level: str
    apart: ClassVar[str] = "NCCL's settings send data through host memory, which they do not share: change the settings"

    def between_gpus(self, source: int, target: int) -> Path | None:
        if not self.p2p_disable:
            return MachinePaths.between_gpus(self, source, target)
        a, b = self.machine.gpus[source], self.machine.gpus[target]
        return self._staged(a, b, near=a)

    def gpu_to_nic(self, gpu: int, nic: int) -> Path | None:
        direct = MachinePaths.gpu_to_nic(self, gpu, nic)
        if not self._stages(direct):
            return direct
        a, b = self.machine.gpus[gpu], self.machine.nics[nic]
        return self._staged(a, b, near=a)

    def nic_to_gpu(self, nic: int, gpu: int) -> Path | None:
        direct = MachinePaths.nic_to_gpu(self, nic, gpu)
        if not self._stages(direct):
            return direct
        a, b = self.machine.nics[nic], self.machine.gpus[gpu]
        return self._staged(a, b, near=b)

    def _stages(self, direct: Path | None) -> bool:
        if self.sockets:
            return True
        if not self.gdr_level or direct is None or direct.kind == "host":
            return False
        return GDR_LEVELS.index(self._level(direct)) > GDR_LEVELS.index(self.gdr_level)

    def _level(self, path: Path) -> str:
        passed = [self.machine.devices[self.machine.wires[wire].target].kind for wire in path.wires[:-1]]
        if passed.count("cpu") > 1:
            return "SYS"
        return "PHB" if "cpu" in passed else "PXB" if passed.count("pcie_switch") > 1 else "PIX"


def _over_tcp(cluster: Cluster) -> bool:
    """Whether a port's type is TCP."""
    found: bool | None = cluster.memo.get("over TCP")
    if found is None:
        own = (device.port for device in cluster.machine.devices if device.port is not None)
        ports = own if cluster.fabric.port is None else (cluster.fabric.port,)
        found = cluster.memo["over TCP"] = any(port.name.startswith(_SOCKET_PREFIX) for port in ports)
    return found


def _socket_links(cluster: Cluster) -> tuple[Link, ...]:
    """List the links with ports at the rate and latency of sockets; ports whose type is TCP are left alone."""
    trunks = cluster.nodes * cluster.links_per_node
    ports = len(cluster.machine.wires)
    listed = list(cluster.links)
    types = [cluster.fabric.port or cluster.machine.devices[device].port for device in cluster.machine.nics]
    for index in range(trunks):
        place = index % cluster.links_per_node - ports
        port = types[place // 2] if place >= 0 else None
        if port is None or port.name.startswith(_SOCKET_PREFIX):
            continue
        socket = socket_type(port.nominal_bytes_per_s)
        link = listed[index]
        listed[index] = replace(
            link,
            bytes_per_s=min(link.bytes_per_s, socket.bytes_per_s),
            latency_ns=link.latency_ns - port.latency_ns // 2 + socket.latency_ns // 2,
        )
    return tuple(listed)


def socket_type(nominal_bytes_per_s: int) -> LinkType:
    """Row of NCCL's sockets for a port: the fastest that is no faster than the port, else the slowest.

    Parameters
    ----------
    nominal_bytes_per_s : int, bytes per second

    Returns
    -------
    LinkType

    Examples
    --------
    >>> socket_type(50 * 10**9).name, socket_type(3_125_000_000).bytes_per_s
    ('TCP 100GbE (NCCL socket)', 2600000000)
    """
    rows = [link_type(name, network=True) for name in _SOCKETS]
    fits = [row for row in rows if row.nominal_bytes_per_s <= nominal_bytes_per_s]
    return fits[-1] if fits else rows[0]
