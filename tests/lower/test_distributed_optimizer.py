"""Orders of Megatron's distributed optimizer."""

import pytest

from tests.lower.printer import golden, streams
from tests.lower.tiny import ALL, DOWN, EMBEDDING, GATE_UP, NORM, OUT, QKV, roles

# A bucket closes with the gradient that brings it to 39,322 elements, as in test_replicated.
FIRST = EMBEDDING + NORM + DOWN + GATE_UP  # head, final norm, and block 1 up to gate_up
SECOND = NORM + OUT + QKV + NORM + DOWN + GATE_UP  # the rest of block 1, and block 0 up to gate_up
THIRD = NORM + OUT + QKV + NORM + EMBEDDING
SHARD = ALL // 2
OVERLAP = {"overlap_grad_reduce": True, "ddp_bucket_size": 39_322}


def megatron(**options):
    (role,) = roles(data_parallel="distributed_optimizer", distributed_optimizer=options)
    return role


STEP = f"""
        compute: gradient norm = {4 * SHARD}                       -- of its own shard
                 <reduce gradient norm>
                 optimizer = {(8 + 30 + 4) * SHARD}                -- clip; AdamW with a master; buffers cleared
        norm: <gradient norm> | reduce gradient norm = all_reduce 4
"""
BEFORE = """
        compute: F0 embedding | F0 block 0 | F0 block 1 | F0 head
                 B0 head | B0 block 1 | B0 block 0 | B0 embedding
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head
"""


def test_by_default_everything_is_reduced_after_the_whole_backward():
    role = megatron()
    assert streams(role) == golden(
        f"""
        {BEFORE}
        compute: B1 head | B1 block 1 | B1 block 0 | B1 embedding
                 average gradients@1 = {8 * ALL}
                 <reduce gradients to embedding.weight@1>
        dp: <average gradients@1> | reduce gradients to embedding.weight@1 = reduce_scatter {4 * ALL}
        {STEP}
        dp: <optimizer> | gather updated weights = all_gather {2 * ALL}
        compute: <gather updated weights>
        """
    )
    assert role.resident_bytes["weights"] + role.resident_bytes["gradients"] == 6 * ALL
    assert role.resident_bytes["optimizer"] == 12 * SHARD
    assert "buckets" not in role.resident_bytes


REDUCED = f"""
        compute: B1 head | B1 block 1                              -- until gate_up's gradient fills the first bucket
                 average gradients@1 = {8 * FIRST}
                 B1 block 1 #2 | B1 block 0
                 average gradients@1 #2 = {8 * SECOND}
                 B1 block 0 #2 | B1 embedding
                 average gradients@1 #3 = {8 * THIRD}
                 <reduce gradients to embedding.weight@1>
        dp: <average gradients@1> | reduce gradients to mlp.gate_up.weight@1 = reduce_scatter {4 * FIRST}
            <average gradients@1 #2> | reduce gradients to mlp.gate_up.weight@1 #2 = reduce_scatter {4 * SECOND}
            <average gradients@1 #3> | reduce gradients to embedding.weight@1 = reduce_scatter {4 * THIRD}
"""


def test_overlap_grad_reduce_reduces_buckets_beside_the_last_backward():
    assert streams(megatron(**OVERLAP)) == golden(
        f"""
        {BEFORE}
        {REDUCED}
        {STEP}
        dp: <optimizer> | gather updated weights = all_gather {2 * THIRD}      -- the first layers' bucket first
            <optimizer> | gather updated weights #2 = all_gather {2 * SECOND}
            <optimizer> | gather updated weights #3 = all_gather {2 * FIRST}
        compute: <gather updated weights #3>
        """
    )


def test_a_collective_that_averages_needs_no_pass_before():
    tokens = streams(megatron(average_in_collective=True))
    assert not any("average" in token for token in tokens["compute"])
    assert tokens["dp"][0] == "<B1 embedding>"


def test_overlap_param_gather_gathers_a_bucket_when_the_one_before_it_is_taken_into_use():
    before = """
        compute: <gather updated weights@0> | F0 embedding                     -- in the third bucket
                 <gather updated weights@0 #2> | F0 block 0                    -- up to its gate_up
                 <gather updated weights@0 #3> | F0 block 1 | F0 head
                 B0 head | B0 block 1 | B0 block 0 | B0 embedding
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head              -- once a step
    """
    assert streams(megatron(**OVERLAP, overlap_param_gather=True)) == golden(
        f"""
        {before}
        dp: <begin> | gather updated weights@0 = all_gather {2 * THIRD}
            <after <gather updated weights@0>> | gather updated weights@0 #2 = all_gather {2 * SECOND}
            <after <gather updated weights@0 #2>> | gather updated weights@0 #3 = all_gather {2 * FIRST}
        {REDUCED}
        {STEP}
        """
    )


@pytest.mark.parametrize("pp", [1, 2])
def test_under_model_parallelism_it_is_the_same_framework(pp):
    role = roles(
        gpus=4 * pp, pp=pp, tp=2, data_parallel="distributed_optimizer", training={"gradient_accumulation": 2}
    )[0]
    assert [token for token in streams(role)["dp"] if "reduce_scatter" in token]
    assert any("gather updated weights" in token for token in streams(role)["dp"])


def test_ranks_with_several_chunks_gather_the_next_ones_ahead():
    first, second = roles(
        gpus=4, pp=2, virtual_stages=3, model={"layers": 6}, training={"gradient_accumulation": 4},
        data_parallel="distributed_optimizer",
        distributed_optimizer={"overlap_grad_reduce": True, "overlap_param_gather": True},
    )  # fmt: skip
    gathers = [[token for token in streams(role)["dp"] if not {"reduce", "average"} & set(token.strip("<").split())]
               for role in (first, second)]  # fmt: skip
    # Two at once; the third when its predecessor begins on the first rank, which the second is one forward behind
    assert [row[0::2] for row in gathers] == [
        ["<begin>", "<begin>", "<F1 block 0>"],
        ["<begin>", "<begin>", "<F0 block 1>"],
    ]
    compute = streams(second)["compute"]
    assert compute.index("<gather updated weights@1>") < compute.index("F0 block 5")
