"""PyTorch FSDP (2): sharded weights, one group per block and a root group for the rest."""

from __future__ import annotations

from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    GradientStore,
    Reduction,
    ShardGroup,
    StageWeights,
    autograd_store,
    shard_elements,
)
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

ROOT_KINDS = ("embedding", "head")


def fsdp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Gather a block before it runs and drop it after; reduce-scatter its gradients in every microbatch.

    Notes
    -----
    The root group (embedding, final norm, head) is not resharded after forward, so one microbatch over L blocks
    gathers 2L + 1 times. Gathers move the compute precision, reductions ``reduce_dtype``. Spreading a gathered buffer
    into weights (copy-out) and filling the reduction's buffer (copy-in) run on the compute stream; casting the shard
    into the gather's buffer and adding the reduced shard run beside the transfers.

    In a pipeline the weights stay gathered and the gradients unsharded until the last microbatch's backward, as
    torch.distributed.pipelining sets it (stage.py, backward_maybe_with_nosync).
    """
    root = tuple(unit for unit, kind in enumerate(weights.kinds) if kind in ROOT_KINDS)
    blocks: list[tuple[int, ...]] = [(unit,) for unit in range(len(weights.kinds)) if unit not in root]
    groups = [units for units in [*blocks, root] if weights.unit_elements(*units)]
    pipelined = strategy.pp > 1
    shard = sum(shard_elements(weights.unit_elements(*units), strategy.dp) for units in groups)
    ready = {(g.unit, g.name): order for order, g in enumerate(weights.gradients)}
    reductions = [_reduction(weights, training, strategy, units) for units in groups]
    return DataParallelPlan(
        weights_bytes=shard * training.param_dtype.bytes,
        gradients_bytes=shard * training.grad_dtype.bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        store=autograd_store(training.precision.bytes, training.reduce_dtype.bytes) if pipelined else GradientStore(),
        shards=tuple(_group(weights, training, strategy, units, root=units == root) for units in groups),
        prefetch=True,
        keep_gathered=pipelined,
        reductions=tuple(sorted(reductions, key=lambda r: ready[r.unit, r.parameter])),
        reduce_every_microbatch=not pipelined,
    )


def _group(
    weights: StageWeights, training: Training, strategy: Strategy, units: tuple[int, ...], *, root: bool
) -> ShardGroup:
    elements, size = weights.unit_elements(*units), training.precision.bytes
    gradient = training.reduce_dtype.bytes if strategy.pp > 1 else size  # accumulated in the reductions' format
    return ShardGroup(
        units=units,
        bytes=elements * size,
        copy_in_bytes=shard_elements(elements, strategy.dp) * (training.param_dtype.bytes + size),
        copy_out_bytes=2 * elements * size,
        gradient_bytes=elements * gradient,
        reshard=strategy.fsdp.reshard_after_forward and not root,
    )


def _reduction(weights: StageWeights, training: Training, strategy: Strategy, units: tuple[int, ...]) -> Reduction:
    elements, moved = weights.unit_elements(*units), training.reduce_dtype.bytes
    fresh = moved if strategy.pp > 1 else training.precision.bytes
    last = [gradient for gradient in weights.gradients if gradient.unit in units][-1]
    added = moved + 2 * training.grad_dtype.bytes
    return Reduction(
        kind="reduce_scatter",
        bytes=elements * moved,
        unit=last.unit,
        parameter=last.name,
        copy_bytes=elements * (fresh + moved),
        add_bytes=shard_elements(elements, strategy.dp) * added,
    )
