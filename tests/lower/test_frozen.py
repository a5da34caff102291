"""Frozen weights under every strategy: gathered where they are sharded, never reduced."""

import pytest

from simgpu.program import Collective
from tests.lower.printer import gradients_made, streams
from tests.lower.tiny import BLOCK, EMBEDDING, HEAD, QKV, roles

RANK = 4
Q = RANK * (64 + 64)  # A and B of a block's query projection
LORA = {"lora": {"rank": RANK, "targets": ["q_proj"]}, "gradient_accumulation": 1}
ALL = 2 * BLOCK + EMBEDDING + HEAD


def reduced(role):
    return [
        (item.kind, item.bytes)
        for item in role.streams["dp"]
        if isinstance(item, Collective) and item.phase == "backward" and item.kind != "all_gather"
    ]


def gathered(role):
    return sum(item.bytes for item in role.streams["dp"] if isinstance(item, Collective) and item.kind == "all_gather")


@pytest.mark.parametrize(
    ("kind", "reductions"),
    [
        ("ddp", [("all_reduce", 4 * 2 * Q)]),
        ("zero1", [("all_reduce", 2 * 2 * Q)]),
        ("zero2", [("all_reduce", 2 * 2 * Q)]),
        ("zero3", [("reduce_scatter", 2 * 2 * Q)]),
        ("fsdp", [("reduce_scatter", 2 * Q)] * 2),
        ("fsdp1", [("reduce_scatter", 2 * (BLOCK + Q))] * 2),  # the flat gradient of a unit, frozen weights in it
        ("distributed_optimizer", [("reduce_scatter", 4 * 2 * Q)]),
    ],
)
def test_adapters_are_reduced_and_nothing_else(kind, reductions):
    (role,) = roles(data_parallel=kind, training=LORA)
    assert reduced(role) == reductions
    moments = role.resident_bytes["optimizer"]
    shards = 1 if kind == "ddp" else 2
    assert moments == (8 if "zero" not in kind and kind != "distributed_optimizer" else 12) * 2 * Q // shards


def test_zero3_gathers_frozen_weights_and_not_for_a_backward_that_does_not_enter_them():
    options = {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 1}
    (role,) = roles(data_parallel="zero3", zero=options, training=LORA)
    assert gathered(role) == 2 * (2 * (ALL + 2 * Q) - EMBEDDING), "all of them twice, the embedding once"
    assert role.resident_bytes["weights"] == 2 * (ALL + 2 * Q) // 2


@pytest.mark.parametrize("kind", ["fsdp", "fsdp1"])
def test_fsdp_drops_a_frozen_bottom_block_after_forward(kind):
    (role,) = roles(data_parallel=kind, training={"frozen": 0.5, "gradient_accumulation": 1})
    gathers = [token.split("@")[0] for token in streams(role)["dp"] if token.startswith("gather")]
    assert gathers == ["gather embedding and head", "gather block 0", "gather block 1", "gather block 1"]
    backward = [token for token in streams(role)["compute"] if token.startswith("B0")]
    assert [token.split(" #")[0] for token in dict.fromkeys(backward)][:2] == ["B0 head", "B0 block 1"]
    assert not any("block 0" in token for token in backward)


def test_the_root_of_fsdp_2_is_reduced_when_backward_ends():
    """Its last gradient is the final norm's, long before: PyTorch reduces the root in its final callback."""
    (role,) = roles(data_parallel="fsdp", training={"frozen": 0.5, "gradient_accumulation": 1})
    assert reduced(role) == [("reduce_scatter", 2 * BLOCK), ("reduce_scatter", 2 * HEAD)]
    (role,) = roles(data_parallel="fsdp1", training={"frozen": 0.5, "gradient_accumulation": 1})
    assert reduced(role)[0] == ("reduce_scatter", 2 * (EMBEDDING + HEAD)), "a flat gradient when it is there"


def test_only_trained_norms_are_summed_under_sequence_parallelism():
    def summed(**training):
        (role,) = roles(tp=2, sequence_parallel=True, gpus=2, training={"gradient_accumulation": 1, **training})
        return [token for token in streams(role)["tp"] if token.startswith("reduce norm gradients")]

    assert summed() == [f"reduce norm gradients = all_reduce {4 * 5 * 64}"]
    assert summed(frozen="norm") == []


def test_a_frozen_table_is_not_summed_over_stages():
    first, _ = roles(gpus=2, pp=2, model={"tied_embeddings": True}, training={"frozen": ["embedding", "head.weight"]})
    assert "embedding" not in first.streams


def test_frozen_weights_are_reduced_in_no_bucket():
    (role,) = roles(data_parallel="ddp", training={"frozen": ["qkv"], "gradient_accumulation": 1})
    assert reduced(role) == [("all_reduce", 4 * (ALL - 2 * QKV))]
    assert gradients_made(role) == 4 * (ALL - 2 * QKV)
    assert role.resident_bytes["weights"] == 4 * ALL
