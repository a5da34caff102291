"""All directed links of a cluster."""

from __future__ import annotations

from simgpu.hardware.fabric import Fabric
from simgpu.hardware.link import Link
from simgpu.hardware.link_type import switch_hop_ns
from simgpu.hardware.machine import Machine


def cluster_links(machine: Machine, fabric: Fabric, nodes: int) -> tuple[Link, ...]:
    """List the links of a cluster.

    Parameters
    ----------
    machine : Machine
    fabric : Fabric
    nodes : int

    Returns
    -------
    tuple of Link
        For each node its wires in the machine's order, then (with more than one node) up and down of each NIC; after
        all nodes (with more than one leaf) up and down of each leaf's uplinks.
    """
    links: list[Link] = []
    names = [device.name for device in machine.devices]
    nics = len(machine.nics)
    into_leaf: dict[int, list[Link]] = {}
    infiniband = False
    for node in range(nodes):
        links.extend(
            _link(
                f"node{node}/{names[wire.source]}",
                f"node{node}/{names[wire.target]}",
                wire.kind,
                (wire.bytes_per_s, wire.nominal_bytes_per_s),
                wire.latency_ns,
                wire.added_latency_ns,
            )
            for wire in machine.wires
        )
        for nic, device in enumerate(machine.nics if nodes > 1 else ()):
            port = fabric.port or machine.devices[device].port
            if port is None:
                continue
            infiniband = port.is_infiniband
            leaf = fabric.leaf(node, nic, nics)
            a, b = f"node{node}/{names[device]}", fabric.leaf_name(leaf, nics)
            # The type's latency is one way through one switch: half of it on the way up, half on the way down.
            rates, latency_ns = (port.bytes_per_s, port.nominal_bytes_per_s), port.latency_ns // 2
            links += (_link(a, b, "network", rates, latency_ns), _link(b, a, "network", rates, latency_ns))
            into_leaf.setdefault(leaf, []).append(links[-1])
    if len(into_leaf) > 1:
        # Leaf to leaf over the spine passes two more switches than staying on one leaf: one for each of two uplinks.
        hop_ns = switch_hop_ns(infiniband)
        fullest = max(into_leaf.values(), key=len)
        uplinks = fabric.uplinks(fabric.nics_per_leaf(nodes, nics))
        for leaf in sorted(into_leaf):
            name = fabric.leaf_name(leaf, nics)
            below = into_leaf[leaf] if uplinks == 1 else fullest  # single uplinks are there however full the leaf is
            share = fabric.oversubscription * uplinks
            rates = (
                max(1, int(sum(link.bytes_per_s for link in below) / share)),
                max(1, int(sum(link.nominal_bytes_per_s for link in below) / share)),
            )
            for spine in range(uplinks):
                top = "spine" if uplinks == 1 else f"spine{spine}"
                links += (_link(name, top, "network", rates, hop_ns), _link(top, name, "network", rates, hop_ns))
    return tuple(links)


def _link(source: str, target: str, kind: str, rates: tuple[int, int], latency_ns: int, added_ns: int = 0) -> Link:
    # Both ends in one node: say the node once.
    node, slash, device = target.partition("/")
    short = device if slash and source.startswith(f"{node}/") else target
    return Link(
        name=f"{source}->{short}",
        source=source,
        target=target,
        kind=kind,
        bytes_per_s=rates[0],
        nominal_bytes_per_s=rates[1],
        latency_ns=latency_ns,
        added_latency_ns=added_ns,
    )
