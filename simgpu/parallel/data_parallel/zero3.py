"""DeepSpeed ZeRO 3, where weights are sharded too, and ZeRO++."""

from __future__ import annotations

from dataclasses import replace

from simgpu.parallel.data_parallel.plan import (
    REPLICATE,
    SHARD,
    DataParallelPlan,
    Gather,
    Hop,
    Prefetch,
    Reduction,
    ShardGroup,
    StageWeights,
    WeightUpdate,
    count,
    shard_elements,
)
from simgpu.parallel.data_parallel.zero import add_bytes, bucket_bytes, reductions
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

INT8_BYTES = 1


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
    ``zero_quantized_gradients`` reduces in two all-to-alls of int4, within a node and between nodes, where there are
    several nodes (runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce).
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
    reduced = reductions(weights, training, strategy, fresh=training.precision.bytes, added=add_bytes(training))
    if strategy.divided and options.zero_quantized_gradients:
        reduced = tuple(_quantized(reduction, training, strategy) for reduction in reduced)
    ahead = options.stage3_prefetch_bucket_size
    return DataParallelPlan(
        weights_bytes=stored * training.param_dtype.bytes + (persistent + second) * size,
        gradients_bytes=trained * training.grad_dtype.bytes,
        optimizer_bytes=trained * training.optimizer_bytes_per_parameter,
        optimizer_elements=trained,
        gradient_shards=strategy.dp,
        buckets_bytes=bucket_bytes(training, strategy, overlap=overlap),
        shards=tuple(shards),
        prefetch=Prefetch(
            forward=overlap and ahead > 0,
            backward="pre" if overlap and ahead > 0 else "none",
            ahead_elements=ahead,
            live_elements=options.stage3_max_live_parameters,
        ),
        reductions=reduced,
        reduce_every_microbatch=True,
        overlap=overlap,
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


def _quantized(reduction: Reduction, training: Training, strategy: Strategy) -> Reduction:
    """Return the same reduction in two hops of int4."""
    moved, within = training.reduce_dtype.bytes, strategy.dp_shard or strategy.dp
    elements = reduction.bytes // moved
    part = shard_elements(elements, within)
    first, second = -(-elements // 2), -(-part // 2)  # bytes of so many int4
    hops = (
        Hop(kind="all_to_all", bytes=first, communicator=SHARD, copy_bytes=elements * moved + first),
        Hop(kind="all_to_all", bytes=second, communicator=REPLICATE, copy_bytes=first + second),
    )
    kept = reduction.add_bytes - shard_elements(elements, strategy.dp) * moved
    return replace(reduction, hops=hops, add_bytes=kept + second)
