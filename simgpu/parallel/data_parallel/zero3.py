"""DeepSpeed ZeRO 3, where weights are sharded too, and ZeRO++."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import Final

from simgpu.parallel.data_parallel.buckets import Bucket
from simgpu.parallel.data_parallel.offload import SUB_GROUP_ELEMENTS
from simgpu.parallel.data_parallel.plan import DataParallelPlan, WeightUpdate, shard_elements
from simgpu.parallel.data_parallel.reduction import Hop, Reduction
from simgpu.parallel.data_parallel.shard_group import REPLICATE, SHARD, Gather, Prefetch, ShardGroup
from simgpu.parallel.data_parallel.stage_weights import StageWeights, count
from simgpu.parallel.data_parallel.zero import bucket_starts, update_bytes
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

INT8_BYTES: Final = 1
SCALE_BYTES: Final = 4
"""Of a quantised block: fp32 (csrc/quantization of DeepSpeed, symmetric)."""


def zero3(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard everything; weights are gathered before forward and again before backward.

    Notes
    -----
    Three times the weights move per microbatch, 1.5 x DDP's bytes at equal dtype. ``overlap_comm`` is on by default
    in this stage; without it nothing is fetched ahead. Weights are gathered unit by unit; following units are fetched
    until ``stage3_prefetch_bucket_size`` elements are ahead of their use, or ``stage3_max_live_parameters`` are whole.
    Weights of up to ``stage3_param_persistence_threshold`` elements stay whole on every rank and are gathered once,
    after the optimizer step. A tied weight is gathered for each of the units that use it.

    ZeRO++ (arXiv 2306.10209): ``zero_quantized_weights`` gathers int8, the scales of its blocks left out;
    ``zero_hpz_partition_size`` ranks share a second copy of the weights, from which backward gathers;
    ``zero_quantized_gradients`` reduces matrices one by one, in two all-to-alls of int4, within a node and between
    nodes, where there are several nodes.

    Gradients are copied into one bucket of full size, which is there all the time (runtime/zero/stage3.py), and so is
    a rank's part of the gradients.
    """
    options, size = strategy.zero, training.precision.bytes
    overlap = options.overlap_comm is not False
    threshold = options.stage3_param_persistence_threshold
    everything = weights.by_unit(frozen=True)
    persistent = count(w for w in (*weights.gradients, *weights.frozen) if w.elements <= threshold)
    updated = count(w for w in weights.gradients if w.elements <= threshold)
    shards = []
    for unit, found in enumerate(everything):
        tied = weights.tied.get(unit, 0)
        elements = count(w for w in found if w.elements > threshold) + (tied if tied > threshold else 0)
        if elements:
            group = _group(unit, elements, training, strategy, backward=unit not in weights.asleep)
            modules = {weight.name.rpartition(".")[0] for weight in found}
            shards.append(replace(group, hooked=len(modules) + (1 if tied else 0)))
    stored = sum(shard_elements(count(found), strategy.dp) for found in everything)
    trained = sum(shard_elements(count(found), strategy.dp) for found in weights.by_unit(frozen=False))
    second = 0
    if strategy.divided and options.zero_hpz_partition_size > 1:
        second = sum(shard_elements(count(found), options.zero_hpz_partition_size) for found in everything)
    ahead = options.stage3_prefetch_bucket_size
    return DataParallelPlan(
        weights_bytes=stored * training.param_dtype.bytes + (persistent + second) * size,
        gradients_bytes=trained * training.grad_dtype.bytes,
        optimizer_bytes=trained * training.optimizer_bytes_per_parameter,
        optimizer_elements=trained,
        gradient_shards=strategy.dp,
        buckets_bytes=options.reduce_bucket_size * training.reduce_dtype.bytes if options.stages_gradients else 0,
        update_bytes=update_bytes(min(trained, SUB_GROUP_ELEMENTS), training),
        shards=tuple(shards),
        prefetch=Prefetch(
            forward=overlap and ahead > 0,
            backward="pre" if overlap and ahead > 0 else "none",
            ahead_elements=ahead,
            live_elements=options.stage3_max_live_parameters,
        ),
        reductions=_reductions(weights, training, strategy),
        reduce_every_microbatch=True,
        overlap=overlap,
        copies_apart=overlap,
        host_waits=True,
        updates=(WeightUpdate(bytes=updated * size),) if updated and training.optimizer != "none" else (),
    )


def _group(unit: int, elements: int, training: Training, strategy: Strategy, *, backward: bool) -> ShardGroup:
    options, size, stored = strategy.zero, training.precision.bytes, training.param_dtype.bytes
    sent = INT8_BYTES if options.zero_quantized_weights else size
    gather = Gather(
        bytes=elements * sent,
        copy_in_bytes=shard_elements(elements, strategy.dp) * (stored + sent),
        copy_out_bytes=elements * (sent + size),
    )
    regather = None
    ways = options.zero_hpz_partition_size
    if strategy.divided and ways > 1:
        part = shard_elements(elements, ways) * size
        regather = Gather(bytes=elements * size, communicator=SHARD, copy_out_bytes=2 * elements * size)
        gather = replace(gather, copy_out_bytes=gather.copy_out_bytes + 2 * part)  # this rank's part of the second copy
    return ShardGroup(
        units=(unit,),
        elements=elements,
        bytes=elements * size,
        shard_elements=shard_elements(elements, strategy.dp),
        gather=gather,
        regather=regather,
        gradient_bytes=0,  # gradients go straight into the bucket
        backward=backward,
    )


def _reductions(weights: StageWeights, training: Training, strategy: Strategy) -> tuple[Reduction, ...]:
    """One reduction per bucket (stage3.py, __avg_scatter_grads).

    Copies, averaging and collectives share one stream beside backward: a bucket begins when the one before is done.
    """
    options, moved, dp = strategy.zero, training.reduce_dtype.bytes, strategy.dp
    fresh = training.precision.bytes
    found = []
    for bucket, start in bucket_starts(weights.gradients, strategy):
        elements = count(bucket)
        staged = options.stages_gradients and elements <= options.reduce_bucket_size
        filled, kernels = (elements * (fresh + moved), len(bucket)) if staged else (0, 0)
        whole = staged and not options.reduce_scatter
        flat = not whole and (len(bucket) > 1 or elements % dp > 0)
        passes = 2 if flat else 1  # put together for the collective, and divided
        own = shard_elements(elements, dp)
        added = own * (moved + 2 * training.grad_dtype.bytes)
        hops: tuple[Hop, ...] = (
            Hop(
                kind="all_reduce" if whole else "reduce_scatter",
                bytes=elements * moved,
                copy_bytes=filled + elements * 2 * moved * passes,
                copies=kernels + passes,
            ),
        )
        if strategy.divided and options.zero_quantized_gradients:
            hops, flat = _quantised(bucket, filled, kernels, training, strategy), False
            added += own // 2 + own * 2 * moved  # dequantised from int4, and summed over the nodes
        found.append(
            Reduction(
                hops=hops,
                unit=start.unit,
                parameter=start.name,
                add_bytes=added,
                kept_elements=own,
                flat_bytes=elements * moved if flat else 0,
            )
        )
    return tuple(found)


def _quantised(bucket: Bucket, filled: int, kernels: int, training: Training, strategy: Strategy) -> tuple[Hop, ...]:
    """Return the hops of a bucket whose matrices are reduced in int4, one after the other, in registration order.

    Notes
    -----
    A matrix takes two all-to-alls, each with one of its blocks' fp32 scales behind it; there are as many blocks as the
    longer of its sides has rows, of which a square's side is the least. A vector, and a matrix that 2 x dp does not
    divide, are reduce-scattered as they are (runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce).
    """
    moved, dp, within = training.reduce_dtype.bytes, strategy.dp, strategy.dp_shard or strategy.dp
    hops: list[Hop] = []
    for tensor in reversed(bucket):
        elements = tensor.elements
        if tensor.vector or elements % (2 * dp):
            hops.append(Hop(kind="reduce_scatter", bytes=elements * moved, copy_bytes=elements * 2 * moved))
            continue
        first, second = elements // 2, elements // within // 2  # bytes of so many int4
        blocks = max(isqrt(elements), dp)
        hops += [
            Hop(kind="all_to_all", bytes=first, communicator=SHARD, copy_bytes=elements * moved + first),
            Hop(kind="all_to_all", bytes=blocks * SCALE_BYTES, communicator=SHARD),
            Hop(kind="all_to_all", bytes=second, communicator=REPLICATE, copy_bytes=first + second),
            Hop(kind="all_to_all", bytes=max(1, blocks // within) * SCALE_BYTES, communicator=REPLICATE),
        ]
    begin = hops[0]
    return (replace(begin, copy_bytes=begin.copy_bytes + filled, copies=begin.copies + kernels), *hops[1:])
