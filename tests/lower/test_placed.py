"""Groups that lie alike are priced once; every price must be the group's own."""

from dataclasses import replace

import pytest

from simgpu.lower.placed import place_of
from simgpu.lower.transfers import _price
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
