"""Runs of kernels that did not take their own durations: slowed by communication, or held up by the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from simgpu.metrics.numbering import as_they_come
from simgpu.metrics.span_keys import span_keys
from simgpu.program import Compute
from simgpu.timeline import Int64, Timeline

Times = tuple[int, ...]
_Key = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelRuns:
    """When kernels ended and how long they were held up, of every span; runs that went alike have one number.

    Parameters
    ----------
    ends, holds : (n,) int64
        By span: index into ``ends_ns`` and ``holds_ns``, -1 where the kernels took their own durations and where
        nothing held them up.
    ends_ns, holds_ns : list of tuple of int, nanoseconds
        As in `simgpu.timeline.Timeline`.
    """

    ends: Int64
    holds: Int64
    ends_ns: list[Times]
    holds_ns: list[Times]

    def times(self, ends: int, holds: int) -> tuple[Times | None, Times | None]:
        """Return the ends and the holds of a run by their numbers, None for -1."""
        return None if ends < 0 else self.ends_ns[ends], None if holds < 0 else self.holds_ns[holds]


def kernel_runs(timeline: Timeline) -> KernelRuns:
    """Find the runs of a Timeline that did not take their own durations.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    KernelRuns

    Examples
    --------
    >>> import simgpu
    >>> case = simgpu.load_scenario("zero_stages").cases[0]  # reductions beside the backward pass
    >>> timeline = simgpu.play_case(case)
    >>> found = kernel_runs(timeline)
    >>> bool((found.ends >= 0).any()), len(found.ends_ns) <= len(timeline.kernel_ends_ns)
    (True, True)
    """
    ends, ends_ns = _numbered(timeline, timeline.kernel_ends_ns)
    holds, holds_ns = _numbered(timeline, timeline.kernel_holds_ns)
    return KernelRuns(ends=ends, holds=holds, ends_ns=ends_ns, holds_ns=holds_ns)


def _numbered(timeline: Timeline, found: Mapping[_Key, Times]) -> tuple[Int64, list[Times]]:
    """Give each span the number of its value; equal ones share it."""
    spans = timeline.spans
    number = np.full(len(spans), -1, np.int64)
    if not found or not len(spans):
        return number, []
    keys = np.fromiter(chain.from_iterable(found), np.int64, 4 * len(found)).reshape(-1, 4)
    of_spans = timeline.derived(span_keys)
    wanted = of_spans.key(keys[:, 0], keys[:, 1], keys[:, 3], keys[:, 2])
    row = np.minimum(np.searchsorted(of_spans.keys, wanted), len(spans) - 1)
    there = np.flatnonzero(of_spans.keys[row] == wanted)
    # Most tuples are shared, so that looking at each object once is enough.
    values = list(found.values())
    first, which = as_they_come(np.fromiter(map(id, values), np.int64, len(values))[there])
    numbers: dict[Times, int] = {}
    of_object = [numbers.setdefault(values[at], len(numbers)) for at in there[first].tolist()]
    number[row[there]] = np.array(of_object, np.int64)[which]
    return number, list(numbers)


def kernel_classes(
    work: Compute,
    start_ns: int,
    stop_ns: int,
    ends_ns: Sequence[int] | None = None,
    holds_ns: Sequence[int] | None = None,
) -> tuple[tuple[str, int], ...]:
    """Nanoseconds of each class between two times of a run of kernels, relative to its start.

    ``ends_ns`` says when each kernel ended, where that is not by its own duration, ``holds_ns`` how long the CPU held
    each one up before that: class host.

    Examples
    --------
    >>> from simgpu.program import Kernel
    >>> product = Kernel(name="mm", op_class="gemm", duration_ns=4)
    >>> run = Compute(name="run", kernels=(product, product), duration_ns=8, phase="forward")
    >>> kernel_classes(run, 1, 8), kernel_classes(run, 0, 11, (4, 11), (0, 3))
    ((('compute.gemm', 7),), (('compute.gemm', 8), ('host', 3)))
    """
    totals: dict[str, int] = {}
    if ends_ns is None and holds_ns is None and start_ns <= 0 and stop_ns >= work.duration_ns:  # most are
        for kernel in work.kernels:
            if kernel.duration_ns > 0:
                name = f"compute.{kernel.op_class}"
                totals[name] = totals.get(name, 0) + kernel.duration_ns
        return tuple(sorted(totals.items()))
    begin = 0
    for position, kernel in enumerate(work.kernels):
        end = begin + kernel.duration_ns if ends_ns is None else ends_ns[position]
        launched = begin if holds_ns is None else begin + holds_ns[position]
        for name, low, high in (("host", begin, launched), (f"compute.{kernel.op_class}", launched, end)):
            inside = min(high, stop_ns) - max(low, start_ns)
            if inside > 0:
                totals[name] = totals.get(name, 0) + inside
        begin = end
    return tuple(sorted(totals.items()))


def slowed(work: Compute, ends_ns: Sequence[int] | None, holds_ns: Sequence[int] | None) -> str:
    """Say by how much communication slowed a run of kernels; empty where it did not.

    Examples
    --------
    >>> slowed(Compute(name="run", kernels=(), duration_ns=8, phase="forward"), (5, 10), None)
    '25.0% longer than alone, beside communication'
    """
    if ends_ns is None:
        return ""
    more = ends_ns[-1] - sum(holds_ns or ()) - work.duration_ns
    return f"{more / work.duration_ns:.1%} longer than alone, beside communication" if more else ""
