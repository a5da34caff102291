"""An OpShape: what two ops must share to take the same time, and what may differ between measured shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound, Op

KINDS: Final[Mapping[str, type[Gemm | GroupedGemm | Attention | MemoryBound]]] = {
    "gemm": Gemm,
    "grouped_gemm": GroupedGemm,
    "attention": Attention,
    "memory_bound": MemoryBound,
}
"""Kinds of ops that a table may measure, by the name that tables use."""

SIZES: Final[Mapping[str, tuple[str, ...]]] = {
    "gemm": ("m", "n", "k", "batch"),
    "grouped_gemm": ("groups", "rows", "n", "k", "busiest"),
    "attention": ("batch", "sequence", "heads", "kv_heads", "head_dim"),
    "memory_bound": ("bytes",),
}
"""Fields of an op between whose measured values times are interpolated; all others must be equal."""

OP_CLASSES: Final = ("memory_bound", "optimizer")
"""Classes of memory-bound ops: what the optimizer touches is never still in the cache."""

_NO_SHAPE: Final = ("name", "flops")  # what an op is called and counted as


@dataclass(frozen=True, slots=True, kw_only=True)
class OpShape:
    """Kind, sizes and everything else that decides an op's time.

    Parameters
    ----------
    kind : str
        A key of `KINDS`.
    same : tuple of (str, value)
        Fields that no interpolation may cross: number format, layout, causal or not, forward or backward, …
    sizes : tuple of int
        Values of the fields of `SIZES`.
    """

    kind: str
    same: tuple[tuple[str, object], ...]
    sizes: tuple[int, ...]


def shape_fields(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind of op that decide its time: sizes first.

    Examples
    --------
    >>> shape_fields("gemm")[:4], "layout" in shape_fields("gemm"), shape_fields("memory_bound")[0]
    (('m', 'n', 'k', 'batch'), True, 'bytes')
    """
    sizes = SIZES[kind]
    return (*sizes, *(f.name for f in fields(KINDS[kind]) if f.name not in (*sizes, *_NO_SHAPE)))


def kind_of(op: Op) -> str | None:
    """Return what tables call the kind of an op; None for one of a given duration.

    Examples
    --------
    >>> kind_of(Gemm(name="a", m=1, n=1, k=1))
    'gemm'
    """
    return next((kind for kind, cls in KINDS.items() if isinstance(op, cls)), None)


def shape_of(op: Op) -> OpShape | None:
    """Return the shape of an op; None for one of a given duration, which has none.

    Examples
    --------
    >>> shape_of(Gemm(name="a", m=1, n=2, k=3)).sizes
    (1, 2, 3, 1)
    >>> shape_of(Gemm(name="a", m=1, n=2, k=3)) == shape_of(Gemm(name="b", m=1, n=2, k=3))
    True
    """
    kind = kind_of(op)
    if kind is None:
        return None
    sizes = SIZES[kind]
    same = tuple((name, getattr(op, name)) for name in shape_fields(kind) if name not in sizes)
    return OpShape(kind=kind, same=same, sizes=tuple(getattr(op, name) for name in sizes))


def shape_values(op: Op) -> Mapping[str, Any]:
    """Return what decides an op's time: its sizes, number format, layout and so on; nothing for a given duration.

    Examples
    --------
    >>> from simgpu.workload.op import MemoryBound
    >>> shape_values(MemoryBound(name="norm", bytes=8, pattern="norm"))["pattern"]
    'norm'
    """
    kind = kind_of(op)
    values = {} if kind is None else {name: getattr(op, name) for name in shape_fields(kind)}
    return {name: getattr(value, "value", value) for name, value in values.items()}
