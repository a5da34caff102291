"""Which bundled machines the words of a run table mean.

``simgpu/data/run_systems.csv`` knows what only tables of training runs say; what it does not know is looked up where
tables of collectives are (`simgpu.config.table_systems`). A rate that the table itself marks ``(assumed)`` is taken as
it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from simgpu.config.table_systems import table_system
from simgpu.hardware.table import read_table

_ASSUMED: Final = re.compile(r"\s*\(assumed\)", re.IGNORECASE)
_REMARKS: Final = re.compile(r"\((DGX|HGX|NVL)[^)]*\)", re.IGNORECASE)
_RACK_GPUS: Final = 64  # of the 72 of an NVL72 rack, what runs on more than one rack use of each
_RACK: Final = "gb200-nvl72"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSystem:
    """Machines of a run.

    Parameters
    ----------
    cluster : mapping
        The scenario's ``cluster`` block.
    gpu_model : str
        GPU of the topology's machines where the row has another one, else empty.
    assumptions : tuple of str
        What the row does not say and was taken to be so.
    """

    cluster: dict[str, Any]
    gpu_model: str = ""
    assumptions: tuple[str, ...] = ()


def run_system(gpu: str, intra_link: str, inter_link: str, gpus: int, gpus_per_node: int) -> RunSystem | str:
    """Find the machines of a run.

    Parameters
    ----------
    gpu, intra_link, inter_link : str
        The table's words.
    gpus, gpus_per_node : int

    Returns
    -------
    RunSystem
        Or, as text, why there is none.

    Examples
    --------
    >>> run_system("A100-80GB", "NVLink3/NVSwitch", "8x200Gb HDR IB (Selene)", 16, 8).cluster
    {'topology': 'dgx-a100', 'nodes': 2, 'gpus': 16}
    >>> run_system("Tesla P40", "", "none", 8, 8)
    "hardware is unstated: intra_link ''"
    """
    nodes = max(1, -(-gpus // gpus_per_node))
    if gpus == 1 and not intra_link:
        intra_link = "NVLink/NVSwitch"  # one GPU has no use for it
    words = _REMARKS.sub("", gpu).strip()
    link = _ASSUMED.sub("", inter_link)
    for rule in _rules():
        if (nodes > 1 or rule.topology == _RACK) and rule.gpu.search(gpu) and rule.inter_link.search(link):
            return _system(rule.topology, nodes, gpus, rule.gpu_model, rule.fabric_link, rule.assumption)
    found = table_system(words, intra_link, link, nodes)
    if isinstance(found, str):
        return found
    nodes = 1 if found.one_machine else nodes
    return _system(found.topology, nodes, gpus, found.gpu_model, found.fabric_link if nodes > 1 else "", "")


def _system(topology: str, nodes: int, gpus: int, gpu_model: str, fabric_link: str, assumption: str) -> RunSystem | str:
    if topology == _RACK:
        if gpus > _RACK_GPUS and gpus % _RACK_GPUS:
            return f"{gpus} GPUs do not lie evenly on racks of {_RACK_GPUS}"
        nodes = max(1, gpus // _RACK_GPUS)
    cluster: dict[str, Any] = {"topology": topology, "nodes": nodes, "gpus": gpus}
    if fabric_link and nodes > 1:
        cluster["fabric"] = {"link": fabric_link}
    assumptions = (f"network: {assumption}",) if assumption and nodes > 1 else ()
    return RunSystem(cluster=cluster, gpu_model=gpu_model, assumptions=assumptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    gpu: re.Pattern[str]
    inter_link: re.Pattern[str]
    topology: str
    gpu_model: str
    fabric_link: str
    assumption: str


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            gpu=re.compile(row["gpu"], re.IGNORECASE),
            inter_link=re.compile(row["inter_link"], re.IGNORECASE),
            topology=row["topology"],
            gpu_model=row["gpu_model"],
            fabric_link=row["fabric_link"],
            assumption=row["assumption"],
        )
        for row in read_table("run_systems.csv")
    )
