"""Folding whole cases: random small clusters, fabrics, meshes and slow links."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simgpu.api import facts, play_case
from simgpu.engine import play
from simgpu.fold import fold
from simgpu.metrics.summary import summarize
from simgpu.pricing import lower_case, op_prices
from tests.strategies import MODEL, case_of

MESHES = [(8, 1, 2), (2, 2, 4), (4, 4, 1), (1, 4, 4), (2, 1, 8), (8, 2, 2), (4, 2, 4)]
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def clustered(draw):
    """A scenario over several nodes whose leaves may not divide them, of any rank order."""
    tp, pp, dp = draw(st.sampled_from(MESHES))
    gpus = tp * pp * dp
    per_node = draw(st.sampled_from([4, 8]))
    fabric = {
        "nodes_per_leaf": draw(st.integers(1, 3)),
        "oversubscription": draw(st.sampled_from([1, 2, 8])),
        "routing": draw(st.sampled_from(["spray", "spray", "ecmp"])),
    }
    disorder = {"perturb": {"links": [{"link": "node1/nic0<->*", "share": 0.5}]}} if draw(st.booleans()) else {}
    return {
        "name": "clustered",
        "model": MODEL,
        "cluster": {
            "topology": draw(st.sampled_from(["dgx-a100", "dgx-h100"])),
            "nodes": gpus // per_node,
            "gpus": gpus,
            "fabric": fabric,
        },
        "training": {"sequence_length": 128, "micro_batch_size": 1, "gradient_accumulation": 4, "precision": "bf16"},
        "parallel": {
            "tp": tp,
            "pp": pp,
            "dp": dp,
            "data_parallel": draw(st.sampled_from(["ddp", "distributed_optimizer"])) if dp > 1 else "none",
            "order": draw(st.permutations(["pp", "dp", "tp"])),
        },
        "software": {"host_issue_ns": draw(st.sampled_from([0, 3000]))},
        **disorder,
    }


@few
@given(clustered())
def test_every_rank_spends_its_step_as_in_the_unfolded_run(scenario):
    case = case_of(scenario)
    folded, whole = (summarize(play_case(case, fold=fold), facts(case)) for fold in (True, False))
    assert folded.step_time_ns == whole.step_time_ns
    of_member = {member: rank for rank in folded.ranks for member in rank.members}
    for rank in whole.ranks:
        assert rank.breakdown_ns == of_member[rank.rank].breakdown_ns
        assert rank.peak_memory_bytes == of_member[rank.rank].peak_memory_bytes


@few
@given(clustered())
def test_prices_as_a_plain_mapping_fold_alike(scenario):
    case = case_of(scenario)
    program = lower_case(case, op_prices(case))
    listed = fold(replace(program, transfers=dict(program.transfers), links=tuple(program.links)))
    placed = fold(program)
    assert [rank.members for rank in placed.ranks] == [rank.members for rank in listed.ranks]
    assert play(placed).step_ends_ns == play(listed).step_ends_ns


def test_the_sum_of_one_number_does_not_split_tensor_parallel_groups():
    """The norm's tree treats nodes and GPUs differently, but four bytes take no bandwidth."""
    case = case_of(
        {
            "name": "norm",
            "model": MODEL,
            "cluster": {"topology": "dgx-a100", "nodes": 4, "gpus": 32},
            "training": {"sequence_length": 128, "micro_batch_size": 1, "gradient_accumulation": 4},
            "parallel": {"tp": 8, "pp": 4, "dp": 1},
        }
    )
    program = lower_case(case, op_prices(case))
    assert any(group.communicator == "norm" for group in program.groups)
    assert [rank.count for rank in fold(program).ranks] == [8, 8, 8, 8]
