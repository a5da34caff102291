"""Processes that ``srun``, ``mpirun``, ``jsrun`` and ``lrun`` start, and the nodes on which they do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from simgpu.errors import ScenarioError
from simgpu.io.foreign.device_filters import filled
from simgpu.io.foreign.launch_hosts import hosts_named
from simgpu.io.foreign.launch_processes import GPUS_OF_A_NODE
from simgpu.io.foreign.line_numbers import LineNumbers
from simgpu.io.foreign.shell_known import check_files
from simgpu.io.foreign.shell_start import NODES, TASKS

_NODES_OF_JOB: Final = ("SLURM_NNODES", NODES)
_TASKS_OF_NODE: Final = ("SLURM_NTASKS_PER_NODE", TASKS)
_OF_SLURM: Final = ("SLURM_NNODES", *GPUS_OF_A_NODE[:2])
_MAPPED: Final = re.compile(
    r"(?:ppr:(\d+):node|slot|hwthread|core|numa|socket|package|node)(?::(?!ppr)|$)", re.IGNORECASE
)
"""Open MPI's --map-by, which tells how many processes a node has, or in what order they fill the slots."""
_WITH_NODES: Final = ("srun", "lrun", "flux")


def started_tasks(numbers: LineNumbers, folder: Path | None) -> tuple[int | None, int | None]:
    """Return how many processes there are, and on how many nodes; None where the line does not tell.

    Parameters
    ----------
    numbers : LineNumbers
        Of a line with ``wrapped``.
    folder : Path, optional
        Where a hostfile may lie.

    Returns
    -------
    (int or None, int or None)

    Raises
    ------
    ScenarioError
        For what is no number, and for more tasks of jsrun than GPUs.

    Examples
    --------
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> for text in ("srun -N 2 --ntasks-per-node 4", "mpiexec -n 8 --ppn 4", "jsrun -n 12 -r 6 -a 1 -g 1"):
    ...     started_tasks(LineNumbers(find_launch_line(f"{text} python t.py", "x.sh"), "x.sh"), None)
    (8, 2)
    (8, 2)
    (12, 2)
    """
    if numbers.line.wrapped == "jsrun":
        return _of_sets(numbers)
    total, per_node = numbers.integer("wrapper", "tasks"), numbers.integer("wrapper", "per_node")
    nodes = numbers.integer("wrapper", "nodes") if numbers.line.wrapped in _WITH_NODES else None
    mapped = _MAPPED.match(str(numbers.ledger.raw("wrapper.map_by") or ""))
    if mapped:
        numbers.ledger.get("wrapper.map_by")
        per_node = per_node or (int(mapped[1]) if mapped[1] else None)
    hosts = numbers.word("wrapper", "hosts")
    if nodes is None and hosts is not None:
        numbers.ledger.get(hosts[0])
        listed = str(hosts[1]).split(",")
        slots = [int(slot) for host in listed if (slot := host.rpartition(":")[2]).isdecimal() and ":" in host]
        nodes = len(listed)
        total = sum(slots) if total is None and len(slots) == nodes else total
    elif nodes is None and per_node is None and numbers.open is None:
        listed_slots = _slots(numbers, folder)
        total, nodes = filled(listed_slots, total)
        slots = list(listed_slots.values())
    else:
        slots = []
    if total is not None and nodes is not None and len(slots) >= nodes:
        before = [sum(slots[:at]) for at in range(nodes)]
        numbers.shares = [min(slot, total - full) for slot, full in zip(slots, before, strict=False) if full < total]
    return _completed(numbers, total, per_node, nodes)


def _completed(
    numbers: LineNumbers, total: int | None, per_node: int | None, nodes: int | None
) -> tuple[int | None, int | None]:
    """Take from the job what the command leaves to it, and the third of processes, nodes and processes of a node."""
    if total is not None and per_node is not None and nodes is None:
        return total, -(-total // per_node)
    job, slots = numbers.variable(*_NODES_OF_JOB), numbers.variable(*_TASKS_OF_NODE)
    if total is not None and nodes is None and slots is not None and numbers.line.wrapped == "mpirun":
        return total, min(job or total, -(-total // slots))  # MPI fills a node before the next
    if per_node is None and (total is None or numbers.line.wrapped == "srun"):
        per_node = slots
    if nodes is None and job is not None and (total is None or total >= job):
        nodes = job
    if total is not None or (nodes is not None and per_node is not None):
        numbers.open = None  # what decides is known
    if numbers.open is not None:
        return None, nodes
    if total is None and (nodes is None or per_node is None):
        total = numbers.variable("SLURM_NTASKS")
        if total is None and numbers.line.wrapped == "srun" and any(map(numbers.line.variables.get, _OF_SLURM)):
            total = nodes or 1  # sbatch's default: one task on each node
    if total is None and per_node is not None:
        return per_node * (nodes or 1), nodes
    return total, nodes


def _of_sets(numbers: LineNumbers) -> tuple[int | None, int | None]:
    """Count what jsrun starts in its resource sets."""
    every = [name for name in ("sets", "gpus_per_set") if numbers.line.wrapper.get(name, "").startswith("ALL_")]
    for name in every:
        numbers.ledger.get(f"wrapper.{name}")
    sets, gpus = (None if name in every else numbers.integer("wrapper", name) for name in ("sets", "gpus_per_set"))
    of_node, each = numbers.integer("wrapper", "sets_per_node"), numbers.integer("wrapper", "tasks_per_set")
    total, nodes = numbers.integer("wrapper", "tasks"), numbers.variable(NODES)
    gpus = (
        None if numbers.line.wrapper.get("gpus_per_set") == "ALL_GPUS" else numbers.integer("wrapper", "gpus_per_set")
    )
    if each is not None and gpus is not None and each > gpus:
        problem = f"is more than the GPUs of a resource set (-g {gpus}), one for each process"
        numbers.ledger.refuse("wrapper.tasks_per_set", problem, allowed=f"at most {gpus}", fix="give -g as many as -a")
    if sets is None and nodes is not None and (of_node is not None or "sets" in every):
        sets = nodes * (of_node or 1)
        numbers.open = None
    if sets is not None and of_node is not None:
        nodes = -(-sets // of_node)
    if total is None and sets is None:
        numbers.open = numbers.open or "the nodes of the job"
    if numbers.open is not None:
        return None, nodes
    return (total if total is not None else None if sets is None else sets * (each or 1)), nodes


def _slots(numbers: LineNumbers, folder: Path | None) -> dict[str, int]:
    """Return what the hostfile of ``mpirun`` lists; nothing of one that names hosts without their slots."""
    named = numbers.word("wrapper", "hostfile", "machinefile", "f")
    if named is not None:
        check_files([str(named[1])], {}, numbers.line.changed, source=numbers.ledger.source)
    try:
        return hosts_named(numbers.line, named, numbers.ledger, folder)
    except ScenarioError:
        return {}
