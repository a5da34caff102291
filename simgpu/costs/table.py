"""A measured op table: times by kind and shape, and between measured shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from simgpu.costs.attention_kernel import attention_kernel
from simgpu.costs.op_shape import OpShape, shape_of
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention, MemoryBound, Op

if TYPE_CHECKING:
    import numpy as np

    Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]
    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

FARTHEST: Final = 4.0
"""A shape is interpolated only between measured ones whose every size is within this factor of its own."""

_ARTIFICIAL_COST: Final = 1e4  # above any squared distance in log space between neighbours
_TOLERANCE: Final = 1e-9  # in log space, and of weights
_MOST_STEPS: Final = 10  # for each row of the table; rounding could make the search go round in circles


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """What a table says about an op.

    Parameters
    ----------
    time_ns : float, nanoseconds
    how : str
        ``exact`` or ``interpolated``.
    """

    time_ns: float
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """Measured times of ops on one device. Compared by identity, so that prices can be remembered.

    Parameters
    ----------
    name : str
        What reports call it: the file's name.
    rows : iterable of (Op, float)
        Ops and their times in nanoseconds; of several rows of one shape the geometric mean counts. A memory-bound op
        with a name stands for ops of that name alone, one with an empty name for every op of its shape; so does an
        attention with and without a kernel.
    gpu : Gpu, optional
        The device, which says what kernel it runs where it has not the one that an op or a row names.

    Notes
    -----
    A shape that was measured has its measured time. Another one lies between measured ones when it is a convex
    combination of them in log space: log size_j = sum_i w_i log size_ij for every size j, w_i >= 0, sum w_i = 1. Of
    all such combinations the one with the smallest sum w_i d_i^2 is taken (d_i the distance in log space), which is
    linear interpolation on the Delaunay triangulation of the measured shapes, and along one size when only that
    differs. Then log time = sum_i w_i log time_i: exact for every power law. Rows that differ in any size by more
    than a factor of `FARTHEST` take no part. Everything else, outside the bounds, is the model's.

    Examples
    --------
    >>> from simgpu.workload.op import Gemm
    >>> rows = [(Gemm(name="a", m=m, n=4096, k=4096), 100.0 * m) for m in (1024, 4096)]
    >>> table = MeasuredTable("my_ops.csv", rows)
    >>> table.time(Gemm(name="b", m=1024, n=4096, k=4096))
    MeasuredTime(time_ns=102400.0, how='exact')
    >>> found = table.time(Gemm(name="b", m=2048, n=4096, k=4096))
    >>> round(found.time_ns), found.how
    (204800, 'interpolated')
    >>> table.time(Gemm(name="b", m=8192, n=4096, k=4096)) is None
    True
    """

    name: str
    rows: Iterable[tuple[Op, float]] = field(repr=False)
    gpu: Gpu | None = field(default=None, repr=False)
    _groups: Mapping[tuple[object, ...], Mapping[tuple[int, ...], float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        logs: dict[tuple[object, ...], dict[tuple[int, ...], list[float]]] = {}
        for op, time_ns in self.rows:
            shape = shape_of(op)
            if shape is not None and all(size > 0 for size in shape.sizes):
                name = "" if isinstance(op, Attention) and not op.kernel else _variety(op, self.gpu)
                logs.setdefault(_key(shape, name), {}).setdefault(shape.sizes, []).append(math.log(time_ns))
        groups = {
            key: MappingProxyType({sizes: math.fsum(times) / len(times) for sizes, times in group.items()})
            for key, group in logs.items()
        }
        object.__setattr__(self, "rows", ())
        object.__setattr__(self, "_groups", MappingProxyType(groups))

    @property
    def shapes(self) -> int:
        """Number of measured shapes."""
        return sum(len(group) for group in self._groups.values())

    def time(self, op: Op) -> MeasuredTime | None:
        """Return the measured or interpolated time of an op; None outside the measured bounds.

        Parameters
        ----------
        op : Op

        Returns
        -------
        MeasuredTime or None
        """
        return _time(self, op)


@lru_cache(maxsize=65536)
def _time(table: MeasuredTable, op: Op) -> MeasuredTime | None:
    shape = shape_of(op)
    if shape is None or not all(size > 0 for size in shape.sizes):
        return None
    for name in dict.fromkeys((_variety(op, table.gpu), "")):
        group = table._groups.get(_key(shape, name), {})
        if shape.sizes in group:
            return MeasuredTime(time_ns=_exp(group[shape.sizes]), how="exact")
        between = _between(group, shape.sizes)
        if between is not None:
            return MeasuredTime(time_ns=_exp(between), how="interpolated")
    return None


def _variety(op: Op, gpu: Gpu | None) -> str:
    """Return what a row may leave open of ops of its shape: a memory-bound op's name, an attention's kernel."""
    if isinstance(op, Attention):
        return op.kernel if gpu is None else attention_kernel(gpu, op.kernel).name
    return op.name if isinstance(op, MemoryBound) else ""


def _key(shape: OpShape, variety: str) -> tuple[object, ...]:
    return (shape.kind, variety, tuple(entry for entry in shape.same if entry[0] != "kernel"))


def _exp(log_ns: float) -> float:
    """Return a time that was kept as its logarithm, to the thousandth of a nanosecond."""
    return round(math.exp(log_ns), 3)


def _between(group: Mapping[tuple[int, ...], float], sizes: Sequence[int]) -> float | None:
    """Interpolate the logarithm of the time, or return None where no near measured shapes surround these sizes."""
    near = [
        (row, log_ns)
        for row, log_ns in group.items()
        if all(have <= FARTHEST * want and want <= FARTHEST * have for have, want in zip(row, sizes, strict=True))
    ]
    for j, want in enumerate(sizes):
        if not any(row[j] <= want for row, _ in near) or not any(row[j] >= want for row, _ in near):
            return None
    import numpy as np  # only a table that is in use pays for it

    points = np.log(np.array([row for row, _ in near], dtype=np.float64)) - np.log(np.array(sizes, dtype=np.float64))
    weights = _combination(points)
    if weights is None:
        return None
    return math.fsum(weight * log_ns for weight, (_, log_ns) in zip(weights.tolist(), near, strict=True))


def _combination(points: Points) -> Vector | None:
    """Find the convex combination of points that is the origin and has the smallest mean squared distance.

    Returns None when the origin is outside their hull.
    """
    import numpy as np

    count, dimensions = points.shape
    columns = np.vstack([points.T, np.ones(count)])
    order = np.argsort((points**2).sum(axis=1), kind="stable")
    target = np.zeros(dimensions + 1)
    target[-1] = 1.0
    found = _cheapest(columns[:, order], target, (points[order] ** 2).sum(axis=1))
    if found is None:
        return None
    weights = np.zeros(count)
    weights[order] = found
    return weights


def _cheapest(columns: Points, target: Vector, costs: Vector) -> Vector | None:
    """Minimise ``costs @ w`` over ``columns @ w == target, w >= 0``; None when nothing meets the target.

    The revised simplex method from a basis of artificial variables, with Bland's rule, which cannot cycle.
    """
    import numpy as np

    rows, count = columns.shape
    columns = np.hstack([columns, np.eye(rows)])
    costs = np.append(costs, np.full(rows, _ARTIFICIAL_COST))
    basis = list(range(count, count + rows))
    for _ in range(_MOST_STEPS * (count + rows)):
        square = columns[:, basis]
        values = np.linalg.solve(square, target)
        reduced = costs - columns.T @ np.linalg.solve(square.T, costs[basis])
        reduced[basis] = 0.0
        entering = np.flatnonzero(reduced[:count] < -_TOLERANCE)
        if not len(entering):
            break
        direction = np.linalg.solve(square, columns[:, entering[0]])
        ratios = [
            (max(values[row], 0.0) / direction[row], basis[row], row)
            for row in range(rows)
            if direction[row] > _TOLERANCE
        ]
        if not ratios:
            break
        least = min(ratio for ratio, _, _ in ratios)
        _, _, leaving = min((place, 0.0, row) for ratio, place, row in ratios if ratio <= least + _TOLERANCE)
        basis[leaving] = int(entering[0])
    weights = np.zeros(count + rows)
    weights[basis] = np.clip(values, 0.0, None)
    if weights[count:].max() > _TOLERANCE:
        return None
    found: Vector = weights[:count] / weights[:count].sum()
    return found
