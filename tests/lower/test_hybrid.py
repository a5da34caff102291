"""Collectives within and between sub-groups of the data-parallel ranks: hybrid sharding and ZeRO++."""

from math import isqrt

import pytest

from tests.lower.printer import golden, held, streams
from tests.lower.tiny import ALL, BLOCK, DOWN, EMBEDDING, GATE_UP, HEAD, NORM, OUT, QKV, program, roles

ROOT = EMBEDDING + HEAD
HYBRID = {"gpus": 8, "data_parallel": "hsdp", "fsdp": {"shard_size": 4}}


def test_shards_are_gathered_within_and_reduced_within_and_across():
    (role,) = roles(**HYBRID, training={"gradient_accumulation": 1})
    found = streams(role)
    assert [token for token in found["dp_shard"] if token.startswith("gather")] == [
        f"gather embedding and head@0 = all_gather {2 * ROOT}",
        f"gather block 0@0 = all_gather {2 * BLOCK}",
        f"gather block 1@0 = all_gather {2 * BLOCK}",
        f"gather block 1@0 #2 = all_gather {2 * BLOCK}",
        f"gather block 0@0 #2 = all_gather {2 * BLOCK}",
    ]
    assert [token for token in found["dp_shard"] if token.startswith("reduce")] == [
        f"reduce gradients to norm1.weight@0 = reduce_scatter {2 * BLOCK}",
        f"reduce gradients to norm1.weight@0 #2 = reduce_scatter {2 * BLOCK}",
        f"reduce gradients to embedding.weight@0 = reduce_scatter {2 * ROOT}",
    ]
    assert (
        found["dp_replicate"]
        == golden(
            f"""
        across: <reduce gradients to norm1.weight@0>         -- once its shard is there; the next scatter does not wait
                reduce gradients to norm1.weight@0 = all_reduce {2 * BLOCK // 4}
                add reduced shard@0 = {10 * BLOCK // 4}
                <reduce gradients to norm1.weight@0 #2>
                reduce gradients to norm1.weight@0 #2 = all_reduce {2 * BLOCK // 4}
                add reduced shard@0 #2 = {10 * BLOCK // 4}
                <reduce gradients to embedding.weight@0>
                reduce gradients to embedding.weight@0 = all_reduce {2 * ROOT // 4}
                add reduced shard@0 #3 = {10 * ROOT // 4}
        """
        )["across"]
    )
    assert "<add reduced shard@0 #3>" in found["compute"]
    assert "dp" not in found
    assert role.resident_bytes["weights"] == 4 * ALL // 4


def groups(communicator, **wanted):
    return [group.members for group in program(**wanted).groups if group.communicator == communicator]


def test_sub_groups_are_neighbours():
    assert groups("dp_shard", **HYBRID) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert groups("dp_replicate", **HYBRID) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert groups("norm", **HYBRID) == [(0, 1, 2, 3), (4, 5, 6, 7)], "each sub-group has all gradients"


def test_with_tensor_parallelism_ranks_of_one_shard_are_neighbours_on_the_dp_axis():
    wanted = {"gpus": 8, "tp": 2, "data_parallel": "hsdp", "fsdp": {"shard_size": 2}}
    assert groups("dp_shard", **wanted) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert groups("dp_replicate", **wanted) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert groups("norm", **wanted) == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_every_axis_of_data_parallelism_is_accounted_as_dp():
    communicators = program(**HYBRID).communicators
    assert {name: each.axis for name, each in communicators.items()} == dict.fromkeys(communicators, "dp")


def test_the_scattered_gradient_goes_before_its_shard_crosses():
    """Only shards pile up in front of a slow network."""
    (role,) = roles(**HYBRID, training={"gradient_accumulation": 1})
    block = 2 * BLOCK
    freed = [token for token in held(role, "buckets")["dp_shard"] if token.startswith("-")]
    assert freed[0] == f"-{block - block // 4} buckets"
    assert f"-{block // 4} buckets" in held(role, "buckets")["dp_replicate"]


def test_sub_groups_are_what_a_node_has_of_a_stage():
    """With pp inside dp a node of eight has four of a stage's replicas; a single node has them all."""
    wanted = {"gpus": 16, "nodes": 2, "pp": 2, "data_parallel": "hsdp", "order": ["dp", "pp", "cp", "tp"]}
    assert groups("dp_shard", **wanted)[0] == (0, 2, 4, 6)
    assert roles(gpus=8, pp=2, tp=2, data_parallel="hsdp"), "two replicas on one node"


ZEROPP = {
    "zero_quantized_weights": True,
    "zero_hpz_partition_size": 2,
    "stage3_param_persistence_threshold": 0,
    "stage3_prefetch_bucket_size": 1,
}


def zeropp(gpus=4, **options):
    (role,) = roles(gpus=gpus, data_parallel="zero3", zero={**ZEROPP, **options}, training={"gradient_accumulation": 1})
    return streams(role)


def test_zeropp_gathers_int8_over_all_ranks_forward_and_its_second_copy_within_the_node_backward():
    found = zeropp()
    assert [token for token in found["dp"] if token.startswith("gather")] == [
        f"gather embedding@0 = all_gather {EMBEDDING}",
        f"gather block 0@0 = all_gather {BLOCK}",
        f"gather block 1@0 = all_gather {BLOCK}",
        f"gather head@0 = all_gather {HEAD}",
    ]
    assert [token for token in found["dp_shard"] if token.startswith("gather")] == [
        f"gather head@0 = all_gather {2 * HEAD}",
        f"gather block 1@0 = all_gather {2 * BLOCK}",
        f"gather block 0@0 = all_gather {2 * BLOCK}",
        f"gather embedding@0 = all_gather {2 * EMBEDDING}",
    ]
    assert f"spread gathered weights@0 = {3 * EMBEDDING + 2 * 2 * EMBEDDING // 2}" in found["compute"], (
        "int8 to bf16, and the rank's half of the second copy"
    )


def test_the_parts_can_be_chosen_one_by_one():
    found = zeropp(zero_hpz_partition_size=1)
    assert "dp_shard" not in found
    assert f"gather head@0 #2 = all_gather {HEAD}" in found["dp"]
    found = zeropp(zero_quantized_weights=False)
    assert f"gather head@0 = all_gather {2 * HEAD}" in found["dp"]


@pytest.mark.parametrize("quantised", [False, True])
def test_gradients_are_quantised_between_nodes_only(quantised):
    """16 GPUs are two nodes: int4 within each, a dequantised sum, int4 of an eighth between them."""
    from simgpu.config import load_cases
    from simgpu.lower import lower

    (case,) = load_cases(
        {
            "name": "two nodes",
            "model": {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 256},
            "cluster": {"topology": "dgx-a100", "nodes": 2},
            "training": {"sequence_length": 32, "micro_batch_size": 1, "gradient_accumulation": 1},
            "parallel": {"data_parallel": "zero3"},
            "zero": {"zero_quantized_gradients": quantised},
            "software": {"host_issue_ns": 0},
        }
    )
    (role,) = lower(case.cluster, case.model, case.training, case.strategy, software=case.software).roles
    found = streams(role)
    if not quantised:
        assert [token for token in found["dp"] if token.startswith("reduce")] == [
            f"reduce gradients to embedding.weight@0 = reduce_scatter {2 * ALL}"
        ]
        return
    # In registration order: the embedding and block 0 begin; norms are vectors, 2 x 16 divides every matrix.
    matrices = [EMBEDDING, *(QKV, OUT, GATE_UP, DOWN) * 2, EMBEDDING]
    reduced = [token.partition(" = ")[2] for token in found["dp"] if token.startswith("reduce")]
    assert reduced == [f"reduce_scatter {2 * NORM}"] * 5
    within, across = (
        [token.partition(" = ")[2] for token in found[stream] if token.startswith("reduce")]
        for stream in ("dp_shard", "dp_replicate")
    )
    assert within[::2] == [f"all_to_all {size // 2}" for size in matrices]
    assert within[1::2] == [f"all_to_all {4 * isqrt(size)}" for size in matrices], "fp32 scales of the blocks"
    assert across[::2] == [f"all_to_all {size // 2 // 8}" for size in matrices]
    copies = found["dp_copies"]
    four = EMBEDDING // 2
    assert copies[:2] == ["<B0 embedding>", f"prepare gradients@0 = {4 * ALL + 2 * EMBEDDING + four}"]
    assert copies[3] == f"prepare gradients@0 #2 = {four + four // 8}", "summed within the node, and quantised again"
    assert copies[-1] == f"add reduced shard@0 = {ALL // 16 * 6 + ALL // 32 + ALL // 16 * 4}"
