"""What a data-parallel strategy does to one stage: states kept, weights gathered, gradients reduced. No seconds."""

from __future__ import annotations

from dataclasses import dataclass

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
        Kind of each unit (``embedding``, ``block``, ``head``, ``stage``).
    gradients : tuple of Gradient
        Every weight once, in gradient-ready order.
    """

    kinds: tuple[str, ...]
    gradients: tuple[Gradient, ...]

    @property
    def elements(self) -> int:
        return sum(gradient.elements for gradient in self.gradients)

    def unit_elements(self, *units: int) -> int:
        """Weights of some of the units."""
        return sum(gradient.elements for gradient in self.gradients if gradient.unit in units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A gradient reduction that may start when the gradient ``parameter`` of ``unit`` is ready.

    ``bytes`` is the payload of the whole collective; ``copy_bytes`` the memory traffic to flatten gradients into the
    buffer first and ``copy_back_bytes`` that to bring the result back.
    """

    kind: str
    bytes: int
    unit: int
    parameter: str
    copy_bytes: int = 0
    copy_back_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardGroup:
    """Units whose weights are gathered together before use and dropped after it.

    ``bytes`` is the payload of the gather, ``reshard`` whether they are dropped between forward and backward.
    """

    units: tuple[int, ...]
    bytes: int
    gradient_bytes: int  # unsharded gradients that live from backward to the end of their reduction
    reshard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallelPlan:
    """A data-parallel strategy applied to one stage.

    Parameters
    ----------
    weights_bytes, gradients_bytes, optimizer_bytes, buckets_bytes : int
        Held by one rank from before the first step.
    optimizer_elements : int
        Weights that this rank updates.
    norm_elements : int
        Gradients that this rank reads for the global norm.
    shards : tuple of ShardGroup
        Empty when weights are whole on every rank.
    reductions : tuple of Reduction
        In the order they become ready.
    reduce_every_microbatch : bool
        Otherwise only in the backward of the last microbatch.
    overlap : bool
        Reductions run beside backward; otherwise the compute stream waits for each.
    weight_gathers_bytes : tuple of int
        All-gathers after the optimizer step.
    norm_over_dp : bool
        Ranks of the dp group hold different gradients when the norm is taken.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    optimizer_elements: int
    norm_elements: int
    buckets_bytes: int = 0
    shards: tuple[ShardGroup, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    reduce_every_microbatch: bool = False
    overlap: bool = True
    weight_gathers_bytes: tuple[int, ...] = ()
    norm_over_dp: bool = False


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
