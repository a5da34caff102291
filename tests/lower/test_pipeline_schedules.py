"""Ranks that hold several stages, split backwards, and what the two do to weights, gradients and memory."""

from collections import Counter

import pytest

from simgpu.api import play_case, simulate
from simgpu.parallel.schedules import PIPELINE_SCHEDULES
from simgpu.program import COMPUTE, Alloc, Collective, Compute, Free, Recv, Send
from tests.lower.printer import golden, streams
from tests.lower.test_pipeline import step
from tests.lower.tiny import BLOCK, EMBEDDING, HEAD, NORM, STREAM, TOKENS, program, roles, tiny
from tests.metrics.test_memory import IDS, KEPT

FOUR = {"layers": 4}
EIGHT_MICROBATCHES = {"gradient_accumulation": 8}
ALL = [
    {"schedule": name, "pp": pp}
    for name, kind in PIPELINE_SCHEDULES.items()
    for pp in ([2, 4] if kind.default_virtual == 1 else [2])
]


def many(**wanted):
    """A model of four blocks, eight micro-batches."""
    training = {**EIGHT_MICROBATCHES, **wanted.pop("training", {})}
    return {"gpus": 4, "model": {**FOUR, **wanted.pop("model", {})}, "training": training, **wanted}


def test_interleaved_ranks_hold_two_chunks_and_exchange_once_for_a_forward_and_a_backward():
    """Two ranks, four stages, two micro-batches: rank 1 runs 1F0 1F1 (3F0 3B0) (3F1 3B1) 1B0 1B1."""
    first, last = roles(model=FOUR, pp=2, virtual_stages=2)
    assert (first.stages, last.stages) == ((0, 2), (1, 3))
    assert streams(last) == golden(
        f"""
        compute: <recv F0.0> | F0 block 1
                 <recv F0.1> | <send F1.0> | F1 block 1                      -- stage 0 comes from rank 0
                 <recv F2.0> | <send F1.1>                                   -- and so does stage 2
                 F0 block 3 | F0 head | B0 head | B0 block 3                 -- no exchange between the two
                 <recv F2.1> | <send B3.0>
                 F1 block 3 | F1 head | B1 head | B1 block 3
                 <recv B2.0> | <send B3.1> | B0 block 1
                 <recv B2.1> | <send B1.0> | B1 block 1 | <send B1.1>
        pp recv from 0: <begin> | recv F0.0 = {STREAM} from 0
                        <F0 block 1> | recv F0.1 = {STREAM} from 0
                        <F1 block 1> | recv F2.0 = {STREAM} from 0
                        <B0 block 3> | recv F2.1 = {STREAM} from 0
                        <B1 block 3> | recv B2.0 = {STREAM} from 0
                        <B0 block 1> | recv B2.1 = {STREAM} from 0
        pp send to 0: <F0 block 1> | send F1.0 = {STREAM} to 0
                      <F1 block 1> | send F1.1 = {STREAM} to 0
                      <B0 block 3> | send B3.0 = {STREAM} to 0
                      <B1 block 3> | send B3.1 = {STREAM} to 0
                      <B0 block 1> | send B1.0 = {STREAM} to 0
                      <B1 block 1> | send B1.1 = {STREAM} to 0
        {step(2 * BLOCK + HEAD)}
        """
    )


def test_a_split_backward_sends_the_inputs_gradient_before_it_makes_the_weights():
    """ZB-H1: rank 1 of two runs 1F0 1I0 1F1 1I1 1W0 1W1; its sends are not waited for."""
    _, last = roles(pp=2, schedule="zbh1")
    assert streams(last) == golden(
        f"""
        compute: <recv F0> | F0 block 1 | F0 head | I0 head | I0 block 1
                 <recv F1> | F1 block 1 | F1 head | I1 head | I1 block 1
                 W0 head | W0 block 1 | W1 head | W1 block 1
        pp recv from 0: <begin> | recv F0 = {STREAM} from 0 | <F0 head> | recv F1 = {STREAM} from 0
        pp send to 0: <I0 block 1> | send B0 = {STREAM} to 0 | <I1 block 1> | send B1 = {STREAM} to 0
        {step(BLOCK + HEAD)}
        """
    )


def kernels_of(role):
    """Kernels of backward by unit, however they are cut."""
    found = Counter()
    for item in role.streams[COMPUTE]:
        if isinstance(item, Compute) and item.phase in ("backward", "recompute"):
            found.update((item.unit, item.microbatch, kernel) for kernel in item.kernels)
    return found


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"tp": 2, "sequence_parallel": True},
        {"training": {"recompute": "full"}},
        {"training": {"recompute": "selective", "precision": "fp32"}},
        {"data_parallel": "ddp"},
        {"data_parallel": "fsdp"},
    ],
)
def test_input_and_weight_gradients_are_the_whole_backward(wanted):
    """The same kernels, so the same time to the nanosecond; and the same transfers of tensor parallelism."""
    whole, split = (roles(**many(pp=2, schedule=schedule, **wanted)) for schedule in ("1f1b", "zbh1"))
    for one, other in zip(whole, split, strict=True):
        assert kernels_of(one) == kernels_of(other)
        assert any(item.name.startswith("weight gradient") for item in other.streams[COMPUTE] if hasattr(item, "name"))
        moved = [[item for item in role.streams.get("tp", ()) if isinstance(item, Collective)] for role in (one, other)]
        assert Counter((item.kind, item.bytes) for item in moved[0]) == Counter((i.kind, i.bytes) for i in moved[1])


def test_weight_gradients_keep_inputs_and_output_gradients_of_the_linear_layers():
    """Rank 0 of two runs F0 F1 I0 W0: at W0 it holds all of micro-batch 1 and what W0 needs of micro-batch 0."""
    (role, _) = roles(pp=2, schedule="zbh1")
    written = streams(role, memory=True)[COMPUTE]
    held = Counter()
    for token in written[: written.index("W0 block 0")]:
        amount, _, category = token.partition(" ")
        if amount[:1] in ("+", "-"):
            held[category] += int(amount)
    inputs = (64 + 64 + 64 + 128) * 2 * TOKENS  # of QKV, output projection, gate and up, down
    gradients = (192 + 64 + 256 + 64) * 2 * TOKENS
    assert held["activations"] == (IDS + KEPT) + (IDS + inputs)
    assert held["backward gradients"] == gradients + STREAM, "and the gradient that the embedding waits with"


@pytest.mark.parametrize("wanted", ALL)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_memory_taken_in_a_step_is_given_back(wanted, recompute):
    sharded = {"data_parallel": "fsdp"} if wanted["pp"] == 2 else {}
    for role in roles(**many(**wanted, **sharded, training={"recompute": recompute})):
        balance, held = Counter(), Counter()
        for items in role.streams.values():
            for item in items:
                if isinstance(item, Alloc | Free):
                    held[item.category] += 1
                    balance[item.category] += item.bytes if isinstance(item, Alloc) else -item.bytes
        assert held
        assert not any(balance.values()), balance


def test_a_rank_of_a_v_has_the_first_and_the_last_stage_and_sums_no_tied_embedding():
    tied = {"tied_embeddings": True, **FOUR}
    first, last = roles(model=tied, pp=2, schedule="zbv", training={"gradient_accumulation": 4})
    assert (first.stages, last.stages) == ((0, 3), (1, 2))
    assert "embedding" not in streams(first)
    held = EMBEDDING + 2 * BLOCK + NORM
    assert first.resident_bytes["weights"] == 2 * held, "the table counts once"
    assert last.resident_bytes["weights"] == 2 * 2 * BLOCK
    assert streams(first)[COMPUTE][-1] == f"optimizer = {(8 + 30 + 4) * held}"


def test_stages_of_a_loop_that_share_a_table_sum_its_gradient():
    written = program(model={"tied_embeddings": True, **FOUR}, pp=2, virtual_stages=2)
    assert [group.members for group in written.groups if group.communicator == "embedding"] == [(0, 1)]


def test_dualpipe_holds_every_stage_twice_and_sums_both_copies_gradients():
    written = program(**many(gpus=2, pp=2, schedule="dualpipe"))
    assert [role.stages for role in written.roles] == [(0, 1), (0, 1)]
    everything = EMBEDDING + 4 * BLOCK + HEAD
    for role in written.roles:
        assert role.resident_bytes["weights"] == 2 * everything
        (reduce,) = [item for item in role.streams["mirror"] if isinstance(item, Collective)]
        assert (reduce.kind, reduce.bytes) == ("all_reduce", 4 * everything)
    assert [group.members for group in written.groups if group.communicator == "mirror"] == [(0, 1)]


def test_mirrored_ranks_are_the_outer_and_the_inner_ones():
    written = program(**many(pp=4, schedule="dualpipe"))
    assert [group.members for group in written.groups if group.communicator == "mirror"] == [(0, 3), (1, 2)]
    assert [role.stages for role in written.roles] == [(0, 3), (1, 2), (1, 2), (0, 3)]


@pytest.mark.parametrize("schedule", ["interleaved_1f1b", "looped_bfs", "interleaved_zero_bubble", "zbv"])
def test_every_chunk_reduces_its_gradients_in_its_own_last_backward(schedule):
    for role in roles(**many(pp=2, data_parallel="ddp", schedule=schedule)):
        reductions = [item for item in role.streams["dp"] if isinstance(item, Collective)]
        order = [item for item in role.streams[COMPUTE] if isinstance(item, Compute) and item.phase == "backward"]
        last = {}  # unit -> micro-batch whose weight gradients come last
        for item in order:
            if not item.name.startswith("input gradient"):
                last[item.unit] = item.microbatch
        assert len(reductions) == len(role.stages)
        assert {item.microbatch for item in reductions} <= set(last.values())
        gradients = role.resident_bytes["gradients"]
        assert sum(item.bytes for item in reductions) == gradients, "fp32, every weight once"


def test_scatter_gather_sends_a_share_and_gathers_it_over_tp():
    """Megatron: each of two tensor-parallel ranks sends half, and an all-gather makes it whole on arrival."""
    wanted = {"gpus": 4, "tp": 2, "pp": 2, "scatter_gather_tensors_in_pipeline": True}
    first, last = roles(**wanted)
    assert streams(first)["pp send to 1"][1] == f"send F0 = {STREAM // 2} to 1"
    tokens = streams(last)
    assert tokens[COMPUTE][:3] == ["<recv F0>", "<gather forward 0@0>", "F0 block 1"]
    assert f"gather forward 0@0 = all_gather {STREAM}" in tokens["tp"]
    assert "gather backward 1@1 = all_gather 4096" in streams(first)["tp"]


def test_scatter_gather_has_nothing_to_do_where_activations_are_split_anyway():
    wanted = {"gpus": 4, "tp": 2, "pp": 2, "sequence_parallel": True}
    plain, asked = (roles(**wanted, **more) for more in ({}, {"scatter_gather_tensors_in_pipeline": True}))
    assert [role.streams for role in plain] == [role.streams for role in asked]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("wanted", ALL)
def test_every_schedule_runs_on_a_real_network_and_folds_exactly(wanted, overlap):
    """Two replicas: 4 or 8 GPUs of one node. What one rank sends, another receives."""
    case = tiny(**many(**{**wanted, "gpus": 2 * wanted["pp"], "data_parallel": "ddp", "overlap_p2p": overlap}))
    folded, whole = simulate(case), simulate(case, fold=False)
    assert folded.step_time_ns == whole.step_time_ns
    assert folded.timeline.steady
    for report in (folded, whole):
        for rank in report.ranks:
            assert sum(rank.breakdown_ns.values()) == report.step_time_ns
    ends = Counter()
    for role in play_case(case).program.roles:
        for items in role.streams.values():
            ends.update((type(item), item.tag) for item in items if isinstance(item, Send | Recv))
    assert {tag for kind, tag in ends if kind is Send} == {tag for kind, tag in ends if kind is Recv}
    assert set(ends.values()) == {1}, "every message has a tag of its own"


def test_an_overlapped_pair_has_both_inputs_before_it_begins():
    first, _ = roles(model=FOUR, pp=2, schedule="dualpipev", training={"gradient_accumulation": 4})
    tokens = streams(first)[COMPUTE]
    pair = tokens.index("F2 block 3")
    assert tokens[pair - 2 : pair] == ["<recv F2.2>", "<recv B1.0>"]
    assert tokens[pair : pair + 4] == ["F2 block 3", "F2 head", "B0 block 0", "B0 embedding"]
