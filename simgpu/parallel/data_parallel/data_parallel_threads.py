"""torch.nn.DataParallel: one process, whose threads run copies of the model that the first GPU hands out every time."""

from __future__ import annotations

from typing import Final

from simgpu.parallel.data_parallel.buckets import Bucket, buckets_by_elements
from simgpu.parallel.data_parallel.plan import DataParallelPlan, autograd_store, whole_states
from simgpu.parallel.data_parallel.stage_weights import StageWeights
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

BUFFER_BYTES: Final = 10 << 20
"""Weights are sent, and gradients reduced, in buffers of this size: pytorch/pytorch torch/csrc/cuda/comm.h
(``buffer_size`` of broadcast_coalesced) and torch/nn/parallel/comm.py (of reduce_add_coalesced)."""


def dataparallel(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Keep all states on the first GPU, which alone has an optimizer; the rest is `simgpu.lower.threads`'."""
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        store=autograd_store(training.precision.bytes, training.grad_dtype.bytes),
    )


def coalesced(weights: StageWeights, bytes_per_element: int, *, trained: bool = False) -> tuple[Bucket, ...]:
    """Return weights in registration order as they fill buffers: one that would not fit starts the next.

    Parameters
    ----------
    weights : StageWeights
    bytes_per_element : int
    trained : bool
        Only those with gradients.

    Examples
    --------
    >>> from simgpu.parallel.data_parallel.stage_weights import Gradient
    >>> large, small = Gradient(unit=0, name="a", elements=3 << 20), Gradient(unit=0, name="b", elements=1 << 10)
    >>> stage = StageWeights(kinds=("block",), gradients=(small, large))
    >>> [sum(weight.elements for weight in bucket) for bucket in coalesced(stage, 4)]
    [3145728, 1024]
    """
    registered = weights.gradients[::-1] if trained else (*weights.gradients[::-1], *weights.frozen)
    return buckets_by_elements(registered, BUFFER_BYTES // bytes_per_element)
