"""Host memory that offloaded states need, on the computer that needs most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simgpu.program import Program
from simgpu.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """Memory of one computer.

    Parameters
    ----------
    by_category_bytes : mapping of str to int
        Sums over its ranks; empty when nothing is offloaded.
    capacity_bytes : int or None
        What it has; None where the topology does not say.
    """

    by_category_bytes: Mapping[str, int] = field(default_factory=dict)
    capacity_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        """Bytes in all.

        Examples
        --------
        >>> HostMemory(by_category_bytes={"gradients": 2, "optimizer": 6}).total_bytes
        8
        """
        return sum(self.by_category_bytes.values())


def host_memory(program: Program, ranks_per_host: int, capacity_bytes: int | None) -> HostMemory:
    """Sum what ranks keep in host memory, for the computer where that is most.

    Parameters
    ----------
    program : Program
        Folded or not.
    ranks_per_host : int
        Neighbouring ranks on one computer.
    capacity_bytes : int or None
    """
    hosts: dict[int, dict[str, int]] = {}
    for binding in program.ranks:
        kept = program.roles[binding.role].host_bytes
        for rank in binding.members if kept else ():
            total = hosts.setdefault(rank // ranks_per_host, {})
            for category, size in kept.items():
                total[category] = total.get(category, 0) + size
    fullest: dict[str, int] = max(hosts.values(), key=lambda total: sum(total.values()), default={})
    return HostMemory(by_category_bytes=fullest, capacity_bytes=capacity_bytes)


def describe_overfull_host(host: HostMemory) -> str:
    """Warn of a computer whose memory does not hold what is offloaded; an empty text for others.

    Examples
    --------
    >>> describe_overfull_host(HostMemory(by_category_bytes={"optimizer": 600 << 30}, capacity_bytes=512 << 30))
    'OUT OF HOST MEMORY: a node keeps 600.0 of 512.0 GiB for its ranks (optimizer 600.0)'
    """
    if host.capacity_bytes is None or host.total_bytes <= host.capacity_bytes:
        return ""
    parts = sorted(host.by_category_bytes.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts)
    total, capacity = host.total_bytes / GIB, host.capacity_bytes / GIB
    return f"OUT OF HOST MEMORY: a node keeps {total:.1f} of {capacity:.1f} GiB for its ranks ({listed})"
