"""What a profiler recorded of one rank's GPU, in plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class GpuEvent(NamedTuple):
    """A kernel, copy or memset.

    ``kind`` is ``kernel``, ``collective``, ``copy`` (within the GPU, memsets too) or ``host_copy``. ``launched_ns`` is
    when the CPU call that launched it began, None where the trace does not tell. ``group`` names the process group,
    ``ranks`` its members, empty where not told; ``peer`` is ``source->target`` of a point-to-point.
    """

    name: str
    kind: str
    stream: int
    start_ns: int
    end_ns: int
    launched_ns: int | None
    op_class: str
    collective: str = ""
    group: str = ""
    ranks: str = ""
    peer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """One file of a profiler.

    Parameters
    ----------
    source : str
        Its name, for messages.
    rank, world_size : int or None
        From ``distributedInfo``; None where it is absent.
    device : str
        Name of the GPU, empty where unknown.
    events : tuple of GpuEvent
        By start. Several streams may overlap.
    steps : tuple of (str, int, int)
        ``ProfilerStep`` annotations of the CPU: name, begin, end, nanoseconds; in order.
    gpu_steps : tuple of (str, int, int)
        Those of the GPU, around the kernels that the CPU launched within its own.
    groups : mapping of str to str
        Process groups by name, with what the framework calls them.
    warnings : tuple of str
        What is missing or was salvaged.
    """

    source: str
    rank: int | None
    world_size: int | None
    device: str
    events: tuple[GpuEvent, ...]
    steps: tuple[tuple[str, int, int], ...] = ()
    gpu_steps: tuple[tuple[str, int, int], ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
