"""Expert parallelism in a whole step: grids, reductions per class of weights, reported cases."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.engine import play
from simgpu.errors import ScenarioError
from simgpu.fold import fold
from simgpu.lower import lower
from simgpu.program import Collective, Record, Wait

SHAPE = {"layers": 2, "hidden": 256, "heads": 8, "kv_heads": 8, "vocab": 1024}
SHAPE |= {"experts": 8, "experts_per_token": 2, "expert_ffn": 128}
EXPERTS = 2 * 8 * 3 * 256 * 128  # weights of both layers'
COMMON = 2 * (4 * 256 * 256 + 8 * 256 + 2 * 256) + 2 * 1024 * 256 + 256


def case_of(gpus=8, nodes=1, model=SHAPE, training=None, topology="dgx-h100", software=None, **parallel):
    options = {name: parallel.pop(name) for name in ("distributed_optimizer", "zero", "fsdp") if name in parallel}
    recipe = {"sequence_length": 512, "micro_batch_size": 1, "global_batch_size": 16} | (training or {})
    cluster = {"topology": topology, "nodes": nodes, "gpus": gpus}
    wanted = {"name": "e", "model": model, "cluster": cluster, "training": recipe, "parallel": parallel, **options}
    (case,) = load_cases(wanted | ({"software": software} if software else {}))
    return case


def program_of(**wanted):
    case = case_of(**wanted)
    return lower(case.cluster, case.model, case.training, case.strategy, software=case.software)


def groups(found, communicator):
    return [group.members for group in found.groups if group.communicator == communicator]


def collectives(role, communicator):
    return [
        (item.kind, item.bytes)
        for instructions in role.streams.values()
        for item in instructions
        if isinstance(item, Collective) and item.communicator == communicator
    ]


def test_experts_are_laid_out_on_a_grid_of_their_own():
    found = program_of(ep=4, cp=2, data_parallel="ddp")
    assert groups(found, "cp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert groups(found, "ep") == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert groups(found, "edp") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert groups(found, "dp") == [tuple(range(8))]
    assert [found.communicators[name].axis for name in ("ep", "edp", "dp")] == ["ep", "dp", "dp"]


def test_with_tensor_parallelism_experts_are_of_the_same_column_or_take_its_ranks():
    found = program_of(ep=2, tp=2, sequence_parallel=True, data_parallel="ddp")
    assert groups(found, "ep") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    found = program_of(ep=4, tp=2, expert_tp=1, sequence_parallel=True, data_parallel="ddp")
    assert groups(found, "ep") == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert groups(found, "edp") == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_the_users_order_puts_experts_across_nodes():
    found = program_of(nodes=2, gpus=16, ep=2, order=["pp", "ep", "dp", "tp"], data_parallel="ddp")
    assert groups(found, "ep")[0] == (0, 8)


@pytest.mark.parametrize("ep", [2, 4, 8])
def test_each_class_of_weights_is_reduced_among_its_own_replicas(ep):
    (role,) = program_of(ep=ep, data_parallel="distributed_optimizer").roles
    held = EXPERTS // ep
    assert collectives(role, "dp") == [("reduce_scatter", 4 * COMMON), ("all_gather", 2 * COMMON)]
    shared = [("reduce_scatter", 4 * held), ("all_gather", 2 * held)] if ep < 8 else []
    assert collectives(role, "edp") == shared
    assert role.resident_bytes["weights"] == 2 * (COMMON + held)
    assert role.resident_bytes["gradients"] == 4 * (COMMON + held)
    assert role.resident_bytes["optimizer"] == 12 * (COMMON // 8 + held // (8 // ep))


def test_the_step_ends_when_both_classes_are_gathered():
    (role,) = program_of(ep=4, data_parallel="distributed_optimizer").roles
    waited = {item.event for item in role.streams["compute"] if isinstance(item, Wait)}
    last = [[item.event for item in role.streams[name] if isinstance(item, Record)][-1] for name in ("dp", "edp")]
    assert waited.issuperset(last)


def test_the_gradient_norm_is_over_all_that_hold_different_gradients():
    sharded, whole, neither = (
        program_of(**wanted)
        for wanted in (
            {"ep": 4, "data_parallel": "distributed_optimizer"},
            {"ep": 4, "data_parallel": "ddp"},
            {"data_parallel": "ddp"},
        )
    )
    assert groups(sharded, "norm") == [tuple(range(8))]
    assert groups(whole, "norm") == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert groups(neither, "norm") == []


def test_zero_shards_the_experts_among_their_replicas():
    (role,) = program_of(ep=4, data_parallel="zero2").roles
    assert role.resident_bytes["optimizer"] == 12 * (COMMON // 8 + EXPERTS // 4 // 2)
    assert {kind for kind, _ in collectives(role, "edp")} == {"all_reduce", "all_gather"}


@pytest.mark.parametrize("ep", [2, 4, 8])
@pytest.mark.parametrize("kind", ["fsdp1", "fsdp", "zero3"])
def test_experts_are_sharded_over_what_is_left_for_them(kind, ep):
    """Every rank stores an eighth of all weights and states however they are split over ep and edp."""
    whole = {"zero": {"stage3_param_persistence_threshold": 0}} if kind == "zero3" else {}
    (role,) = program_of(ep=ep, data_parallel=kind, **whole).roles
    weights, states = (2, 12) if kind == "zero3" else (4, 8)
    assert role.resident_bytes["weights"] == weights * (COMMON + EXPERTS) // 8
    assert role.resident_bytes["optimizer"] == states * (COMMON + EXPERTS) // 8


@pytest.mark.parametrize("ep", [2, 4, 8])
def test_fsdp_gathers_and_reduces_experts_among_their_replicas(ep):
    """Two units a block: the experts' over edp, the rest over dp; two microbatches, root gathered once in each."""
    (role,) = program_of(ep=ep, data_parallel="fsdp").roles
    held = 2 * EXPERTS // ep // 2  # bytes of one block's, in bf16
    gathers = [size for kind, size in collectives(role, "edp") if kind == "all_gather"]
    reductions = [size for kind, size in collectives(role, "edp") if kind == "reduce_scatter"]
    assert gathers == [held] * 2 * 2 * 2  # blocks x passes x microbatches
    assert reductions == [held] * 2 * 2
    gathered = sum(size for kind, size in collectives(role, "dp") if kind == "all_gather")
    block = 4 * 256 * 256 + 8 * 256 + 2 * 256
    assert gathered == 2 * (2 * (2 * 2 * block + 2 * 1024 * 256 + 256))


def test_zero3_moves_as_much_for_experts_as_without_expert_parallelism_over_their_group():
    """DeepSpeed pull request 8060: expert weights over the expert data-parallel group, the rest over all ranks."""
    (role,) = program_of(ep=4, data_parallel="zero3", zero={"stage3_param_persistence_threshold": 0}).roles
    held = 2 * EXPERTS // 4
    moved = dict.fromkeys(("all_gather", "reduce_scatter"), 0)
    for kind, size in collectives(role, "edp"):
        moved[kind] += size
    assert moved == {"all_gather": 2 * 2 * held, "reduce_scatter": 2 * held}


def test_hybrid_sharding_keeps_a_copy_of_the_experts_in_every_sub_group():
    found = program_of(ep=2, data_parallel="hsdp", fsdp={"shard_size": 4})
    assert groups(found, "ep") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert groups(found, "edp_shard") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert groups(found, "edp_replicate") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    (role,) = found.roles
    assert role.resident_bytes["weights"] == 4 * (COMMON + EXPERTS) // 4
    kinds = {name: {kind for kind, _ in collectives(role, name)} for name in ("edp_shard", "edp_replicate")}
    assert kinds == {"edp_shard": {"all_gather", "reduce_scatter"}, "edp_replicate": {"all_reduce"}}


@pytest.mark.parametrize("ep", [2, 8])
def test_the_optimizer_of_experts_goes_to_the_host_with_the_rest(ep):
    options = {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
    (role,) = program_of(ep=ep, data_parallel="zero2", zero=options).roles
    shard = COMMON // 8 + EXPERTS // 8
    assert "optimizer" not in role.resident_bytes
    assert role.host_bytes["optimizer"] == 12 * shard
    down = sum(size for kind, size in collectives(role, "d2h"))
    assert down == 2 * 2 * shard, "bf16, both microbatches"
    assert sum(size for kind, size in collectives(role, "h2d")) == 2 * shard + 2 * shard, "the sum, and the weights"


def test_copies_of_experts_alone_are_data_parallel_too():
    """tp 4 with whole experts on each rank and ep 2: two copies of every expert, one of everything else."""
    case = case_of(gpus=4, ep=2, tp=4, expert_tp=1, sequence_parallel=True)
    assert case.strategy.data_parallel == "ddp"
    found = program_of(gpus=4, ep=2, tp=4, expert_tp=1, sequence_parallel=True)
    assert groups(found, "edp") == [(0, 2), (1, 3)]
    assert collectives(found.roles[0], "edp") == [("all_reduce", 4 * EXPERTS // 2)]


def test_without_expert_parallelism_there_is_one_class():
    found = program_of(data_parallel="distributed_optimizer")
    assert not {"ep", "edp"} & found.communicators.keys()
    assert collectives(found.roles[0], "dp")[0] == ("reduce_scatter", 4 * (COMMON + EXPERTS))


def test_gathers_in_forward_are_waited_for_by_class():
    options = {"overlap_grad_reduce": True, "overlap_param_gather": True}
    report = simulate(case_of(ep=4, data_parallel="distributed_optimizer", distributed_optimizer=options))
    assert report.timeline.steady


def test_exchanges_of_a_step():
    (role,) = program_of(ep=8, data_parallel="ddp").roles
    size = 512 * 2 * 256 * 2
    layers, microbatches = 2, 2
    assert collectives(role, "ep") == [("all_to_all", size)] * (4 * layers * microbatches)


def test_what_all_send_all_receive():
    found = program_of(ep=8, data_parallel="ddp")
    checked = 0
    for (_, key), cost in found.transfers.items():
        if key.kind == "all_to_all":
            loads = {found.links[load.link].name: load.bytes for load in cost.loads}
            into = [size for name, size in loads.items() if "gpu" in name.split("->")[1]]
            out = [size for name, size in loads.items() if "gpu" in name.split("->")[0]]
            assert into == out == [key.bytes * 7 // 8] * 8
            checked += 1
    assert checked


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([(8, 1, 1, 1, None), (4, 1, 1, 1, None), (4, 2, 1, 1, None), (2, 1, 2, 1, None), (8, 1, 2, 1, 1),
                     (2, 1, 1, 2, None), (4, 1, 2, 2, 1)]),
    st.booleans(),
    st.sampled_from(["ddp", "distributed_optimizer", "zero1", "zero3", "fsdp1", "fsdp"]),
    st.sampled_from([1.0, 1.7]),
)  # fmt: skip
def test_folded_equals_unfolded_and_classes_sum_to_the_step(degrees, spread, data_parallel, imbalance):
    ep, cp, tp, pp, expert_tp = degrees
    assume(data_parallel != "zero3" or (cp == 1 and (tp == 1 or expert_tp == 1)))  # refused by DeepSpeed
    wanted = {"sequence_parallel": True} if tp > 1 else {}
    wanted |= {"expert_tp": expert_tp} if expert_tp else {}
    case = case_of(
        nodes=2 if spread else 1, ep=ep, cp=cp, tp=tp, pp=pp, data_parallel=data_parallel,
        training={"moe_imbalance": imbalance}, **wanted,
    )  # fmt: skip
    found = lower(case.cluster, case.model, case.training, case.strategy, software=case.software)
    whole, small = play(found), play(fold(found))
    assert whole.step_ends_ns == small.step_ends_ns
    report = simulate(case)
    for rank in report.ranks:
        assert sum(rank.breakdown_ns.values()) == report.step_time_ns


def mixtral(batch=64, **wanted):
    training = {"sequence_length": 4096, "global_batch_size": batch}
    return simulate(case_of(model="mixtral-8x7b", training=training, data_parallel="distributed_optimizer", **wanted))


def test_experts_across_nodes_are_slower():
    near, far = (simulate(case) for case in load_cases("expert_parallel"))
    assert near.fits
    assert far.fits
    assert far.step_time_ns > near.step_time_ns
    assert far.breakdown_ns["exposed.ep"] > 2 * near.breakdown_ns["exposed.ep"]
    assert mixtral(nodes=1, gpus=8, ep=8).tokens_per_s < near.tokens_per_s


def test_experts_on_ranks_of_their_own_beat_their_columns_over_all():
    """NVIDIA/Megatron-LM issue 756: Mixtral-8x7B on 16 H100, 130 TFLOPS a GPU, 236 with expert parallelism."""
    columns = mixtral(32, nodes=2, gpus=16, tp=8, sequence_parallel=True)
    experts = mixtral(32, nodes=2, gpus=16, ep=8)
    assert 1.5 < columns.step_time_ns / experts.step_time_ns < 2.2  # reported 1.82


def test_an_unlike_load_costs_time_and_travel():
    even, uneven = (
        simulate(case_of(ep=8, data_parallel="ddp", model="mixtral-8x7b", training={"moe_imbalance": i}))
        for i in (1.0, 1.5)
    )
    assert uneven.step_time_ns > even.step_time_ns
    moved = [
        max(t.bytes for t in report.transfers if t.axis == "ep" and t.kind == "all_to_all") for report in (even, uneven)
    ]
    assert moved[1] == 1.5 * moved[0]


def test_zero3_with_experts_is_deepspeeds_autoep():
    """Its own MoE layers are refused at stage 3 (runtime/engine.py, _validate_zero3_moe_compatibility)."""
    for kind, ep, warned in (("zero3", 4, True), ("zero3", 1, False), ("zero2", 4, False)):
        assert any("AutoEP" in warning for warning in case_of(ep=ep, data_parallel=kind).warnings) is warned


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"ep": 3}, "parallel.ep = 3: does not divide the dp x cp = 8 x 1 ranks"),
        ({"ep": 8, "data_parallel": "hsdp", "fsdp": {"shard_size": 4}}, "does not divide the 4 ranks of a sub-group"),
        (
            {"ep": 4, "data_parallel": "zero3", "zero": {"zero_hpz_partition_size": 4}},
            "zero.zero_hpz_partition_size = 4: is refused by DeepSpeed with expert parallelism",
        ),
        (
            {"ep": 2, "tp": 2, "sequence_parallel": True, "data_parallel": "zero3"},
            "parallel.expert_tp: is refused by DeepSpeed with ZeRO-3",
        ),
        ({"ep": 2, "cp": 2, "data_parallel": "zero3"}, "parallel.cp = 2: is refused by DeepSpeed with ZeRO-3"),
        (
            {"ep": 2, "tp": 8, "sequence_parallel": True, "expert_tp": 1, "data_parallel": "none"},
            "leaves 4 copies of the experts without anything that joins their gradients",
        ),
        ({"ep": 4, "tp": 2, "sequence_parallel": True, "pp": 2, "order": ["dp", "pp", "tp"]}, "parallel.ep = 4"),
        ({"ep": 2, "tp": 2, "sequence_parallel": True, "cp": 2, "order": ["pp", "tp", "dp", "cp"]}, None),
        ({"ep": 2, "cp": 2, "pp": 2, "order": ["dp", "cp", "pp", "tp"]}, None),
        ({"ep": 4, "cp": 2, "pp": 2, "order": ["dp", "pp", "cp", "tp"]}, "parallel.order"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(wanted, words):
    if words is None:
        assert case_of(**wanted).strategy.ep == 2
        return
    with pytest.raises(ScenarioError) as error:
        case_of(**wanted)
    assert words in str(error.value)
