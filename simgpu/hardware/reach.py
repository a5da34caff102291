"""Who reaches whom: every GPU the others of its node, and a NIC where there are several nodes."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.hardware.machine import Machine
from simgpu.hardware.paths import MachinePaths
from simgpu.hardware.reading import Reading


def nearest_nics(machine: Machine, paths: MachinePaths) -> tuple[int, ...]:
    """Nearest NIC of each GPU, -1 without one; GPUs that have the same nearest NICs take them in turn.

    Parameters
    ----------
    machine : Machine
    paths : MachinePaths
        Of that machine.

    Returns
    -------
    tuple of int
        Positions among the machine's NICs, by position among its GPUs.

    Examples
    --------
    >>> from simgpu.hardware.machine import Device
    >>> alone = Machine(name="alone", devices=(Device(name="gpu0", kind="gpu"),), wires=(), gpus=(0,))
    >>> nearest_nics(alone, MachinePaths(machine=alone))
    (-1,)
    """
    turns: dict[tuple[int, ...], int] = {}
    chosen = []
    for gpu in range(len(machine.gpus)):
        found = [(path.distance, nic) for nic in range(len(machine.nics)) if (path := paths.gpu_to_nic(gpu, nic))]
        if not found:
            chosen.append(-1)
            continue
        nearest = tuple(nic for distance, nic in found if distance == min(found)[0])
        turn = turns.get(nearest, 0)
        turns[nearest] = turn + 1
        chosen.append(nearest[turn % len(nearest)])
    return tuple(chosen)


def check_reach(
    machine: Machine, paths: MachinePaths, gpus: int, nic_of_gpu: Sequence[int] | None, reading: Reading
) -> None:
    """Note every GPU that cannot reach the others.

    Parameters
    ----------
    machine : Machine
    paths : MachinePaths
        Of that machine.
    gpus : int
        GPUs used, the first ones.
    nic_of_gpu : sequence of int or None
        As `nearest_nics` gives it; None for one node, which needs no NIC.
    reading : Reading
        Gets the issues.

    Examples
    --------
    >>> from simgpu.hardware.machine import Device
    >>> gpus = tuple(Device(name=f"gpu{i}", kind="gpu") for i in range(2))
    >>> apart, reading = Machine(name="apart", devices=gpus, wires=(), gpus=(0, 1)), Reading(source="")
    >>> check_reach(apart, MachinePaths(machine=apart), 2, None, reading)
    >>> reading.issues[0].problem
    'nothing connects gpu0 to gpu1'
    """
    fix = "link them by NVLink, or each to a pcie_switch or cpu; cards without peer access need a memory device there"
    for a in range(gpus):
        apart = [b for b in range(a + 1, gpus) if paths.between_gpus(a, b) is None]
        if apart:
            others = ", ".join(machine.devices[machine.gpus[b]].name for b in apart)
            reading.problem("links", f"nothing connects {machine.devices[machine.gpus[a]].name} to {others}", fix=fix)
    cut = [machine.devices[machine.gpus[a]].name for a in range(gpus) if nic_of_gpu is not None and nic_of_gpu[a] < 0]
    if cut:
        problem = f"{', '.join(cut)} cannot reach the other nodes: no NIC in reach"
        reading.problem("devices", problem, fix="add a nic family and link it to a pcie_switch or cpu")
