"""What strategies keep, move and bucket, against published figures."""

import pytest

from simgpu.dtypes import DType
from simgpu.parallel.data_parallel import STRATEGIES, Gradient, StageWeights
from simgpu.parallel.data_parallel.buckets import buckets_by_bytes, buckets_by_elements
from simgpu.parallel.data_parallel.replicated import BUCKET_CAP_BYTES, FIRST_BUCKET_BYTES, MIB
from simgpu.parallel.strategy import DdpOptions, Strategy
from simgpu.workload.training import Training

AUTOCAST = Training(sequence_length=8, micro_batch_size=1, accumulation=1)
DEEPSPEED = Training(
    sequence_length=8,
    micro_batch_size=1,
    accumulation=1,
    param_dtype=DType.BF16,
    grad_dtype=DType.BF16,
    reduce_dtype=DType.BF16,
    master_dtype=DType.FP32,
)


def resnet18_gradients():
    """Weights of torchvision's ResNet-18 in registration order, then reversed: 11,689,512 elements."""
    names = [("conv1", 9408), ("bn1", 64), ("bn1", 64)]
    widths = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    for inputs, outputs, stride in widths:
        names += [("conv", inputs * outputs * 9), ("bn", outputs), ("bn", outputs)]
        names += [("conv", outputs * outputs * 9), ("bn", outputs), ("bn", outputs)]
        if stride == 2:
            names += [("down", inputs * outputs), ("bn", outputs), ("bn", outputs)]
    names += [("fc.weight", 512000), ("fc.bias", 1000)]
    return [Gradient(unit=0, name=f"{i}{name}", elements=size) for i, (name, size) in enumerate(names)]


def sizes(limits, gradients):
    return [4 * sum(g.elements for g in bucket) for bucket in buckets_by_bytes(gradients, 4, limits)]


def test_resnet18_buckets_in_registration_order_are_pytorchs():
    """PyTorch 2.13 in fp32: buckets are built from the end; the first one listed holds what is left."""
    gradients = resnet18_gradients()
    assert sum(g.elements for g in gradients) == 11_689_512
    backwards = gradients[::-1]
    assert sizes((FIRST_BUCKET_BYTES, BUCKET_CAP_BYTES), backwards)[0] == 2_052_000
    assert sum(sizes((25 * MIB,), backwards)) == 4 * 11_689_512


def test_a_given_cap_has_no_small_first_bucket():
    weights = StageWeights(kinds=("block",), gradients=tuple(resnet18_gradients()[::-1]))
    default = STRATEGIES["ddp"](weights, AUTOCAST, Strategy(dp=2, data_parallel="ddp"))
    given = STRATEGIES["ddp"](weights, AUTOCAST, Strategy(dp=2, data_parallel="ddp", ddp=DdpOptions(bucket_cap_mb=25)))
    assert default.reductions[0].bytes == 2_052_000
    assert given.reductions[0].bytes > 25 * MIB


def test_deepspeed_closes_a_bucket_before_it_overflows():
    gradients = [Gradient(unit=0, name=str(i), elements=40) for i in range(5)]
    assert [len(bucket) for bucket in buckets_by_elements(gradients, 100)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("name", "weights", "gradients", "optimizer"),
    [("zero1", 2, 2, 12 / 8), ("zero2", 2, 2 / 8, 12 / 8), ("zero3", 2 / 8, 2 / 8, 12 / 8), ("none", 2, 2, 12)],
)
def test_states_per_parameter_are_the_zero_papers(name, weights, gradients, optimizer):
    held = StageWeights(kinds=("block",), gradients=(Gradient(unit=0, name="w", elements=8000),))
    plan = STRATEGIES[name](held, DEEPSPEED, Strategy(dp=8, data_parallel=name))
    assert plan.weights_bytes == 8000 * weights
    assert plan.gradients_bytes == 8000 * gradients
    assert plan.optimizer_bytes == 8000 * optimizer


def blocks(count, elements=1000):
    kinds = ("embedding", *("block",) * count, "head")
    gradients = tuple(Gradient(unit=unit, name="w", elements=elements) for unit in reversed(range(len(kinds))))
    return StageWeights(kinds=kinds, gradients=gradients)


def test_fsdp_gathers_every_block_twice_and_the_root_once():
    plan = STRATEGIES["fsdp"](blocks(36), AUTOCAST, Strategy(dp=2, data_parallel="fsdp"))
    gathers = sum(2 if shard.reshard else 1 for shard in plan.shards)
    assert (len(plan.shards), gathers, len(plan.reductions)) == (37, 73, 37)
