"""A unit's backward in two: what the input's gradient needs, and the gradients of the weights, which may wait.

Zero-bubble schedules do the second part later (arXiv 2401.10241).
"""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.workload.op import Gemm, GroupedGemm, Timed
from simgpu.workload.unit import GradientReady, PassItem, Unit

WEIGHT_GRADIENT = "weight gradient"
"""Name of a synthetic stage's weight gradient."""
_SUFFIXES = (".wgrad", ".bias_gradient")
"""Ends of the names of ops that make nothing but the gradients of a linear layer's weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitBackward:
    """The two parts of a backward pass, each in its order, and what is kept between them.

    Parameters
    ----------
    input_pass, weight_pass : tuple of PassItem
        Together they are the unit's backward.
    inputs_bytes : int
        Inputs of linear layers: part of what the unit saved or recomputed.
    gradients_bytes : int
        Gradients of their outputs.
    """

    input_pass: tuple[PassItem, ...]
    weight_pass: tuple[PassItem, ...]
    inputs_bytes: int
    gradients_bytes: int


def split_backward(unit: Unit) -> SplitBackward:
    """Split a unit's backward.

    Parameters
    ----------
    unit : Unit

    Returns
    -------
    SplitBackward

    Notes
    -----
    Matrix products and sums that make a linear layer's weight and bias gradients wait, and so do all marks that
    gradients are final. Norms make both of theirs in one go. Nothing needs the gradient of an embedding's input: all
    of its backward waits. Tensor-parallel transfers belong to the input's gradient, and what was gathered is kept, as
    in sail-sg/zero-bubble-pipeline-parallelism, where both operands of a weight's product are stored: for
    ``(m, k) x (k, n)`` k n elements of the input (of a convolution, its pixels once) and k m of the output's gradient.
    A synthetic stage keeps all it saved.

    Examples
    --------
    >>> from simgpu.workload.synthetic import SyntheticModel, synthetic_units
    >>> (unit,) = synthetic_units(SyntheticModel(stages=1, forward_ns=10, backward_ns=20, saved_bytes=8))
    >>> split = split_backward(unit)
    >>> [[item.duration_ns for item in part] for part in (split.input_pass, split.weight_pass)]
    [[10], [10]]
    >>> split.inputs_bytes
    8
    """
    if unit.kind == "embedding":
        return SplitBackward(
            input_pass=(),
            weight_pass=unit.backward,
            inputs_bytes=unit.saved_bytes,
            gradients_bytes=unit.output_bytes,
        )
    waiting = [item for item in unit.backward if _waits(item)]
    inputs = gradients = 0
    for item in waiting:
        if isinstance(item, Gemm):
            read = item.k * item.n if item.stored is None else item.stored - item.m * (item.k + item.n)
            inputs += item.dtype.bytes * item.batch * read
            gradients += item.dtype.bytes * item.batch * item.k * item.m
        elif isinstance(item, GroupedGemm):
            inputs += item.dtype.bytes * item.rows * item.k
            gradients += item.dtype.bytes * item.rows * item.n
        elif isinstance(item, Timed):
            inputs = unit.saved_bytes
    return SplitBackward(
        input_pass=tuple(item for item in unit.backward if not _waits(item)),
        weight_pass=tuple(waiting),
        inputs_bytes=min(inputs, unit.saved_bytes + unit.recomputed_bytes),
        gradients_bytes=gradients,
    )


def _waits(item: PassItem) -> bool:
    if isinstance(item, Timed):
        return item.name == WEIGHT_GRADIENT
    return isinstance(item, GradientReady) or getattr(item, "name", "").endswith(_SUFFIXES)
