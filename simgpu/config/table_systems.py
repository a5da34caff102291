"""Which topology the hardware words of a measured table mean; ``simgpu/data/table_systems.csv`` has the answers.

Each of its rows has regular expressions for the words of three columns of the measured table, upper or lower case,
and what they mean: a bundled topology, a GPU and a network link where they differ from the topology's own, and
whether the table's nodes are one machine here (trays of one NVLink rack). A row without ``inter_link`` is for one
node, the others for several; the first that fits counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.hardware.table import read_table

_UNSTATED: Final = re.compile(r"unstated|unknown|assumed|unclear|-class|\?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSystem:
    """What hardware words mean.

    Parameters
    ----------
    topology : str
        Bundled name.
    gpu_model, fabric_link : str
        Where they differ from the topology's own, else empty.
    one_machine : bool
        The table's nodes are one machine of the topology.
    """

    topology: str
    gpu_model: str
    fabric_link: str
    one_machine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    gpu: re.Pattern[str]
    intra_link: re.Pattern[str]
    inter_link: re.Pattern[str] | None
    system: TableSystem


def table_system(gpu: str, intra_link: str, inter_link: str, nodes: int) -> TableSystem | str:
    """Find the system that a measured row ran on.

    Parameters
    ----------
    gpu, intra_link, inter_link : str
        The table's words.
    nodes : int
        The table's number of nodes; the network does not matter for one.

    Returns
    -------
    TableSystem
        Or, as text, why there is none.

    Examples
    --------
    >>> table_system("H100 80GB HBM3", "NVLink4/NVSwitch", "", 1).topology
    'dgx-h100'
    >>> table_system("unstated 8-GPU node", "NVLink", "none", 1)
    "hardware is unstated: gpu 'unstated 8-GPU node'"
    """
    words = {"gpu": gpu, "intra_link": intra_link, **({"inter_link": inter_link} if nodes > 1 else {})}
    for column, word in words.items():
        if not word or _UNSTATED.search(word):
            return f"hardware is unstated: {column} {word!r}"
    for rule in _rules():
        if not rule.gpu.search(gpu) or not rule.intra_link.search(intra_link):
            continue
        if (nodes == 1) == (rule.inter_link is None) and (not rule.inter_link or rule.inter_link.search(inter_link)):
            return rule.system
    return f"hardware is not in simgpu/data/table_systems.csv: {', '.join(map(repr, words.values()))}"


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            gpu=re.compile(row["gpu"], re.IGNORECASE),
            intra_link=re.compile(row["intra_link"], re.IGNORECASE),
            inter_link=re.compile(row["inter_link"], re.IGNORECASE) if row["inter_link"] else None,
            system=TableSystem(
                topology=row["topology"],
                gpu_model=row["gpu_model"],
                fabric_link=row["fabric_link"],
                one_machine=row["machines"] == "one",
            ),
        )
        for row in read_table("table_systems.csv")
    )
