"""What a data-parallel strategy does to one stage: states kept, weights gathered, gradients reduced. No seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """One weight gradient of a stage, in the order backward completes them."""

    unit: int  # index of the unit in the stage
    name: str
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWeights:
    """The weights of one stage as data parallelism sees them.

    Parameters
    ----------
    kinds : tuple of str
        Kind of each unit (``embedding``, ``block``, ``head``).
    gradients : tuple of Gradient
        Every weight once, in gradient-ready order.
    tied : mapping of int to int
        Units that also use a weight which another unit of the stage registers (a tied head), and its elements.
    """

    kinds: tuple[str, ...]
    gradients: tuple[Gradient, ...]
    tied: Mapping[int, int] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        return sum(gradient.elements for gradient in self.gradients)

    def unit_elements(self, *units: int) -> int:
        """Weights that some of the units register."""
        return sum(gradient.elements for gradient in self.gradients if gradient.unit in units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A gradient reduction that may start when the gradient ``parameter`` of ``unit`` is ready.

    ``bytes`` is the payload of the whole collective. ``copy_bytes`` is the memory traffic to flatten gradients into the
    buffer first and ``copy_back_bytes`` that to bring the result back, both on the compute stream; ``add_bytes`` that
    to add the reduced shard to the kept gradients, on the reduction's own stream.
    """

    kind: str
    bytes: int
    unit: int
    parameter: str
    copy_bytes: int = 0
    copy_back_bytes: int = 0
    add_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardGroup:
    """Units whose weights are gathered together before use and dropped after it.

    Parameters
    ----------
    units : tuple of int
    bytes : int
        Payload of the gather.
    copy_in_bytes, copy_out_bytes : int
        Memory traffic to cast this rank's shard into the gather's buffer, and to spread the result into weights.
    gradient_bytes : int
        Unsharded gradients that live from backward to the end of their reduction.
    reshard : bool
        The weights are dropped between forward and backward.
    """

    units: tuple[int, ...]
    bytes: int
    copy_in_bytes: int
    copy_out_bytes: int
    gradient_bytes: int
    reshard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientStore:
    """What it costs to keep a gradient that backward has just written in the compute precision.

    Bytes of memory traffic per element in the first microbatch of a step and in later ones; ``zeroed`` says that
    gradients live in buffers which are cleared every step.
    """

    first_bytes: int = 0
    later_bytes: int = 0
    zeroed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallelPlan:
    """A data-parallel strategy applied to one stage.

    Parameters
    ----------
    weights_bytes, gradients_bytes, optimizer_bytes, buckets_bytes : int
        Held by one rank from before the first step.
    optimizer_elements : int
        Weights that this rank updates, and gradients that it reads for their norm.
    gradient_shards : int
        Over how many ranks the reduced gradients are split.
    store : GradientStore
    shards : tuple of ShardGroup
        Empty when weights are whole on every rank.
    prefetch : bool
        The next shard group is gathered while this one computes.
    keep_gathered : bool
        Weights and unsharded gradients stay from their first use to the last microbatch's backward.
    reductions : tuple of Reduction
        In the order they become ready.
    reduce_every_microbatch : bool
        Otherwise only in the backward of the last microbatch.
    overlap : bool
        Reductions run beside backward; otherwise the compute stream waits for each.
    weight_gathers_bytes : tuple of int
        All-gathers after the optimizer step.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    optimizer_elements: int
    gradient_shards: int = 1
    store: GradientStore = GradientStore()
    buckets_bytes: int = 0
    shards: tuple[ShardGroup, ...] = ()
    prefetch: bool = False
    keep_gathered: bool = False
    reductions: tuple[Reduction, ...] = ()
    reduce_every_microbatch: bool = False
    overlap: bool = True
    weight_gathers_bytes: tuple[int, ...] = ()


def shard_elements(elements: int, dp: int) -> int:
    """Elements on the fullest rank when split evenly: rounded up, as frameworks pad.

    Examples
    --------
    >>> shard_elements(10, 4)
    3
    """
    return -(-elements // dp)


def whole_states(weights: StageWeights, training: Training) -> tuple[int, int, int]:
    """Bytes of weights, gradients and optimizer state when nothing is sharded."""
    n = weights.elements
    return (
        n * training.param_dtype.bytes,
        n * training.grad_dtype.bytes,
        n * training.optimizer_bytes_per_parameter,
    )


def autograd_store(fresh_bytes: int, kept_bytes: int) -> GradientStore:
    """PyTorch's ``.grad``: dropped by ``zero_grad``, so the first gradient is taken as it is and later ones added.

    Parameters
    ----------
    fresh_bytes, kept_bytes : int
        Per element, as backward writes it and as it is kept; where they differ it is cast first.

    Examples
    --------
    >>> autograd_store(2, 4)  # bf16 to fp32, then add
    GradientStore(first_bytes=6, later_bytes=18, zeroed=False)
    """
    cast = 0 if fresh_bytes == kept_bytes else fresh_bytes + kept_bytes
    return GradientStore(first_bytes=cast, later_bytes=cast + 3 * kept_bytes)


def main_grad_store(training: Training) -> GradientStore:
    """Megatron's ``main_grad`` buffers: every gradient is added in one kernel, and the buffers are cleared.

    Examples
    --------
    >>> main_grad_store(Training(sequence_length=1, micro_batch_size=1, accumulation=1)).later_bytes
    10
    """
    added = training.precision.bytes + 2 * training.grad_dtype.bytes
    return GradientStore(first_bytes=added, later_bytes=added, zeroed=True)
