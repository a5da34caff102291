"""Network ports that a host's own tool shows, beside those of the topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.config.imported_run_merge import Merged
from simgpu.hardware.computer import host_ranks
from simgpu.hardware.link_type import link_type
from simgpu.io.foreign.host_list import PORTS
from simgpu.io.foreign.reading import Reading

_LINK: Final = "cluster.fabric.link"
_ABSENT: Final = "perturb.links"


def settle_ports(merged: Merged, readings: Sequence[Reading], topology: str, nodes: int) -> None:
    """Keep the type of ports where it differs from the topology's and there is a network, and leave out idle NICs.

    NICs of the topology beyond the ports that are up lose their links, every second of them where half are up. More
    ports than NICs, as those of storage, are said.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
        The number of active ports is in ``open["active_ports"]``.
    topology : str
    nodes : int

    Examples
    --------
    >>> merged = Merged(values={"cluster.fabric.link": "IB NDR 400G"})
    >>> reading = Reading(source="ibstat.txt", kind="host-list", settings={}, open={"active_ports": "4"})
    >>> settle_ports(merged, [reading], "dgx-a100", 2)
    >>> merged.values["cluster.fabric.link"], merged.notes[0][:68]
    ('IB NDR 400G', 'cluster.fabric.link: IB NDR 400G of ibstat.txt goes before the ports')
    >>> [entry["link"] for entry in merged.values["perturb.links"]]
    ['node*/nic1<->*', 'node*/nic3<->*', 'node*/nic5<->*', 'node*/nic7<->*']
    """
    told = next((reading for reading in readings if PORTS in reading.open), None)
    if told is None:
        return
    cluster = request_cluster(ClusterRequest(topology=topology))
    up, names = int(told.open[PORTS]), [str(cluster.machine.devices[nic].name) for nic in cluster.machine.nics]
    hosts = max(1, cluster.gpus_per_node // host_ranks(cluster, 0))  # a rack on NVLink has several
    there = len(names) // hosts
    shows = (
        f"{told.source} shows {up} active ports, and a {'host' if hosts > 1 else 'node'} of {topology} has {there} NICs"
    )
    if nodes > 1 and up != there and (up > there or hosts > 1 or up == 0):
        merged.notes.append(f"{shows}, which are simulated; another number for the job needs a topology file")
    elif nodes > 1 and up < there and merged.get(_ABSENT) is None:
        kept = {at * len(names) // up for at in range(up)}
        absent = [{"link": f"node*/{name}<->*", "share": 0} for at, name in enumerate(names) if at not in kept]
        merged.put(_ABSENT, absent, told.source)
        merged.notes.append(f"{shows}: {len(absent)} of them are left out; another topology file says which")
    link = merged.get(_LINK)
    if link is None:
        return
    types = {port.name for nic in cluster.machine.nics if (port := cluster.machine.devices[nic].port) is not None}
    if nodes == 1 or not types or types == {link_type(link, network=True).name}:
        merged.put(_LINK, None, "")
    else:
        merged.notes.insert(0, f"{_LINK}: {link} of {told.source} goes before the ports of {topology}")
