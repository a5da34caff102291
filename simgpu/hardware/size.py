"""How many machines and GPUs a cluster has, checked against what the machine offers."""

from __future__ import annotations

from typing import Final

from simgpu.hardware.machine import Machine
from simgpu.hardware.reading import Reading

# 16,384 nodes of a DGX A100 have 1.3 million directed links; many more fill the memory of a workstation.
_MOST_LINKS: Final = 2**21


def gpus_per_node(machine: Machine, nodes: int, gpus: int | None) -> int:
    """GPUs used in each node.

    Parameters
    ----------
    machine : Machine
    nodes : int
    gpus : int or None
        GPUs in all; every one when None.

    Returns
    -------
    int

    Raises
    ------
    ScenarioError
        When there are fewer, or they do not spread evenly. These fields are the scenario's, so the topology file is
        not named as their source.

    Examples
    --------
    >>> from simgpu.hardware.machine import Device
    >>> pair = Machine(name="pair", devices=(Device(name="gpu0", kind="gpu"),) * 2, wires=(), gpus=(0, 1))
    >>> gpus_per_node(pair, 3, None), gpus_per_node(pair, 3, 3)
    (2, 1)
    """
    reading = Reading(source="")
    have = len(machine.gpus)
    if nodes < 1:
        reading.problem("cluster.nodes", "is below 1", value=nodes, allowed="1, 2, 3, ...")
        reading.finish()
    each = len(machine.wires) + 2 * len(machine.nics)
    if nodes > 1 and nodes * each > _MOST_LINKS:
        problem = f"makes {nodes * each:,} links of {machine.name}, more than SimGPU builds"
        reading.problem("cluster.nodes", problem, value=nodes, allowed=f"1 to {max(1, _MOST_LINKS // each):,}")
        reading.finish()
    total = nodes * have if gpus is None else gpus
    if not 1 <= total <= nodes * have:
        enough = -(-total // have)
        reading.problem(
            "cluster.gpus",
            f"{nodes} x {machine.name} {'have' if nodes > 1 else 'has'} {nodes * have} GPUs",
            value=total,
            allowed=f"1 to {nodes * have}",
            fix=f"set cluster.nodes to {enough}" if total > 0 else "leave it out to use all",
        )
    elif total % nodes:
        down = total - total % nodes
        fix = f"set cluster.gpus to {down or nodes} or {down + nodes}" if down else f"set cluster.gpus to {nodes}"
        reading.problem("cluster.gpus", f"does not spread evenly over {nodes} nodes", value=total, fix=fix)
    reading.finish()
    return total // nodes
