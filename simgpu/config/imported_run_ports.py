"""Network ports that a host's own tool shows, beside those of the topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.config.imported_run_merge import Merged
from simgpu.hardware.link_type import link_type
from simgpu.io.foreign.host_list import PORTS
from simgpu.io.foreign.reading import Reading

_LINK: Final = "cluster.fabric.link"


def settle_ports(merged: Merged, readings: Sequence[Reading], topology: str, nodes: int) -> None:
    """Keep the type of ports where it differs from the topology's and there is a network, and say what does not fit.

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
    >>> merged.values, merged.notes[0][:68]
    ({'cluster.fabric.link': 'IB NDR 400G'}, 'cluster.fabric.link: IB NDR 400G of ibstat.txt goes before the ports')
    """
    told = next((reading for reading in readings if PORTS in reading.open), None)
    if told is None:
        return
    cluster = request_cluster(ClusterRequest(topology=topology))
    if int(told.open[PORTS]) != cluster.nics:
        merged.notes.append(
            f"{told.source} shows {told.open[PORTS]} active ports, and a node of {topology} has {cluster.nics} NICs, "
            "which are simulated; another number needs a topology file"
        )
    link = merged.get(_LINK)
    if link is None:
        return
    types = {port.name for nic in cluster.machine.nics if (port := cluster.machine.devices[nic].port) is not None}
    if nodes == 1 or not types or types == {link_type(link, network=True).name}:
        merged.put(_LINK, None, "")
    else:
        merged.notes.insert(0, f"{_LINK}: {link} of {told.source} goes before the ports of {topology}")
