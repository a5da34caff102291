"""Chains of kernels that each pass over the same elements."""

from __future__ import annotations

from collections.abc import Iterable

from simgpu.workload.op import MemoryBound


def chain(
    name: str, elements: int, steps: Iterable[tuple[str, int]], *, pattern: str = "copy"
) -> tuple[MemoryBound, ...]:
    """Return one kernel per step of an unfused computation.

    Parameters
    ----------
    name : str
        Beginning of every kernel's name.
    elements : int
    steps : iterable of (str, int)
        End of the kernel's name, and the bytes that it reads and writes per element; steps of 0 B are no kernel.
    pattern : str
        As `MemoryBound` has it.

    Examples
    --------
    >>> [(op.name, op.bytes) for op in chain("loss", 10, (("cast", 6), ("nothing", 0), ("max", 4)))]
    [('loss.cast', 60), ('loss.max', 40)]
    """
    return tuple(
        MemoryBound(name=f"{name}.{step}", bytes=elements * size, pattern=pattern) for step, size in steps if size
    )
