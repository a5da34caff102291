"""Groups that lie alike are priced once; every price must be the group's own."""

from dataclasses import replace

import pytest

from simgpu.lower.laid_out import tables_of
from simgpu.lower.placed import place_of, places_of
from simgpu.lower.transfers import _price
from simgpu.parallel.mesh import Mesh
from simgpu.pricing import lower_case, op_prices
from tests.strategies import MODEL, case_of


def case(**parallel):
    return case_of(
        {
            "name": "placed",
            "model": MODEL,
            "cluster": {"topology": "dgx-h100", "nodes": 5, "gpus": 40, "fabric": {"nodes_per_leaf": 2}},
            "training": {"sequence_length": 128, "micro_batch_size": 1, "gradient_accumulation": 5},
            "parallel": {"data_parallel": "distributed_optimizer", **parallel},
        }
    )


@pytest.mark.parametrize(
    "parallel",
    [
        {"tp": 8, "pp": 1, "dp": 5},
        {"tp": 4, "pp": 2, "dp": 5},
        {"tp": 2, "pp": 4, "dp": 5, "order": ["dp", "pp", "tp"]},
    ],
)
def test_every_price_is_that_of_its_own_group(parallel):
    found = case(**parallel)
    program = lower_case(found, op_prices(found))
    assert len(program.transfers.kinds) < len(program.groups)
    for (group, key), cost in program.transfers.items():
        own = _price(found.cluster, program.groups[group], key, found.nccl)
        assert replace(cost, disturbance=-1, spinning=-1) == own


def test_a_leaf_that_is_not_full_tells_groups_apart():
    """Nodes 0 to 3 fill two leaves, node 4 has one of its own: its uplink is slower."""
    cluster = case(tp=8, pp=1, dp=5).cluster
    first, second, last = (place_of(cluster, members, 0) for members in ((0, 8), (16, 24), (8, 16)))
    assert first.signature == second.signature != last.signature
    assert place_of(cluster, (0, 32), 0).signature != place_of(cluster, (0, 16), 0).signature


@pytest.mark.parametrize("per_leaf", [2, 3])
@pytest.mark.parametrize(
    "parallel",
    [
        {"tp": 8, "pp": 1, "dp": 5},
        {"tp": 4, "pp": 2, "dp": 5},
        {"tp": 2, "pp": 4, "dp": 5, "order": ["dp", "pp", "tp"]},
        {"tp": 1, "pp": 4, "dp": 10},
    ],
)
def test_the_groups_of_a_mesh_lie_where_each_lies_by_itself(parallel, per_leaf):
    found = case(**parallel)
    fabric = replace(found.cluster.fabric, nodes_per_leaf=per_leaf)
    cluster = replace(found.cluster, fabric=fabric)
    program, first = lower_case(found, op_prices(found)), 0
    for _, table in tables_of(program.groups):
        alone = [place_of(cluster, tuple(row), first + index) for index, row in enumerate(table.tolist())]
        assert places_of(cluster, table, first) == alone
        first += len(table)
    assert first == len(program.groups)


def test_ranks_and_groups_of_a_mesh_are_those_of_its_axes():
    found = case(tp=2, pp=4, dp=5)
    program = lower_case(found, op_prices(found))
    mesh = Mesh(degrees=found.strategy.mesh_degrees)
    for name, axes in (("tp", ("tp",)), ("pp", ("pp",)), ("dp", ("dp",))):
        members = [group.members for group in program.groups if group.communicator == name]
        assert members == list(mesh.groups(*axes))
    for index, rank in enumerate(program.ranks):
        assert rank.members == (index,)
        assert rank.role == mesh.along("pp")[index]
        assert all(index in program.groups[group].members for group in rank.groups.values())
        assert [program.groups[group].communicator for group in rank.groups.values()] == list(program.communicators)
    assert program.ranks[-1] == program.ranks[39]
    assert program.ranks[1:3] == (program.ranks[1], program.ranks[2])
    with pytest.raises(IndexError):
        program.groups[len(program.groups)]
