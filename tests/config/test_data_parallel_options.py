"""Options of data parallelism: names, defaults, and what does not fit together."""

import pytest

from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.parallel.data_parallel_options import DdpOptions, DistributedOptimizerOptions, FsdpOptions, ZeroOptions
from simgpu.workload.lora import Lora


def scenario(kind, *, nodes=1, gpus=None, tp=1, training=None, model=None, **options):
    cluster = {"topology": "dgx-a100", "nodes": nodes}
    return {
        "name": "options",
        "model": model or "llama-2-7b",
        "cluster": cluster if gpus is None else {**cluster, "gpus": gpus},
        "training": {"sequence_length": 512, "micro_batch_size": 1, **(training or {})},
        "parallel": {"data_parallel": kind, "tp": tp},
        **options,
    }


def case(*arguments, **options):
    (found,) = load_cases(scenario(*arguments, **options))
    return found


def complaint(*arguments, **options):
    with pytest.raises(ScenarioError) as caught:
        load_cases(scenario(*arguments, **options))
    (issue,) = caught.value.issues
    return str(issue)


def test_without_blocks_the_frameworks_defaults_hold():
    strategy = case("ddp").strategy
    assert strategy.ddp == DdpOptions()
    assert strategy.zero == ZeroOptions()
    assert strategy.fsdp == FsdpOptions()
    assert strategy.distributed_optimizer == DistributedOptimizerOptions()
    assert case("ddp", ddp={}).strategy.ddp == DdpOptions()
    assert case("zero3", zero={}).strategy.zero == ZeroOptions()
    assert case("fsdp", fsdp={}).strategy.fsdp == FsdpOptions()
    assert case("distributed_optimizer", distributed_optimizer={}).strategy.distributed_optimizer == (
        DistributedOptimizerOptions()
    )


def test_names_are_read_in_any_case():
    strategy = case("FSDP1", fsdp={"backward_prefetch": "BACKWARD_POST", "limit_all_gathers": False}).strategy
    assert strategy.fsdp == FsdpOptions(backward_prefetch="backward_post", limit_all_gathers=False)


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ({"nodes": 4}, 8),  # a node's
        ({"nodes": 4, "tp": 2}, 4),
        ({"nodes": 4, "fsdp": {"shard_size": 16}}, 16),
        ({"nodes": 1}, 8),  # all there are: plain FSDP
        ({"nodes": 2, "gpus": 4}, 2),  # two of each node
    ],
)
def test_hybrid_sharding_divides_by_nodes_unless_told(arguments, size):
    assert case("hsdp", **arguments).strategy.dp_shard == size


def test_other_kinds_have_no_sub_groups():
    assert case("fsdp", nodes=2).strategy.dp_shard is None
    assert case("zero3", nodes=2).strategy.dp_shard is None
    assert case("zero3", nodes=2, zero={"zero_hpz_partition_size": 8}).strategy.dp_shard == 8
    assert case("zero3", nodes=2, zero={"zero_quantized_gradients": True}).strategy.dp_shard == 8
    assert case("zero3", nodes=1, zero={"zero_quantized_gradients": True}).strategy.dp_shard is None


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("hsdp", {"nodes": 2, "fsdp": {"shard_size": 3}}, "does not divide the 16 dp ranks; allowed: 2, 4, 8, 16"),
        ("hsdp", {"nodes": 2, "fsdp": {"shard_size": 1}}, "is a single rank: nothing would be sharded"),
        ("hsdp", {"nodes": 2, "tp": 8}, "fsdp.shard_size: is missing: a node has 1 of the 2 data-parallel ranks"),
        ("zero3", {"zero": {"zero_hpz_partition_size": 5}}, "does not divide the 8 dp ranks"),
        (
            "zero3",
            {"nodes": 2, "zero": {"zero_hpz_partition_size": 4, "zero_quantized_gradients": True}},
            "is not the 8 ranks of a node",
        ),
        (
            "distributed_optimizer",
            {"distributed_optimizer": {"overlap_param_gather": True}},
            "needs overlap_grad_reduce in Megatron",
        ),
        ("fsdp", {"fsdp": {"limit_all_gathers": False}}, "no case uses data_parallel fsdp1"),
        ("fsdp1", {"fsdp": {"shard_size": 4}}, "no case uses data_parallel hsdp"),
        ("zero2", {"zero": {"stage3_prefetch_bucket_size": 1}}, "no case uses data_parallel zero3"),
        ("fsdp1", {"fsdp": {"backward_prefetch": "early"}}, "backward_pre, backward_post, no_prefetch"),
        ("fsdp", {"fsdp": {"fsdp_forward_prefetch": True}}, "fix: use fsdp.forward_prefetch"),
        ("ddp", {"ddp": {"no_sync": 1}}, "is not true or false"),
        (
            "ddp",
            {"training": {"frozen": 1}},
            "leaves nothing to train; allowed: a share of the layers from 0 to below 1",
        ),
        ("ddp", {"training": {"frozen": []}}, "is neither a share nor names of weights"),
        ("ddp", {"training": {"frozen": {"a": 1}}}, "training.frozen"),
        ("ddp", {"training": {"frozen": ["norm", "conv"]}}, "names no weight of llama-2-7b: conv"),
        ("ddp", {"training": {"frozen": ["embedding", "block", "head"]}}, "leaves nothing to train"),
        ("ddp", {"training": {"lora": {"rank": 8, "targets": ["qkv"]}}}, "names no projection: qkv; allowed: q_proj"),
        ("ddp", {"training": {"lora": {"rank": 8}, "frozen": 0.5}}, "with lora only adapters are trained"),
        ("ddp", {"training": {"lora": {"targets": ["q_proj"]}}}, "training.lora.rank"),
        (
            "ddp",
            {"model": "resnet-18", "training": {"lora": {"rank": 8}, "sequence_length": 1}},
            "has no projection of ResNet-18 to adapt; fix: use other targets",
        ),
    ],
)
def test_what_does_not_fit_is_answered_in_one_sentence(kind, options, words):
    assert words.lower() in complaint(kind, **options).lower()


def test_a_part_of_the_weights():
    training = case("ddp", training={"frozen": 0.25}).training
    assert (training.frozen_share, training.frozen_names, training.lora) == (0.25, (), None)
    training = case("ddp", training={"frozen": "norm"}).training
    assert (training.frozen_share, training.frozen_names) == (0.0, ("norm",))
    training = case("ddp", training={"lora": {"rank": 8}}).training
    assert training.lora == Lora(rank=8, targets=("all-linear",))


def test_formats_of_the_new_kinds():
    def bytes_of(kind):
        found = case(kind).training
        return found.param_dtype.bytes, found.grad_dtype.bytes, found.optimizer_bytes_per_parameter

    assert bytes_of("fsdp1") == bytes_of("hsdp") == bytes_of("fsdp") == (4, 4, 8)
    assert bytes_of("distributed_optimizer") == (2, 4, 12)
