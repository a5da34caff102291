"""PyTorch FSDP 1 and 2, and hybrid sharding: sharded weights, one group per block and a root group for the rest."""

from __future__ import annotations

from dataclasses import replace

from simgpu.parallel.data_parallel.plan import DataParallelPlan, GradientStore, autograd_store, shard_elements
from simgpu.parallel.data_parallel.reduction import Hop, Reduction
from simgpu.parallel.data_parallel.shard_group import DP, REPLICATE, SHARD, Gather, Prefetch, ShardGroup
from simgpu.parallel.data_parallel.stage_weights import StageWeights, count
from simgpu.parallel.data_parallel_options import FsdpOptions
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

ROOT_KINDS = ("embedding", "entry", "head")
BACKWARD_PREFETCH = {"backward_pre": "pre", "backward_post": "post", "no_prefetch": "none"}


def fsdp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """FSDP 2: gather a block before it runs and drop it after; reduce-scatter its gradients in every microbatch.

    Notes
    -----
    The root group (embedding, final norm, head) is not resharded after forward, so one microbatch over L blocks
    gathers 2L + 1 times; ``no_wrap`` leaves the root alone: one gather, before everything, and one reduction, after
    everything, whatever ``reshard_after_forward`` says. Gathers move the compute precision, reductions
    ``reduce_dtype``. Spreading a gathered buffer into weights (copy-out) and filling the reduction's buffer (copy-in)
    run on the compute stream; casting the shard into the gather's buffer and adding the reduced shard run beside the
    transfers.

    The GPU may run a forward gather beside the block before its own, and the one before that: two gather buffers
    alternate. ``forward_prefetch`` changes only when the CPU asks. In backward the next gather is asked for before a
    block's backward. The root's reduction comes last, at the end of backward. A block's reduction waits, with the
    compute stream, for the one before it, and every backward ends with a wait for the last
    (fsdp/_fully_shard/_fsdp_param_group.py, post_backward; _fsdp_state.py, _root_post_backward_final_callback).

    In a pipeline the weights stay gathered and the gradients unsharded until the last microbatch's backward, as
    torch.distributed.pipelining sets it (stage.py, backward_maybe_with_nosync). ``no_sync`` leaves gradients unsharded
    until the last microbatch without a pipeline too (``set_requires_gradient_sync``), and weights are dropped.
    """
    prefetch = Prefetch(forward=strategy.fsdp.forward_prefetch, backward="pre", hold="copies")
    return _plan(weights, training, strategy, prefetch=prefetch, flat=False)


def fsdp1(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """FSDP 1: as FSDP 2, with the weights of a unit in one flat tensor.

    Notes
    -----
    Gathered weights are used where they arrive, so nothing is copied out. Backward writes the flat gradient by
    concatenation, and casts it for the reduction where formats differ. A flat gradient is reduced whole: frozen
    weights in it travel too. In a pipeline weights are dropped and gathered again as without one, and gradients stay
    unsharded (``no_sync``) until the last microbatch's backward. ``limit_all_gathers`` holds the CPU until the second
    last dropped unit is free; without it gathers run ahead as far as the CPU gets.

    References
    ----------
    pytorch/pytorch torch/distributed/fsdp/_runtime_utils.py, _flat_param.py, _limiter_utils.py
    """
    options = strategy.fsdp
    prefetch = Prefetch(
        forward=options.forward_prefetch,
        backward=BACKWARD_PREFETCH[options.backward_prefetch],
        hold="freed" if options.limit_all_gathers else "none",
    )
    return _plan(weights, training, strategy, prefetch=prefetch, flat=True)


def hsdp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """FSDP 2 within sub-groups of ``dp_shard`` ranks; reduced shards are all-reduced across the sub-groups."""
    return fsdp(weights, training, strategy)


def _plan(
    weights: StageWeights, training: Training, strategy: Strategy, *, prefetch: Prefetch, flat: bool
) -> DataParallelPlan:
    root = _root(weights, strategy.fsdp)
    blocks: list[tuple[int, ...]] = [(unit,) for unit in range(len(weights.kinds)) if unit not in root]
    writer = _Units(weights, training, strategy, flat)
    groups = [units for units in [*blocks, root] if writer.stored(units)]
    ways = writer.ways
    stored = sum(shard_elements(writer.stored(units), ways) for units in groups)
    reduced = sum(shard_elements(writer.reduced(units), ways) for units in groups)
    trained = sum(shard_elements(writer.trained(units), ways) for units in groups)
    if not root:  # the final norm is a unit too: the head fetches that one ahead
        prefetch = replace(prefetch, late=frozenset(unit for unit, kind in enumerate(weights.kinds) if kind == "head"))
    dropped = [0] * len(weights.kinds)
    for units in groups:
        dropped[units[0]] = shard_elements(writer.reduced(units), ways) * training.grad_dtype.bytes
    ready = {(g.unit, g.name): order for order, g in enumerate(weights.gradients)}
    reductions = [writer.reduction(units, root=units == root) for units in groups if writer.trained(units)]
    kept = autograd_store(training.precision.bytes, training.reduce_dtype.bytes) if writer.once else GradientStore()
    return DataParallelPlan(
        weights_bytes=stored * training.param_dtype.bytes,
        gradients_bytes=reduced * training.grad_dtype.bytes,
        optimizer_bytes=trained * training.optimizer_bytes_per_parameter,
        optimizer_elements=trained,
        gradient_shards=ways,
        dropped_bytes=tuple(dropped),
        store=kept,
        shards=tuple(writer.group(units, strategy.fsdp, root=units == root) for units in groups),
        prefetch=prefetch,
        keep_gathered=strategy.pp > 1 and not flat,
        reductions=tuple(sorted(reductions, key=lambda r: ready[r.unit, r.parameter])),
        reduce_every_microbatch=not writer.once,
        reduce_every_run=True,  # pytorch/pytorch torch/distributed/pipelining/stage.py, backward_maybe_with_nosync
        in_flight=0 if flat else 1,
    )


def _root(weights: StageWeights, options: FsdpOptions) -> tuple[int, ...]:
    """Return what no inner unit wraps: it belongs to the root, which stays gathered after forward.

    A weight that two modules share is in one unit with both (pytorch/torchtitan models/qwen3/parallelize.py).
    """
    if options.auto_wrap_policy == "no_wrap":
        return tuple(range(len(weights.kinds)))
    if options.wrap_embedding_and_head and not weights.tied:
        return ()
    return tuple(unit for unit, kind in enumerate(weights.kinds) if kind in ROOT_KINDS)


class _Units:
    """Gathers and reductions of units."""

    def __init__(self, weights: StageWeights, training: Training, strategy: Strategy, flat: bool) -> None:
        self.weights, self.training, self.flat = weights, training, flat
        self.gradients, self.all = weights.by_unit(frozen=False), weights.by_unit(frozen=True)
        self.replicas = 1
        self.once = strategy.pp > 1 or (strategy.fsdp.no_sync and training.accumulation > 1)
        self.ways, self.communicator = strategy.dp, DP
        if strategy.data_parallel == "hsdp" and strategy.dp_shard is not None and strategy.dp_shard < strategy.dp:
            self.ways, self.communicator = strategy.dp_shard, SHARD
            self.replicas = strategy.dp // strategy.dp_shard

    def trained(self, units: tuple[int, ...]) -> int:
        """Elements of trained weights."""
        return sum(count(self.gradients[unit]) for unit in units)

    def stored(self, units: tuple[int, ...]) -> int:
        """Elements of all weights."""
        return sum(count(self.all[unit]) for unit in units)

    def reduced(self, units: tuple[int, ...]) -> int:
        """Elements of the gradient that is reduced: a flat one has frozen weights in it."""
        trained = self.trained(units)
        return self.stored(units) if self.flat and trained else trained

    def group(self, units: tuple[int, ...], options: FsdpOptions, *, root: bool) -> ShardGroup:
        elements, size = self.stored(units), self.training.precision.bytes
        gradient = self.training.reduce_dtype.bytes if self.once else size  # accumulated in the reductions' format
        stored = self.training.param_dtype.bytes
        cast = 0 if self.flat and stored == size else stored + size  # a flat shard in the right format is sent itself
        gather = Gather(
            bytes=elements * size,
            communicator=self.communicator,
            copy_in_bytes=shard_elements(elements, self.ways) * cast,
            copy_out_bytes=0 if self.flat else 2 * elements * size,
        )
        return ShardGroup(
            units=units,
            elements=elements,
            bytes=elements * size,
            shard_elements=shard_elements(elements, self.ways),
            gather=gather,
            gradient_bytes=self.reduced(units) * gradient,
            reshard=options.reshard_after_forward and not root,
            backward=not self.weights.asleep.issuperset(units),
        )

    def reduction(self, units: tuple[int, ...], *, root: bool) -> Reduction:
        elements, moved = self.reduced(units), self.training.reduce_dtype.bytes
        fresh = moved if self.once else self.training.precision.bytes
        copied = fresh + moved
        if self.flat:
            copied = 2 * fresh + (fresh + moved if fresh != moved else 0)
        at_the_end = root and not self.flat  # of the whole backward; else backward reaches the first of the units last
        last = (
            self.weights.gradients[-1]
            if at_the_end
            else next(self.gradients[u] for u in units if self.gradients[u])[-1]
        )
        shard = shard_elements(elements, self.ways)
        hops = [Hop(kind="reduce_scatter", bytes=elements * moved, communicator=self.communicator)]
        if self.replicas > 1:
            hops.append(Hop(kind="all_reduce", bytes=shard * moved, communicator=REPLICATE))
        return Reduction(
            hops=tuple(hops),
            unit=last.unit,
            parameter=last.name,
            copy_bytes=elements * copied,
            add_bytes=shard * (moved + 2 * self.training.grad_dtype.bytes),
            group=(units[0], self.communicator),
            kept_elements=shard,
            flat_bytes=elements * moved,
        )
