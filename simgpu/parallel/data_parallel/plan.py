"""What a data-parallel strategy does to one stage: states kept, weights gathered, gradients reduced. No seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from simgpu.parallel.data_parallel.offload import HostOffload
from simgpu.parallel.data_parallel.reduction import Reduction
from simgpu.parallel.data_parallel.shard_group import DP, Prefetch, ShardGroup
from simgpu.parallel.data_parallel.stage_weights import StageWeights, count
from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUpdate:
    """An all-gather of weights that the optimizer has changed, and the units that need it (empty: all)."""

    bytes: int
    units: frozenset[int] = frozenset()
    communicator: str = DP


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
        Of one rank; all but ``dropped_bytes`` are held from before the first step.
    dropped_bytes : tuple of int
        Gradients that the first backward of a step makes and ``zero_grad`` drops after the optimizer (PyTorch's
        ``.grad``), by the unit that makes them, which of a ShardGroup is its first; empty when gradients stay.
    staged_bytes : int
        Buckets that a step's first backward takes, or every one that reduces, and the end of the reductions gives back.
    fresh_bytes : int
        A rank's own part of the gradients of a microbatch after the first, until it is added to what there is.
    update_bytes : int
        Copies of gradients that exist only while the optimizer updates.
    optimizer_elements : int
        Weights that this rank updates, and gradients that it reads for their norm.
    gradient_shards : int
        Over how many ranks the reduced gradients are split.
    store : GradientStore
    shards : tuple of ShardGroup
        Empty when weights are whole on every rank.
    prefetch : Prefetch
    keep_gathered : bool
        Weights and unsharded gradients stay from their first use to the last microbatch's backward.
    reductions : tuple of Reduction
        In the order they become ready.
    reduce_every_microbatch : bool
        Every backward reduces and waits for it at its end; otherwise only that of the last microbatch.
    reduce_every_run : bool
        Where a step runs its pipeline several times, each run ends with a reduction, and what was gathered is dropped.
    overlap : bool
        Reductions run beside backward; otherwise the compute stream waits for each.
    in_flight : int
        A reduction waits, with the compute stream, until fewer than so many before it are under way; 0 for no limit.
    copies_apart : bool
        Copies around reductions run on a stream of their own, beside backward and gathers.
    host_waits : bool
        The CPU waits with the compute stream at the end of a backward that reduced.
    updates : tuple of WeightUpdate
        All-gathers after the optimizer step, in the order of first use.
    updates_in_forward : bool
        They run beside the next step's first forward.
    buffer_broadcast_bytes : int
        Buffers that the first rank sends to all before the first forward of a step.
    searched_tensors : int
        Weights whose use the CPU looks up in the autograd graph before a backward that reduces; 0 for no search.
    offload : HostOffload or None
        What is kept in host memory or on an SSD instead.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    optimizer_elements: int
    gradient_shards: int = 1
    dropped_bytes: tuple[int, ...] = ()
    store: GradientStore = GradientStore()
    buckets_bytes: int = 0
    staged_bytes: int = 0
    fresh_bytes: int = 0
    update_bytes: int = 0
    shards: tuple[ShardGroup, ...] = ()
    prefetch: Prefetch = field(default_factory=Prefetch)
    keep_gathered: bool = False
    reductions: tuple[Reduction, ...] = ()
    reduce_every_microbatch: bool = False
    reduce_every_run: bool = False
    overlap: bool = True
    in_flight: int = 0
    copies_apart: bool = False
    host_waits: bool = False
    updates: tuple[WeightUpdate, ...] = ()
    updates_in_forward: bool = False
    buffer_broadcast_bytes: int = 0
    searched_tensors: int = 0
    offload: HostOffload | None = None


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
        weights.stored_elements * training.param_dtype.bytes,
        n * training.grad_dtype.bytes,
        n * training.optimizer_bytes_per_parameter,
    )


def dropped_gradients(weights: StageWeights, element_bytes: int) -> tuple[int, ...]:
    """Bytes of the gradients that each unit's backward is the first to make: of a tied weight that is its last user's.

    Examples
    --------
    >>> from simgpu.parallel.data_parallel.stage_weights import Gradient
    >>> table = Gradient(unit=0, name="embedding.weight", elements=8)
    >>> own = Gradient(unit=1, name="norm.weight", elements=1)
    >>> dropped_gradients(StageWeights(kinds=("embedding", "head"), gradients=(own, table), tied={1: 8}), 4)
    (0, 36)
    """
    found = [count(gradients) for gradients in weights.by_unit(frozen=False)]
    for user, elements in weights.tied.items():
        owner = next((g.unit for g in weights.gradients if g.elements == elements and g.unit < user), None)
        if owner is not None:
            found[owner] -= elements
            found[user] += elements
    return tuple(elements * element_bytes for elements in found)


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
