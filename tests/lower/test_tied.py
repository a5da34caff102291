"""A head that multiplies with the embedding's table."""

from tests.lower.printer import gradients_made, streams
from tests.lower.tiny import ALL, BLOCK, EMBEDDING, HEAD, NORM, program, roles

TIED = {"tied_embeddings": True}


def test_on_one_stage_the_table_is_counted_reduced_and_updated_once():
    (role,) = roles(data_parallel="ddp", model=TIED)
    one = ALL - EMBEDDING
    assert {name: role.resident_bytes[name] for name in ("weights", "optimizer", "buckets")} == {
        "weights": 4 * one,
        "optimizer": 8 * one,
        "buckets": 4 * one,
    }
    assert gradients_made(role) == 4 * one
    reductions = [token for token in streams(role)["dp"] if " = " in token]
    assert reductions == [f"reduce gradients to embedding.weight@1 = all_reduce {4 * one}"]
    assert streams(role)["compute"][-2:] == [f"gradient norm = {4 * one}", f"optimizer = {36 * one}"]
    assert "embedding" not in streams(role), "nothing to sum: it is the same tensor"


def test_zero3_gathers_the_table_for_the_head_as_well():
    (role,) = roles(data_parallel="zero3", model=TIED, zero={"stage3_param_persistence_threshold": 0})
    gathers = [token for token in streams(role)["dp"] if token.startswith("gather ") and "@0" in token]
    assert gathers[0] == f"gather embedding@0 = all_gather {2 * EMBEDDING}"
    assert gathers[3] == f"gather head@0 = all_gather {2 * HEAD}", "its norm and the embedding's table"
    assert role.resident_bytes["weights"] == 2 * (ALL - EMBEDDING) // 2


def test_fsdps_root_holds_the_table_once():
    (role,) = roles(data_parallel="fsdp", model=TIED)
    assert f"gather embedding and head@0 = all_gather {2 * (EMBEDDING + NORM)}" in streams(role)["dp"]


def test_on_two_stages_each_keeps_a_copy_and_their_gradients_are_summed():
    first, last = roles(pp=2, model=TIED)
    for role, held, before in ((first, EMBEDDING + BLOCK, "B1 embedding"), (last, BLOCK + HEAD, "after <send B1>")):
        assert streams(role)["embedding"] == [
            f"<{before}>",  # once the whole backward is done
            f"reduce tied embedding = all_reduce {4 * EMBEDDING}",  # fp32 main gradients of the table
        ]
        assert streams(role)["compute"][-4:] == [
            "<reduce tied embedding>",
            f"gradient norm = {4 * held}",
            "<reduce gradient norm>",
            f"optimizer = {(8 + 30 + 4) * held}",
        ]


def test_stages_in_between_do_not_take_part():
    stages = roles(gpus=3, pp=3, model={**TIED, "layers": 3})
    assert ["embedding" in streams(role) for role in stages] == [True, False, True]
    written = program(gpus=3, pp=3, model={**TIED, "layers": 3})
    assert [group.members for group in written.groups if group.communicator == "embedding"] == [(0, 2)]


def test_untied_stages_have_nothing_to_sum():
    assert not any("embedding" in streams(role) for role in roles(pp=2))
