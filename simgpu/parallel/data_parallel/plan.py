"""What a data-parallel strategy does to one stage: states kept, weights gathered, gradients reduced. No seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from simgpu.parallel.data_parallel.offload import HostOffload
from simgpu.workload.training import Training

DP, SHARD, REPLICATE = "dp", "dp_shard", "dp_replicate"
"""Communicators: all replicas; those of one sub-group that shares a copy of the states; one of each sub-group."""


ShardKey = tuple[int, str]
"""A ShardGroup, by its first unit and the communicator over which its weights are gathered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """One weight of a stage, and the gradient that backward completes for it."""

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
        Every trained weight once, in gradient-ready order; registration order is the reverse of it.
    frozen : tuple of Gradient
        Weights that are not trained: stored and gathered, without gradient and optimizer state.
    asleep : frozenset of int
        Units that backward does not enter: nothing up to them is trained.
    tied : mapping of int to int
        Units that also use a weight which another unit of the stage registers (a tied head), and its elements.
    buffer_bytes : int
        State that is not trained and not frozen either: running statistics of batch norms.
    """

    kinds: tuple[str, ...]
    gradients: tuple[Gradient, ...]
    frozen: tuple[Gradient, ...] = ()
    asleep: frozenset[int] = frozenset()
    tied: Mapping[int, int] = field(default_factory=dict)
    buffer_bytes: int = 0

    @property
    def elements(self) -> int:
        """Trained weights."""
        return count(self.gradients)

    @property
    def stored_elements(self) -> int:
        """All weights."""
        return self.elements + count(self.frozen)

    def by_unit(self, *, frozen: bool) -> tuple[tuple[Gradient, ...], ...]:
        """Weights of every unit, in gradient-ready order; frozen ones behind them when asked for."""
        found: list[list[Gradient]] = [[] for _ in self.kinds]
        for weight in (*self.gradients, *(self.frozen if frozen else ())):
            found[weight.unit].append(weight)
        return tuple(tuple(weights) for weights in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One collective of a reduction; ``bytes`` is the payload of the whole collective.

    ``copy_bytes`` is memory traffic on the collective's own stream before it (quantisation).
    """

    kind: str
    bytes: int
    communicator: str = DP
    copy_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A gradient reduction that may start when the gradient ``parameter`` of ``unit`` is ready.

    ``copy_bytes`` is the memory traffic to flatten gradients into the buffer first and ``copy_back_bytes`` that to
    bring the result back, both on the compute stream; ``add_bytes`` that to add the reduced shard to the kept
    gradients, on the last hop's stream. ``group`` is the key of the ShardGroup whose unsharded gradients it ends, where
    there is one; ``kept_elements`` are those of this rank's part of the result, where that is split. ``copies`` says
    how many gradients are flattened one by one, each by a kernel that its hook issues.
    """

    hops: tuple[Hop, ...]
    unit: int
    parameter: str
    copy_bytes: int = 0
    copy_back_bytes: int = 0
    add_bytes: int = 0
    what: str = "gradients"
    group: ShardKey | None = None
    kept_elements: int = 0
    copies: int = 1

    @property
    def kind(self) -> str:
        return self.hops[0].kind

    @property
    def bytes(self) -> int:
        return self.hops[0].bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """An all-gather of sharded weights.

    Parameters
    ----------
    bytes : int
        Payload of the whole collective.
    communicator : str
    copy_in_bytes, copy_out_bytes : int
        Memory traffic to bring this rank's shard into the gather's buffer (a cast or a quantisation), beside the
        transfers, and to spread the result into weights, on the compute stream.
    """

    bytes: int
    communicator: str = DP
    copy_in_bytes: int = 0
    copy_out_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardGroup:
    """Units whose weights are gathered together before use and dropped after it.

    Parameters
    ----------
    units : tuple of int
    elements : int
    bytes : int
        Memory of the weights while they are whole.
    shard_elements : int
        Weights of the group that one rank stores.
    gather : Gather
    regather : Gather or None
        What backward does instead (ZeRO++ keeps a second copy within a node).
    gradient_bytes : int
        Unsharded gradients that live from backward to the end of their reduction.
    reshard : bool
        The weights are dropped between forward and backward.
    backward : bool
        Backward enters one of the units.
    hooked : int
        Modules whose weights are fetched and released by hooks of their own, in Python.
    """

    units: tuple[int, ...]
    elements: int
    bytes: int
    shard_elements: int
    gather: Gather
    regather: Gather | None = None
    gradient_bytes: int = 0
    reshard: bool = True
    backward: bool = True
    hooked: int = 0

    @property
    def key(self) -> ShardKey:
        """What tells it from other groups of a stage."""
        return self.units[0], self.gather.communicator


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """When gathers are asked for ahead of their use, and what holds them back.

    Parameters
    ----------
    forward : bool
        The CPU asks for following groups before it issues this one's forward; otherwise for each when its turn comes.
    backward : str
        ``pre``: before it issues this one's backward; ``post``: after it, before its reduction; ``none``: in turn.
    ahead_elements : int
        Groups are fetched until at least so many elements are ahead of their use: 1 is one group.
    live_elements : int or None
        Nothing is fetched ahead when more than this would be whole.
    hold : str
        What a gather waits for on the GPU: ``compute``, all that was issued before; ``copies``, FSDP 2: the last
        gathered group's copy-out (in forward the one before it, whose buffer is used again); ``freed``, FSDP 1's
        limiter: the CPU waits until the second last group was dropped; ``none``.
    late : frozenset of int
        Units that ask for the next group after their backward where others ask before it.
    """

    forward: bool = False
    backward: str = "none"
    ahead_elements: int = 1
    live_elements: int | None = None
    hold: str = "compute"
    late: frozenset[int] = frozenset()


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
    overlap : bool
        Reductions run beside backward; otherwise the compute stream waits for each.
    in_flight : int
        A reduction waits, with the compute stream, until fewer than so many before it are under way; 0 for no limit.
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
    shards: tuple[ShardGroup, ...] = ()
    prefetch: Prefetch = Prefetch()
    keep_gathered: bool = False
    reductions: tuple[Reduction, ...] = ()
    reduce_every_microbatch: bool = False
    overlap: bool = True
    in_flight: int = 0
    host_waits: bool = False
    updates: tuple[WeightUpdate, ...] = ()
    updates_in_forward: bool = False
    buffer_broadcast_bytes: int = 0
    searched_tensors: int = 0
    offload: HostOffload | None = None


def count(weights: Iterable[Gradient]) -> int:
    """Elements of some weights.

    Examples
    --------
    >>> count([Gradient(unit=0, name="a", elements=2), Gradient(unit=1, name="b", elements=3)])
    5
    """
    return sum(weight.elements for weight in weights)


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
