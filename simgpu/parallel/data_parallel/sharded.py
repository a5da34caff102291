"""Sharded weights: PyTorch FSDP (2) and DeepSpeed ZeRO-3, one group per block."""

from __future__ import annotations

from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    Reduction,
    ShardGroup,
    StageWeights,
    shard_elements,
)
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

ROOT_KINDS = ("embedding", "head")


def fsdp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """FSDP 2: one group per block, the rest (embedding, final norm, head) in the root group.

    Notes
    -----
    The root is not resharded after forward, so a step of one microbatch over L blocks gathers 2L + 1 times. Gathers
    are in the compute precision, reductions in ``reduce_dtype``, and every microbatch reduces.
    """
    root = tuple(unit for unit, kind in enumerate(weights.kinds) if kind in ROOT_KINDS)
    blocks: list[tuple[int, ...]] = [(unit,) for unit in range(len(weights.kinds)) if unit not in root]
    reshard = strategy.fsdp.reshard_after_forward
    groups = [(units, reshard) for units in blocks] + ([(root, False)] if root else [])
    return _sharded(weights, training, strategy, groups, overlap=True)


def zero3(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """ZeRO-3: every module's weights are gathered before forward and again before backward.

    Notes
    -----
    Three times the weights move per microbatch, 1.5 x DDP's bytes at equal dtype. ``overlap_comm`` is on by default
    in this stage. Modules are gathered block by block with one block prefetched, which is what DeepSpeed's trace-based
    prefetch of ``stage3_prefetch_bucket_size`` elements comes to for blocks of that size.
    """
    groups: list[tuple[tuple[int, ...], bool]] = [((unit,), True) for unit in range(len(weights.kinds))]
    overlap = strategy.zero.overlap_comm is not False
    return _sharded(weights, training, strategy, groups, overlap=overlap)


def _sharded(
    weights: StageWeights,
    training: Training,
    strategy: Strategy,
    groups: list[tuple[tuple[int, ...], bool]],
    *,
    overlap: bool,
) -> DataParallelPlan:
    shards, reductions = [], []
    for units, reshard in groups:
        elements = weights.unit_elements(*units)
        if not elements:
            continue
        shards.append(
            ShardGroup(
                units=units,
                bytes=elements * training.precision.bytes,
                gradient_bytes=elements * training.precision.bytes,
                reshard=reshard,
            )
        )
        last = [gradient for gradient in weights.gradients if gradient.unit in units][-1]
        moved = training.reduce_dtype.bytes
        reductions.append(
            Reduction(
                kind="reduce_scatter",
                bytes=elements * moved,
                unit=last.unit,
                parameter=last.name,
                copy_bytes=elements * (training.precision.bytes + moved),
            )
        )
    ready = {(g.unit, g.name): order for order, g in enumerate(weights.gradients)}
    shard = sum(shard_elements(weights.unit_elements(*group.units), strategy.dp) for group in shards)
    return DataParallelPlan(
        weights_bytes=shard * training.param_dtype.bytes,
        gradients_bytes=shard * training.grad_dtype.bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        norm_elements=shard,
        shards=tuple(shards),
        reductions=tuple(sorted(reductions, key=lambda r: ready[r.unit, r.parameter])),
        reduce_every_microbatch=True,
        overlap=overlap,
        norm_over_dp=True,
    )
