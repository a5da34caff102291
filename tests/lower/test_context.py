"""Context parallelism in a whole step: who sends to whom, who reduces with whom, what fits."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.engine import play
from simgpu.fold import fold
from simgpu.lower import lower
from simgpu.program import Collective, Compute
from simgpu.workload.splits import CP_COMM_TYPES
from tests.lower.tiny import ALL, TOKENS, program, roles, tiny


def collectives(role, communicator):
    return [
        (item.kind, item.bytes)
        for instructions in role.streams.values()
        for item in instructions
        if isinstance(item, Collective) and item.communicator == communicator
    ]


def groups(found, communicator):
    return [group.members for group in found.groups if group.communicator == communicator]


def test_context_ranks_are_neighbours_and_replicas():
    found = program(gpus=8, cp=2, tp=2, data_parallel="ddp")
    assert groups(found, "tp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert groups(found, "cp") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert groups(found, "dp") == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert [found.communicators[name].axis for name in ("tp", "cp", "dp")] == ["tp", "cp", "dp"]


def test_the_order_of_the_axes_is_the_users():
    found = program(gpus=8, cp=2, tp=2, order=["cp", "pp", "tp", "dp"], data_parallel="ddp")
    assert groups(found, "cp") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert groups(found, "tp") == [(0, 2), (1, 3), (4, 6), (5, 7)]


@pytest.mark.parametrize("dp", [1, 2])
def test_gradients_are_reduced_over_replicas_and_context(dp):
    (role,) = roles(gpus=2 * dp, cp=2, data_parallel="distributed_optimizer")
    assert collectives(role, "dp") == [("reduce_scatter", 4 * ALL), ("all_gather", 2 * ALL)]
    assert role.resident_bytes["optimizer"] == 12 * ALL // (2 * dp)


def test_the_messages_of_a_pipeline_are_of_the_ranks_own_tokens():
    whole, half = (roles(gpus=2 * cp, cp=cp, pp=2)[0] for cp in (1, 2))
    sizes = [
        {item.bytes for stream in role.streams.values() for item in stream if hasattr(item, "peer")}
        for role in (whole, half)
    ]
    assert sizes == [{2 * TOKENS * 64}, {TOKENS * 64}]


def test_one_ring_a_block_and_micro_batch():
    (role,) = roles(gpus=2, cp=2)
    size = 2 * TOKENS // 2 * 64 * 2  # K and V of half the tokens, in bf16
    blocks, microbatches, forward, backward = 2, 2, 1, 2
    assert collectives(role, "cp") == [("send_ring", size)] * (blocks * microbatches * (forward + backward))


def test_full_recomputation_sends_again():
    (role,) = roles(gpus=2, cp=2, training={"recompute": "full"})
    assert len(collectives(role, "cp")) == 2 * 2 * (1 + 1 + 2)


@pytest.mark.parametrize("kind", ["zero2", "zero3", "fsdp", "hsdp"])
def test_shards_are_over_replicas_and_context(kind):
    options = {"fsdp": {"shard_size": 2}} if kind == "hsdp" else {}
    case = tiny(gpus=8, cp=2, data_parallel=kind, **options)
    found = lower(case.cluster, case.model, case.training, case.strategy)
    ways = 4 if kind == "hsdp" else 8
    (role,) = found.roles
    assert role.resident_bytes["optimizer"] == pytest.approx(
        case.training.optimizer_bytes_per_parameter * ALL / ways, rel=0.01
    )
    shards = groups(found, "dp_shard" if kind == "hsdp" else "dp")
    assert {len(members) for members in shards} == {ways}


def test_what_every_rank_sends_another_receives():
    """A ring of sends leaves every rank's port once and enters every rank's port once."""
    case = tiny(gpus=4, cp=4)
    found = lower(case.cluster, case.model, case.training, case.strategy)
    rings = [(key.bytes, cost) for (_, key), cost in found.transfers.items() if key.kind == "send_ring"]
    assert rings
    for size, cost in rings:
        ends = {tuple(found.links[load.link].name.split("->")): load.bytes for load in cost.loads}
        out, into = ([size for ends_at, size in ends.items() if "gpu" in ends_at[side]] for side in (0, 1))
        assert out == into == [size] * 4


SHAPE = {"layers": 2, "hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 512, "vocab": 1024}


def scenario(cp, gpus=8, nodes=1, model=SHAPE, training=None, topology="dgx-h100", **parallel):
    recipe = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 16} | (training or {})
    cluster = {"topology": topology, "nodes": nodes, "gpus": gpus}
    wanted = {"name": "c", "model": model, "cluster": cluster, "training": recipe, "parallel": {"cp": cp, **parallel}}
    (case,) = load_cases(wanted)
    return case


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([(2, 1, 1), (4, 1, 1), (8, 1, 1), (2, 2, 2), (2, 4, 1), (4, 1, 2)]),
    st.sampled_from(CP_COMM_TYPES),
    st.booleans(),
    st.sampled_from(["ddp", "distributed_optimizer", "fsdp", "zero3"]),
)
def test_folded_equals_unfolded_and_classes_sum_to_the_step(degrees, kind, spread, data_parallel):
    cp, tp, pp = degrees
    nodes = 2 if spread else 1
    case = scenario(cp, nodes=nodes, tp=tp, pp=pp, cp_comm_type=kind, data_parallel=data_parallel)
    found = lower(case.cluster, case.model, case.training, case.strategy, software=case.software)
    whole, small = play(found), play(fold(found))
    assert whole.step_ends_ns == small.step_ends_ns
    report = simulate(case)
    for rank in report.ranks:
        assert sum(rank.breakdown_ns.values()) == report.step_time_ns


def test_a_ring_across_nodes_is_exposed_and_one_in_a_node_is_hidden():
    near = scenario(2, gpus=16, nodes=2, training={"sequence_length": 4096})
    far = scenario(2, gpus=16, nodes=2, training={"sequence_length": 4096}, order=["cp", "pp", "dp", "tp"])
    exposed = [simulate(case).breakdown_ns.get("exposed.cp", 0) for case in (near, far)]
    assert exposed[1] > 2 * exposed[0]


def test_a_sequence_that_one_rank_cannot_hold():
    """Llama-3-8B, two sequences of 32,768 tokens, on one DGX H100: whole ones do not fit, halves and quarters do."""
    cases = load_cases("context_parallel")
    reports = [simulate(case) for case in cases if case.strategy.cp_comm_type == "p2p"]
    assert [case.strategy.cp for case in cases] == [1, 2, 4, 4]
    assert [report.fits for report in reports] == [False, True, True]
    kept = [report.memory_by_category_bytes["activations"] for report in reports]
    assert kept[0] == 2 * kept[1] == 4 * kept[2]


def test_twice_the_sequence_on_twice_the_ranks_is_twice_the_attention():
    """As many tokens on each GPU: a causal square and one half square become one and three."""

    def attention_ns(cp):
        case = scenario(cp, gpus=cp, training={"sequence_length": 4096 * cp, "global_batch_size": 1})
        (role,) = lower(case.cluster, case.model, case.training, case.strategy).roles
        runs = [item.kernels for item in role.streams["compute"] if isinstance(item, Compute)]
        return sum(kernel.duration_ns for run in runs for kernel in run if kernel.op_class == "attention")

    assert attention_ns(4) == pytest.approx(2 * attention_ns(2), rel=0.05)
