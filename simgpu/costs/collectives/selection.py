"""Which algorithm a collective runs; a new one is one more entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simgpu.costs.collectives.nvls import nvls, uses_nvls
from simgpu.costs.collectives.ring import ring
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost

Algorithm = Callable[[Cluster, tuple[int, ...], str, int], TransferCost]

ALGORITHMS: Mapping[str, Algorithm] = {"ring": ring, "nvls": nvls}


def choose(cluster: Cluster, members: tuple[int, ...], kind: str) -> str:
    """Name the algorithm that NCCL runs.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks.
    kind : str

    Returns
    -------
    str
        A key of `ALGORITHMS`.
    """
    return "nvls" if uses_nvls(cluster, members, kind) else "ring"
