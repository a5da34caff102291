"""Matrix products and attention of a PyTorch profiler's trace, with their shapes and the time of their kernels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from simgpu.dtypes import DType
from simgpu.io.kineto_reader import LAUNCH
from simgpu.workload.op import Attention, Gemm

Number = int | float | Decimal
_CPU: Final = ("cpu_op", "operator")
_DTYPES: Final[Mapping[str, DType]] = {
    "c10::bfloat16": DType.BF16,
    "bfloat16": DType.BF16,
    "c10::half": DType.FP16,
    "half": DType.FP16,
    "float": DType.FP32,
}
_TF32_KERNELS: Final = ("tf32", "s1688gemm")
_NESTED: Final = 4  # calls that are read here and may lie within each other
_UNSHAPED: Final = "shapes are not in the trace (profile with record_shapes=True)"


class _UnreadError(Exception):
    """Why an op of the trace cannot be taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOp:
    """One call of an op, and what its kernels took.

    Parameters
    ----------
    op : Gemm or Attention
        Its name is the profiler's, such as ``aten::mm``.
    time_ns : int, nanoseconds
        Sum over its kernels.
    """

    op: Gemm | Attention
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOps:
    """What a trace tells of its ops.

    Parameters
    ----------
    ops : tuple of TracedOp
        In the order of the file.
    left : mapping of str to int
        Why others were left out, and how many.
    """

    ops: tuple[TracedOp, ...]
    left: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class OpCalls:
    """What one pass over a trace leaves of the calls, launches and kernels of its ops.

    An op's kernels are those that were launched while it ran on the CPU's thread (the innermost one that is read here);
    where launches are not recorded, those that carry its ``External id``. A product's layout is told by the strides of
    its operands; where they are not recorded, by which of its sizes are those of a weight that ``aten::addmm``
    multiplies by.

    Examples
    --------
    >>> OpCalls().ops()
    TracedOps(ops=(), left={})
    """

    calls: list[Mapping[str, Any]] = field(default_factory=list)
    launches: dict[int, tuple[Any, Number]] = field(default_factory=dict)  # thread and time, by correlation
    device: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take one event in."""
        if event.get("ph") != "X" or not isinstance(event.get("args"), dict):
            return
        if not all(isinstance(event.get(key), int | float | Decimal) for key in ("ts", "dur")):
            return
        category = str(event.get("cat", "")).lower()
        if category in _CPU and event.get("name") in _READERS:
            self.calls.append(event)
        elif category in LAUNCH and isinstance(event["args"].get("correlation"), int):
            self.launches[event["args"]["correlation"]] = (event.get("tid"), event["ts"])
        elif category == "kernel":
            self.device.append(event)

    def ops(self) -> TracedOps:
        """Return the ops whose shapes and times are known, and why others are not."""
        times_ns, names = self._kernels()
        weights = frozenset(_weights(self.calls))
        ops: list[TracedOp] = []
        left: dict[str, int] = {}
        for number, call in enumerate(self.calls):
            if not times_ns.get(number):
                continue
            try:
                op = _READERS[call["name"]](call["name"], call["args"], weights)
            except _UnreadError as why:
                left[str(why)] = left.get(str(why), 0) + 1
                continue
            if isinstance(op, Gemm) and op.dtype == DType.FP32 and any(mark in names[number] for mark in _TF32_KERNELS):
                op = Gemm(name=op.name, m=op.m, n=op.n, k=op.k, batch=op.batch, dtype=DType.TF32, layout=op.layout)
            ops.append(TracedOp(op=op, time_ns=times_ns[number]))
        return TracedOps(ops=tuple(ops), left=left)

    def _kernels(self) -> tuple[dict[int, int], dict[int, str]]:
        """Return the nanoseconds of every call's kernels, and the name of the first, by the call's place."""
        threads: dict[Any, list[tuple[Number, Number, int]]] = {}
        by_number: dict[int, int] = {}
        for place, call in enumerate(self.calls):
            threads.setdefault(call.get("tid"), []).append((call["ts"], call["ts"] + call["dur"], place))
            number = call["args"].get("External id")
            if isinstance(number, int):
                by_number[number] = place
        for listed in threads.values():
            listed.sort()
        times_ns: dict[int, int] = {}
        names: dict[int, str] = {}
        for kernel in self.device:
            arguments = kernel["args"]
            launch = self.launches.get(arguments.get("correlation"))
            if launch is not None:
                owner = _innermost(threads.get(launch[0], []), launch[1])
            else:
                owner = by_number.get(arguments.get("External id"))
            if owner is not None:
                times_ns[owner] = times_ns.get(owner, 0) + round(kernel["dur"] * 1000)
                names.setdefault(owner, str(kernel.get("name", "")).lower())
        return times_ns, names


def _innermost(calls: Sequence[tuple[Number, Number, int]], moment: Number) -> int | None:
    """Find the call that began last of those that run at a moment; a few nest, so that few are looked at."""
    index = bisect_right(calls, moment, key=lambda call: call[0])
    for start, end, place in reversed(calls[max(0, index - _NESTED) : index]):
        if start <= moment <= end:
            return place
    return None


def _dims(arguments: Mapping[str, Any], place: int) -> tuple[int, ...]:
    listed = arguments.get("Input Dims", arguments.get("Input dims"))
    if not isinstance(listed, list) or place >= len(listed) or not isinstance(listed[place], list):
        raise _UnreadError(_UNSHAPED)
    dims = listed[place]
    if not dims or not all(isinstance(size, int) and size > 0 for size in dims):
        raise _UnreadError(_UNSHAPED)
    return tuple(dims)


def _dtype(arguments: Mapping[str, Any], place: int) -> DType:
    listed = arguments.get("Input type")
    found = str(listed[place]).lower() if isinstance(listed, list) and place < len(listed) else ""
    if found not in _DTYPES:
        raise _UnreadError(f"number format {found or 'not in the trace'}")
    return _DTYPES[found]


def _row_major(arguments: Mapping[str, Any], place: int) -> bool | None:
    """Whether an operand's rows are contiguous; None where strides are not recorded."""
    listed = arguments.get("Input Strides")
    if not isinstance(listed, list) or place >= len(listed) or not isinstance(listed[place], list):
        return None
    strides = [value for value in listed[place] if isinstance(value, int)]
    return strides[-1] == 1 if len(strides) > 1 else None


def _weights(calls: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Sizes (k, n) of what forward products multiply by."""
    for call in calls:
        if call["name"] != "aten::addmm":
            continue
        try:
            k, n = _dims(call["args"], 2)
        except (_UnreadError, ValueError):
            continue
        yield k, n


def _layout(arguments: Mapping[str, Any], first: int, sizes: tuple[int, int, int], weights: frozenset[Any]) -> str:
    left, right = _row_major(arguments, first), _row_major(arguments, first + 1)
    if left is not None and right is not None:
        return ("nn" if right else "tn") if left else "nt"  # a product of two transposed ones runs as its transpose
    m, n, k = sizes
    if (n, k) in weights:  # a square weight too: forward products with a bias are addmm
        return "nn"
    return "nt" if (k, n) not in weights and ((m, n) in weights or (n, m) in weights) else "tn"


def _product(first: int) -> Callable[[str, Mapping[str, Any], frozenset[Any]], Gemm | Attention]:
    def read(name: str, arguments: Mapping[str, Any], weights: frozenset[Any]) -> Gemm | Attention:
        left, right = _dims(arguments, first), _dims(arguments, first + 1)
        if len(left) != len(right) or len(left) not in (2, 3) or left[-1] != right[-2] or left[:-2] != right[:-2]:
            raise _UnreadError("operands do not fit each other")
        m, n, k = left[-2], right[-1], left[-1]
        batch = left[0] if len(left) == 3 else 1
        layout = "tn" if name == "aten::addmm" else _layout(arguments, first, (m, n, k), weights)
        return Gemm(name=name, m=m, n=n, k=k, batch=batch, dtype=_dtype(arguments, first), layout=layout)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttentionCall:
    """Where an attention function has its query, its flag of causality, and whether heads come before tokens."""

    kernel: str
    query: int
    causal: int
    heads_first: bool = False
    backward: bool = False

    def __call__(self, name: str, arguments: Mapping[str, Any], weights: frozenset[Any]) -> Gemm | Attention:
        query, key, value = (_dims(arguments, self.query + place) for place in range(3))
        if not len(query) == len(key) == len(value) == 4:
            raise _UnreadError("attention over packed sequences")
        concrete = arguments.get("Concrete Inputs")
        flag = str(concrete[self.causal]) if isinstance(concrete, list) and self.causal < len(concrete) else ""
        if flag.lower() not in ("true", "false"):
            raise _UnreadError("whether attention is causal is not in the trace (PyTorch 2.1 records it)")
        tokens, heads = (2, 1) if self.heads_first else (1, 2)
        return Attention(
            name=name,
            batch=query[0],
            sequence=query[tokens],
            heads=query[heads],
            kv_heads=key[heads],
            head_dim=query[3],
            causal=flag.lower() == "true",
            backward=self.backward,
            dtype=_dtype(arguments, self.query),
            value_dim=value[3] if value[3] != query[3] else None,
            kv_sequence=key[tokens] if key[tokens] != query[tokens] else None,
            kernel=self.kernel,
        )


# Positions in the signatures of pytorch/pytorch aten/src/ATen/native/native_functions.yaml; PyTorch's own flash
# attention is FlashAttention 2.
_READERS: Final[Mapping[str, Callable[[str, Mapping[str, Any], frozenset[Any]], Gemm | Attention]]] = {
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::addmm": _product(1),
    "aten::baddbmm": _product(1),
    "aten::_flash_attention_forward": _AttentionCall(kernel="flash-2", query=0, causal=8),
    "aten::_flash_attention_backward": _AttentionCall(kernel="flash-2", query=1, causal=11, backward=True),
    "aten::_scaled_dot_product_flash_attention": _AttentionCall(kernel="flash-2", query=0, causal=4, heads_first=True),
    "aten::_scaled_dot_product_flash_attention_backward": _AttentionCall(
        kernel="flash-2", query=1, causal=11, heads_first=True, backward=True
    ),
    "aten::_scaled_dot_product_cudnn_attention": _AttentionCall(kernel="cudnn", query=0, causal=6, heads_first=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": _AttentionCall(
        kernel="cudnn", query=1, causal=14, heads_first=True, backward=True
    ),
}
