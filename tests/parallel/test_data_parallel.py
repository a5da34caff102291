"""What strategies keep, move and bucket, against published figures."""

from dataclasses import replace
from math import isqrt

import pytest

from simgpu.dtypes import DType
from simgpu.lower.stage_units import stage_weights
from simgpu.parallel.data_parallel import STRATEGIES, Gradient, StageWeights
from simgpu.parallel.data_parallel.buckets import buckets_by_bytes, buckets_by_elements
from simgpu.parallel.data_parallel.replicated import FIRST_BUCKET_BYTES
from simgpu.parallel.data_parallel_options import DdpOptions, DistributedOptimizerOptions, ZeroOptions
from simgpu.parallel.strategy import Strategy
from simgpu.units import MIB
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.training import Training

AUTOCAST = Training(sequence_length=8, micro_batch_size=1, accumulation=1)
AUTOCAST_FSDP = replace(AUTOCAST, reduce_dtype=DType.BF16)
DEEPSPEED = replace(
    AUTOCAST, param_dtype=DType.BF16, grad_dtype=DType.BF16, reduce_dtype=DType.BF16, master_dtype=DType.FP32
)
MEGATRON = replace(DEEPSPEED, grad_dtype=DType.FP32, reduce_dtype=DType.FP32)

REBUILT = [2_052_000, 28_852_224, 15_853_824]
REGISTERED = [11_497_376, 33_744_896, 1_515_776]
USED_MAP = 4 * 62  # one int32 per weight tensor


def resnet18():
    """Weights of torchvision's ResNet-18 in the order in which backward makes their gradients."""
    units = model_units(bundled_model("resnet-18"), replace(AUTOCAST, sequence_length=1)).units
    return stage_weights(units)


def ddp(accumulation=1, **options):
    strategy = Strategy(dp=4, data_parallel="ddp", ddp=DdpOptions(**options))
    return STRATEGIES["ddp"](resnet18(), replace(AUTOCAST, accumulation=accumulation), strategy)


def payloads(plan):
    return [reduction.bytes for reduction in plan.reductions]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, REBUILT),  # 1 MiB, then 25 MiB, in gradient-ready order
        ({"bucket_cap_mb": 25}, [30_904_224, 15_853_824]),  # given: no small first bucket
        ({"bucket_cap_mb": 35}, [37_988_256, 8_769_792]),
        ({"find_unused_parameters": True}, [*REGISTERED, USED_MAP]),  # the first iteration's buckets stay
        ({"find_unused_parameters": True, "static_graph": True}, REBUILT),
        ({"static_graph": True}, REBUILT),
        ({"gradient_as_bucket_view": True}, REBUILT),
    ],
)
def test_resnet18_buckets_are_pytorchs(options, wanted):
    """PyTorch 2.13 in fp32, bytes in the order of reduction."""
    weights = resnet18()
    assert (weights.elements, len(weights.gradients)) == (11_689_512, 62)
    assert payloads(ddp(**options)) == wanted
    assert sum(wanted) - (USED_MAP if USED_MAP in wanted else 0) == 4 * weights.elements


def test_releases_that_keep_a_small_first_bucket_under_a_given_cap():
    buckets = buckets_by_bytes(resnet18().gradients, 4, (FIRST_BUCKET_BYTES, 35 * MIB))
    assert [4 * sum(g.elements for g in bucket) for bucket in buckets] == [2_052_000, 38_297_600, 6_408_448]


def test_a_bucket_view_needs_no_copy_back_and_no_second_buffer():
    n = 11_689_512
    plain, view = ddp(), ddp(gradient_as_bucket_view=True)
    assert (plain.gradients_bytes, plain.buckets_bytes) == (4 * n, 4 * n)
    assert (view.gradients_bytes, view.buckets_bytes) == (4 * n, 0)
    assert sum(r.copy_back_bytes for r in plain.reductions) == 8 * n
    assert sum(r.copy_back_bytes for r in view.reductions) == 0
    assert sum(r.copy_bytes for r in view.reductions) == 8 * n, "backward's fresh gradients are scaled into the bucket"
    assert ddp(2, gradient_as_bucket_view=True).buckets_bytes == 4 * n, "accumulated gradients are not in the buckets"
    assert ddp(2, gradient_as_bucket_view=True, no_sync=False).buckets_bytes == 0


def test_batch_norms_buffers_are_broadcast():
    """20 batch norms of 4,800 channels in all: fp32 mean and variance, an int64 count each."""
    assert ddp().buffer_broadcast_bytes == 8 * 4800 + 20 * 8
    assert ddp(broadcast_buffers=False).buffer_broadcast_bytes == 0


def test_deepspeed_closes_a_bucket_before_it_overflows():
    gradients = [Gradient(unit=0, name=str(i), elements=40) for i in range(5)]
    assert [len(bucket) for bucket in buckets_by_elements(gradients, 100)] == [2, 2, 1]


# Bytes for each of 800,000 weights of a bucket of DeepSpeed's default size, 5e8 elements: it is larger than they are.
BUCKET = 2 * 500_000_000 / 800_000


@pytest.mark.parametrize(
    ("name", "training", "weights", "gradients", "optimizer", "buckets"),
    [  # bytes per parameter on one of 8 ranks
        ("none", DEEPSPEED, 2, 2, 12, 0),
        ("ddp", AUTOCAST, 4, 4, 8, 4),
        ("zero1", DEEPSPEED, 2, 2, 12 / 8, 0),  # 4 + 12/dp; buckets only while there are gradients
        ("zero2", DEEPSPEED, 2, 2 / 8, 12 / 8, 0),  # 2 + 14/dp
        ("zero3", DEEPSPEED, 2 / 8, 2 / 8, 12 / 8, BUCKET),  # 16/dp; its bucket is always there
        ("fsdp1", AUTOCAST_FSDP, 4 / 8, 4 / 8, 8 / 8, 0),
        ("fsdp", AUTOCAST_FSDP, 4 / 8, 4 / 8, 8 / 8, 0),
        ("hsdp", AUTOCAST_FSDP, 4 / 4, 4 / 4, 8 / 4, 0),  # two copies of the states
        ("distributed_optimizer", MEGATRON, 2, 4, 12 / 8, 0),  # 6 + 12/dp
    ],
)
def test_states_per_parameter(name, training, weights, gradients, optimizer, buckets):
    """The ZeRO paper's table, PyTorch's fp32 states, Megatron's 6 + 12/dp."""
    n = 800_000
    held = StageWeights(kinds=("block",), gradients=(Gradient(unit=0, name="w", elements=n),))
    plan = STRATEGIES[name](held, training, Strategy(dp=8, dp_shard=4 if name == "hsdp" else None, data_parallel=name))
    assert plan.weights_bytes == n * weights
    assert plan.gradients_bytes == n * gradients
    assert plan.optimizer_bytes == n * optimizer
    assert plan.buckets_bytes == n * buckets


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp1", "distributed_optimizer"])
def test_frozen_weights_have_no_gradient_and_no_optimizer_state(name):
    """Three quarters of a block are frozen."""
    trained, frozen = 200_000, 600_000
    alone = StageWeights(kinds=("block",), gradients=(Gradient(unit=0, name="w", elements=trained),))
    held = replace(alone, frozen=(Gradient(unit=0, name="base", elements=frozen),))
    plan, without = (
        STRATEGIES[name](weights, DEEPSPEED, Strategy(dp=8, data_parallel=name)) for weights in (held, alone)
    )
    shards = 8 if name in ("zero3", "fsdp", "fsdp1") else 1
    assert plan.weights_bytes - without.weights_bytes == frozen * 2 // shards
    assert plan.optimizer_bytes == without.optimizer_bytes
    flat = 4 if name == "fsdp1" else 1  # its flat gradient has them in it
    assert sum(payloads(plan)) == flat * sum(payloads(without))
    assert plan.gradients_bytes == flat * without.gradients_bytes
    gathered, less = (sum(shard.gather.bytes for shard in each.shards) for each in (plan, without))
    assert gathered - less == (frozen * 2 if shards > 1 else 0)


def blocks(count, elements=1000):
    kinds = ("embedding", *("block",) * count, "head")
    gradients = tuple(Gradient(unit=unit, name="w", elements=elements) for unit in reversed(range(len(kinds))))
    return StageWeights(kinds=kinds, gradients=gradients)


def megatron(weights, *, dp=8, **options):
    strategy = Strategy(
        dp=dp, data_parallel="distributed_optimizer", distributed_optimizer=DistributedOptimizerOptions(**options)
    )
    return STRATEGIES["distributed_optimizer"](weights, MEGATRON, strategy)


def test_megatrons_buckets():
    """max(40e6, 1e6 x dp) parameters; one bucket without overlap, and where backward does not end the step."""
    weights = blocks(8, elements=15_000_000)  # ten units
    three, whole = 4 * 45_000_000, 4 * 150_000_000
    assert payloads(megatron(weights)) == [whole]
    assert payloads(megatron(weights, overlap_grad_reduce=True)) == [three, three, three, whole - 3 * three]
    assert payloads(megatron(weights, dp=64, overlap_grad_reduce=True)) == [4 * 75_000_000] * 2
    assert len(payloads(megatron(weights, overlap_grad_reduce=True, ddp_bucket_size=1))) == 10
    later = replace(weights, kinds=("block", *weights.kinds[1:]))
    assert payloads(megatron(later, overlap_grad_reduce=True)) == [whole]


def test_megatron_gathers_weights_bucket_by_bucket_from_the_first_layer_on():
    plan = megatron(blocks(8, elements=15_000_000), overlap_grad_reduce=True, overlap_param_gather=True)
    assert [(u.bytes // 30_000_000, sorted(u.units)) for u in plan.updates] == [
        (1, [0]),
        (3, [1, 2, 3]),
        (3, [4, 5, 6]),
        (3, [7, 8, 9]),
    ]


def test_zeropp_moves_a_quarter_across_nodes():
    """arXiv 2306.10209: 3 M becomes 0.75 M: int8 gathers, none in backward, int4 reductions (two nodes of 4 ranks)."""
    n = 8_000_000
    held = StageWeights(kinds=("block",), gradients=(Gradient(unit=0, name="w", elements=n),))
    options = ZeroOptions(zero_quantized_weights=True, zero_hpz_partition_size=4, zero_quantized_gradients=True)
    plan = STRATEGIES["zero3"](held, DEEPSPEED, Strategy(dp=8, dp_shard=4, data_parallel="zero3", zero=options))
    (shard,), (reduction,) = plan.shards, plan.reductions
    assert (shard.gather.communicator, shard.gather.bytes) == ("dp", n)  # half of 2 n
    assert (shard.regather.communicator, shard.regather.bytes) == ("dp_shard", 2 * n)
    scales = 4 * isqrt(n)  # fp32, of as many blocks as a square of so many weights has rows
    assert [(hop.kind, hop.communicator, hop.bytes) for hop in reduction.hops] == [
        ("all_to_all", "dp_shard", n // 2),
        ("all_to_all", "dp_shard", scales),
        ("all_to_all", "dp_replicate", n // 2 // 4),
        ("all_to_all", "dp_replicate", scales // 4),
    ]
    assert plan.weights_bytes == 2 * n // 8 + 2 * n // 4, "a shard of all ranks and one of the node's"
    alone = STRATEGIES["zero3"](held, DEEPSPEED, Strategy(dp=4, data_parallel="zero3", zero=options))
    assert [hop.kind for hop in alone.reductions[0].hops] == ["reduce_scatter"], "on a single node nothing is quantised"


def test_zeropp_quantises_matrices_one_by_one():
    """coalesced_collectives.py loops over the bucket's tensors in registration order; 8 ranks on two nodes."""
    matrix, vector, odd = (
        Gradient(unit=0, name="matrix", elements=1600),
        Gradient(unit=0, name="bias", elements=160, vector=True),
        Gradient(unit=0, name="odd", elements=8 * 31),  # 2 x 8 does not divide it
    )
    held = StageWeights(kinds=("block",), gradients=(odd, vector, matrix))
    options = ZeroOptions(zero_quantized_gradients=True)
    plan = STRATEGIES["zero3"](held, DEEPSPEED, Strategy(dp=8, dp_shard=4, data_parallel="zero3", zero=options))
    (reduction,) = plan.reductions
    assert [(hop.kind, hop.communicator, hop.bytes) for hop in reduction.hops] == [
        ("all_to_all", "dp_shard", 800),
        ("all_to_all", "dp_shard", 160),
        ("all_to_all", "dp_replicate", 200),
        ("all_to_all", "dp_replicate", 40),
        ("reduce_scatter", "dp", 320),
        ("reduce_scatter", "dp", 496),
    ]
    filled = 4 * (1600 + 160 + 248)
    assert [hop.copy_bytes for hop in reduction.hops] == [filled + 3200 + 800, 0, 800 + 200, 0, 4 * 160, 4 * 248]


def test_hsdp_reduces_within_and_then_across():
    strategy = Strategy(dp=8, dp_shard=4, data_parallel="hsdp")
    plan = STRATEGIES["hsdp"](blocks(2), AUTOCAST_FSDP, strategy)
    assert [(hop.kind, hop.communicator, hop.bytes) for hop in plan.reductions[0].hops] == [
        ("reduce_scatter", "dp_shard", 2000),
        ("all_reduce", "dp_replicate", 500),
    ]
    assert {shard.gather.communicator for shard in plan.shards} == {"dp_shard"}
    one_node = STRATEGIES["hsdp"](blocks(2), AUTOCAST_FSDP, replace(strategy, dp=4))
    assert one_node == STRATEGIES["fsdp"](blocks(2), AUTOCAST_FSDP, Strategy(dp=4, data_parallel="fsdp"))
