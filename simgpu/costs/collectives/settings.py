"""How NCCL is told to work: its version and the environment variables that change what it chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simgpu.errors import ProgramError

if TYPE_CHECKING:
    from simgpu.costs.collectives.measured_groups import MeasuredCollectives

ALGORITHM_NAMES: Final[Mapping[str, str]] = {
    "ring": "ring",
    "tree": "tree",
    "nvls": "nvls",
    "nvlstree": "nvls_tree",
    "collnetdirect": "collnet_direct",
    "collnetchain": "collnet_chain",
    "hierarchical": "hierarchical",
    "pairwise": "pairwise",
}
"""NCCL_ALGO's names, in lower case and without underscores, and what SimGPU calls them; the last two are not NCCL's:
a library's own two-level collective, and the all-to-all that NCCL runs as sends and receives."""

PROTOCOL_NAMES: Final[Mapping[str, str]] = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
"""NCCL_PROTO's names."""

# Path classes, near to far: NCCL src/graph/topo.h; 0 to 5 are the old numbers of NCCL_NET_GDR_LEVEL.
GDR_LEVELS: Final = ("LOC", "PIX", "PXB", "PHB", "SYS")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(\.\d+)*(\+.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclSettings:
    """NCCL's version and settings.

    Parameters
    ----------
    version : str
        ``2.30``, ``2.19.3``; decides which constants and algorithms there are.
    algo : str
        NCCL_ALGO: one algorithm that every collective must run, in NCCL's spelling or SimGPU's; empty to choose as NCCL
        does.
    proto : str
        NCCL_PROTO: ``LL``, ``LL128`` or ``Simple``; empty to choose as NCCL does.
    p2p_disable : bool
        NCCL_P2P_DISABLE: no GPU reaches another's memory, over NVLink or PCIe; copies go through host memory.
    ib_disable : bool
        NCCL_IB_DISABLE: sockets (TCP) instead of RDMA, for InfiniBand and RoCE alike.
    net_gdr_level : str
        NCCL_NET_GDR_LEVEL: farthest path between a GPU and a NIC over which the NIC reads GPU memory itself:
        ``LOC`` (never), ``PIX``, ``PXB``, ``PHB`` or ``SYS``; farther ones are staged in host memory. Empty where every
        card that allows it is reached directly.
    measured : MeasuredCollectives or None
        Times that were measured on the machine itself.

    Raises
    ------
    ProgramError
        For a version, algorithm, protocol or level that does not exist.

    Examples
    --------
    >>> found = NcclSettings(algo="NVLSTree", proto="simple")
    >>> found.algo, found.proto
    ('nvls_tree', 'Simple')
    """

    version: str = "2.30"
    algo: str = ""
    proto: str = ""
    p2p_disable: bool = False
    ib_disable: bool = False
    net_gdr_level: str = ""
    measured: MeasuredCollectives | None = None

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.version):
            raise ProgramError(f"{self.version!r} is no NCCL version; write it as 2.30 or 2.19.3")
        if self.number < (2, 4):
            raise ProgramError(f"NCCL {self.version} is older than SimGPU knows; allowed: 2.4 and later")
        algo = self.algo.lower().replace("_", "")
        if algo and algo not in ALGORITHM_NAMES:
            raise ProgramError(f"{self.algo!r} is no algorithm; allowed: {', '.join(ALGORITHM_NAMES.values())}")
        proto = self.proto.lower()
        if proto and proto not in PROTOCOL_NAMES:
            raise ProgramError(f"{self.proto!r} is no protocol; allowed: {', '.join(PROTOCOL_NAMES.values())}")
        level = self.net_gdr_level.upper()
        if level and level not in GDR_LEVELS:
            raise ProgramError(f"{self.net_gdr_level!r} is no path class; allowed: {', '.join(GDR_LEVELS)}")
        object.__setattr__(self, "algo", ALGORITHM_NAMES[algo] if algo else "")
        object.__setattr__(self, "proto", PROTOCOL_NAMES[proto] if proto else "")
        object.__setattr__(self, "net_gdr_level", level)

    @property
    def number(self) -> tuple[int, int]:
        """Give major and minor version.

        Examples
        --------
        >>> NcclSettings(version="2.19.3").number
        (2, 19)
        """
        major, minor, *_ = self.version.split(".")
        return int(major), int(re.match(r"\d+", minor)[0])  # type: ignore[index]


CURRENT: Final = NcclSettings()
"""Current NCCL with nothing set."""
