"""Context parallelism by closed forms: tokens, FLOPs and bytes of one rank's block."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.errors import ScenarioError
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import layout_issues, model_units
from simgpu.workload.inline import model_from_fields
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.software import PRESETS
from simgpu.workload.splits import CP_COMM_TYPES, Splits
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange, Join

SHAPE = {"layers": 2, "hidden": 512, "heads": 16, "kv_heads": 8, "ffn": 1024, "vocab": 1024}
LENGTH, BATCH, WIDTH = 512, 3, 32  # of sequences and heads


def block(cp=2, kind="p2p", tp=1, sequence_parallel=False, model=None, **training):
    recipe = Training(**({"sequence_length": LENGTH, "micro_batch_size": BATCH, "accumulation": 1} | training))
    splits = Splits(cp=cp, cp_comm_type=kind)
    model = model or model_from_fields(SHAPE, "m")
    units = model_units(model, recipe, tp=tp, sequence_parallel=sequence_parallel, splits=splits)
    return units.layers[0].units[0]


def moved(items, axis="cp"):
    return [(item.kind, item.bytes) for item in items if isinstance(item, Exchange) and item.axis == axis]


def flops(items, kind):
    return sum(item.flops for item in items if isinstance(item, kind))


def keys_and_values(cp, tp=1):
    return 2 * BATCH * (LENGTH // cp) * (8 // tp) * WIDTH * 2  # K and V, bf16


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_ring_sends_keys_and_values_on(cp):
    unit, size = block(cp), keys_and_values(cp)
    assert moved(unit.forward) == [("send_ring", size)] * (cp - 1)
    assert moved(unit.backward) == [("send_ring", size), *[("send_ring", 2 * size)] * (cp - 2), ("send_ring", size)]
    assert sum(size for _, size in moved(unit.backward)) == 2 * sum(size for _, size in moved(unit.forward))


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_ulysses_makes_four_all_to_alls_each_way(cp):
    unit = block(cp, "a2a")
    query, key = (BATCH * (LENGTH // cp) * heads * WIDTH * 2 for heads in (16, 8))
    assert moved(unit.forward) == [("all_to_all", size) for size in (query, key, key, query)]
    assert moved(unit.backward) == [("all_to_all", size) for size in (query, query, key, key)]
    core = next(item for item in unit.forward if isinstance(item, Attention))
    assert (core.sequence, core.heads, core.kv_heads) == (LENGTH, 16 // cp, 8 // cp)


def test_gathered_keys_and_values_come_whole():
    unit, whole = block(4, "all_gather"), 4 * keys_and_values(4)
    assert moved(unit.forward) == [("all_gather", whole)]
    assert moved(unit.backward) == [("all_gather", whole), ("reduce_scatter", whole)]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([1, 2, 4]),
    st.sampled_from(CP_COMM_TYPES),
    st.sampled_from([(1, False), (2, False), (2, True)]),
    st.sampled_from(["none", "selective", "full"]),
)
def test_the_work_of_all_ranks_is_that_of_one(cp, kind, tensor, recompute):
    tp, scattered = tensor
    parts = [block(c, kind, tp, scattered, recompute=recompute) for c in (cp, 1)]
    for kernel in (Gemm, Attention):
        for items in ("forward", "backward", "recompute"):
            shared, whole = (flops(getattr(unit, items), kernel) for unit in parts)
            assert cp * shared == whole
    shared, whole = parts
    sent = [moved(items, "tp") for items in (shared.forward, whole.forward)]
    assert [(kind, cp * size) for kind, size in sent[0]] == sent[1], "tensor-parallel exchanges shrink with the tokens"


@pytest.mark.parametrize("kind", CP_COMM_TYPES)
def test_what_is_kept_divides_by_cp(kind):
    whole = block(1).saved_bytes
    twice = BATCH * LENGTH * 512 * 2 if kind == "a2a" else 0  # the output as attention wrote it, and as it came back
    assert 4 * block(4, kind).saved_bytes == whole + twice
    assert 4 * block(4, kind, recompute="full").saved_bytes == block(1, recompute="full").saved_bytes


def test_a_later_step_of_the_ring_is_half_a_square():
    steps = [item for item in block(4).forward if isinstance(item, Attention)]
    assert [(s.sequence, s.kv_sequence, s.causal) for s in steps] == [(128, None, True), *[(128, 64, False)] * 3]
    assert len({s.flops for s in steps}) == 1, "every step is the same work"


def test_not_causal_every_step_is_a_whole_square():
    model = model_from_fields(SHAPE, "m")
    from dataclasses import replace

    steps = [item for item in block(4, model=replace(model, causal=False)).forward if isinstance(item, Attention)]
    assert [(s.sequence, s.kv_sequence or s.sequence) for s in steps] == [(128, 128)] * 4


def test_every_send_has_a_step_to_hide_under():
    items = [item for item in block(4).forward if isinstance(item, Exchange | Join | Attention | MemoryBound)]
    names = [type(item).__name__ for item in items if "core" in (getattr(item, "name", None) or item.tag)]
    step = ["Exchange", "Attention", "Join"]
    merge = ["Exchange", "Attention", "MemoryBound", "Join"]
    assert names == [*step, *merge, *merge, "Attention", "MemoryBound"]


def test_latent_attention_sends_whole_heads():
    unit = block(2, model=bundled_model("deepseek-v3"), sequence_length=128, micro_batch_size=1)
    assert moved(unit.forward) == [("send_ring", 64 * 128 * (192 + 128) * 2)]


@pytest.mark.parametrize(
    ("splits", "changes", "field", "words"),
    [
        (Splits(cp=3), {}, "training.sequence_length", "use 510 or 516"),
        (Splits(cp=16, cp_comm_type="a2a"), {}, "parallel.cp", "does not divide the 8 key/value heads"),
        (Splits(cp=2), {"software": PRESETS["megatron-2021"]}, "parallel.cp", "needs flash attention"),
        (Splits(cp=0), {}, "parallel.cp", "at least 1"),
    ],
)
def test_what_does_not_fit_is_said(splits, changes, field, words):
    model = model_from_fields(SHAPE, "m")
    training = Training(sequence_length=LENGTH, micro_batch_size=1, accumulation=1)
    found = [issue for issue in layout_issues(model, training, splits=splits, **changes) if issue.field == field]
    assert any(words in str(issue) for issue in found)
    with pytest.raises(ScenarioError):
        model_units(model, training, splits=splits, **changes)


def test_only_decoders_are_cut():
    training = Training(sequence_length=512, micro_batch_size=1, accumulation=1)
    (issue,) = layout_issues(bundled_model("bert-large"), training, splits=Splits(cp=2))
    assert (issue.field, issue.allowed) == ("parallel.cp", "1")
