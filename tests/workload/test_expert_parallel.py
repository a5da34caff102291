"""Expert parallelism by closed forms: experts, rows and bytes of one rank's block."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import layout_issues, model_units
from simgpu.workload.inline import model_from_fields
from simgpu.workload.op import Gemm, GroupedGemm, MemoryBound
from simgpu.workload.splits import Splits
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange

HIDDEN, FFN, EXPERTS, ACTIVE, TOKENS = 512, 256, 8, 2, 512
SHAPE = {"layers": 2, "hidden": HIDDEN, "heads": 8, "kv_heads": 4, "vocab": 1024, "experts": EXPERTS}
SHAPE |= {"experts_per_token": ACTIVE, "expert_ffn": FFN}
ROWS = TOKENS * ACTIVE


def block(ep=1, tp=1, expert_tp=None, cp=1, fields=SHAPE, **training):
    recipe = Training(**({"sequence_length": 256, "micro_batch_size": 2, "accumulation": 1} | training))
    splits = Splits(ep=ep, expert_tp=expert_tp, cp=cp)
    units = model_units(model_from_fields(fields, "m"), recipe, tp=tp, sequence_parallel=tp > 1, splits=splits)
    return units.layers[-1].units[0]


def exchanges(items, axis="ep"):
    return [
        (item.tag.removeprefix("experts."), item.kind, item.bytes)
        for item in items
        if isinstance(item, Exchange) and item.axis == axis and item.tag.startswith("experts.")
    ]


def products(items):
    return {item.name: item for item in items if isinstance(item, GroupedGemm)}


@pytest.mark.parametrize("ep", [2, 4, 8])
def test_dispatch_and_combine_move_every_row_once_each_way(ep):
    unit, size = block(ep), ROWS * HIDDEN * 2
    assert exchanges(unit.forward) == [("dispatch", "all_to_all", size), ("combine", "all_to_all", size)]
    assert exchanges(unit.backward) == [
        ("combine_gradient", "all_to_all", size),
        ("dispatch_gradient", "all_to_all", size),
    ]


@pytest.mark.parametrize(("ep", "cp"), [(2, 1), (8, 1), (4, 2)])
def test_each_rank_holds_its_share_of_the_experts(ep, cp):
    unit, whole = block(ep, cp=cp), block()
    mine, all_of_them = (sum(p.elements for p in u.parameters if p.expert) for u in (unit, whole))
    assert ep * mine == all_of_them == EXPERTS * 3 * HIDDEN * FFN
    assert {p.name: p.total for p in unit.parameters} == {p.name: p.total for p in whole.parameters}
    assert {op.groups for op in products(unit.forward).values()} == {EXPERTS // ep}
    assert {op.rows for op in products(unit.forward).values()} == {ROWS // cp}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(1, 1, None), (2, 1, None), (8, 1, None), (4, 2, None), (2, 4, 1), (1, 2, 1), (8, 2, 1)]))
def test_the_work_of_balanced_ranks_is_that_of_one(layout):
    ep, tp, expert_tp = layout
    unit, whole = block(ep, tp, expert_tp), block()
    for items in ("forward", "backward"):
        mine, alone = (products(getattr(u, items)).values() for u in (unit, whole))
        assert tp * sum(op.flops for op in mine) == sum(op.flops for op in alone)
    common = [[op.flops for op in u.forward if isinstance(op, Gemm)] for u in (unit, whole)]
    assert sum(common[0]) * tp == sum(common[1])


def test_without_expert_parallelism_nothing_travels():
    unit = block()
    assert exchanges(unit.forward + unit.backward) == []
    assert not any("sort" in getattr(item, "name", "") for item in unit.forward)


@pytest.mark.parametrize("ep", [2, 4, 8])
def test_the_busiest_rank_is_waited_for(ep):
    # one expert gets 1.5 times the mean m, each of the others (8 - 1.5) / 7 of it
    mean, local = ROWS * ep / EXPERTS, EXPERTS // ep
    rows = round(ROWS * (1.5 + (local - 1) * 6.5 / 7) / local)
    unit = block(ep, moe_imbalance=1.5)
    assert {size for _, _, size in exchanges(unit.forward)} == {rows * HIDDEN * 2}
    assert {(op.rows, op.busiest) for op in products(unit.forward).values()} == {(rows, round(1.5 * mean))}
    assert rows > ROWS


def test_one_expert_with_everything_leaves_the_others_idle():
    unit = block(8, moe_imbalance=4.0)  # 8 experts, 2 visits a token: one can get half of all
    assert {op.rows for op in products(unit.forward).values()} == {4 * ROWS}


@pytest.mark.parametrize(
    ("expert_tp", "gathers"),
    [
        (None, [("dispatch_gather", "all_gather"), ("combine_scatter", "reduce_scatter")]),
        (1, []),
    ],
)
def test_tensor_parallel_neighbours_share_a_token_or_not(expert_tp, gathers):
    unit = block(4, tp=2, expert_tp=expert_tp)
    own = ROWS // 2 * HIDDEN * 2  # half of the tokens, under sequence parallelism
    assert [size for _, _, size in exchanges(unit.forward)] == [own, own]
    whole = [(tag, kind, 2 * own) for tag, kind in gathers]
    assert exchanges(unit.forward, "tp") == whole
    inner = FFN // (2 if expert_tp is None else 1)
    assert products(unit.forward)["experts.down"].k == inner
    assert products(unit.forward)["experts.down"].rows == (ROWS if expert_tp is None else ROWS // 2)


def test_rows_are_sorted_where_a_rank_has_several_experts():
    sizes = {item.name: item.bytes for item in block(4).forward if isinstance(item, MemoryBound)}
    assert sizes["experts.dispatch_sort"] == sizes["experts.combine_sort"] == 2 * ROWS * HIDDEN * 2
    assert "experts.dispatch_sort" not in {getattr(item, "name", "") for item in block(8).forward}


def test_a_rank_keeps_the_rows_that_its_experts_compute():
    kept = block(8).saved_bytes
    assert kept == block().saved_bytes
    busier = block(8, moe_imbalance=1.5).saved_bytes
    assert busier - kept == ROWS // 2 * 2 * (HIDDEN + 3 * FFN)


def test_recomputation_repeats_the_exchanges():
    unit = block(4, recompute="full")
    assert exchanges(unit.recompute) == exchanges(unit.forward)


def test_dense_layers_and_the_shared_mlp_stay_where_they_are():
    model = bundled_model("deepseek-v3")
    recipe = Training(sequence_length=64, micro_batch_size=1, accumulation=1)
    units = model_units(model, recipe, splits=Splits(ep=64))
    dense, sparse = units.layers[0].units[0], units.layers[-1].units[0]
    assert exchanges(dense.forward) == []
    assert [size for _, _, size in exchanges(sparse.forward)] == [64 * 8 * 7168 * 2] * 2
    assert {op.groups for op in products(sparse.forward).values()} == {4}
    tags = [getattr(item, "name", None) or getattr(item, "tag", "") for item in sparse.forward]
    assert tags.index("mlp.gate_up") > tags.index("experts.unpermute"), "one after the other"


@pytest.mark.parametrize(
    ("model", "splits", "tp", "words"),
    [
        ("mixtral-8x7b", Splits(ep=3), 1, "parallel.ep = 3: does not divide the 8 experts"),
        ("llama-2-7b", Splits(ep=2), 1, "parallel.ep = 2: means nothing to llama-2-7b, which has no experts"),
        ("llama-2-7b", Splits(expert_tp=1), 2, "parallel.expert_tp = 1: means nothing to llama-2-7b"),
        ("mixtral-8x7b", Splits(ep=2), 2, "parallel.ep = 2: needs sequence parallelism at tp = 2"),
        ("mixtral-8x7b", Splits(expert_tp=2), 4, "parallel.expert_tp = 2: is neither 1 nor tp = 4"),
        ("resnet-50", Splits(ep=2), 1, "parallel.ep = 2: expert parallelism is not modelled"),
    ],
)
def test_what_does_not_fit_is_said(model, splits, tp, words):
    model = bundled_model(model)
    training = Training(sequence_length=model.fixed_sequence or 64, micro_batch_size=1, accumulation=1)
    assert any(words in str(issue) for issue in layout_issues(model, training, tp=tp, splits=splits))
