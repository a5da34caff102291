"""NCCL's settings: names, versions, and what cannot be."""

import pytest

from simgpu.costs.collectives.constants import constants
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import ProgramError


def test_names_are_nccls_or_simgpus_in_any_case():
    assert NcclSettings(algo="NVLSTree") == NcclSettings(algo="nvls_tree")
    assert NcclSettings(algo="CollnetDirect", proto="ll128").proto == "LL128"
    assert NcclSettings() == CURRENT
    assert NcclSettings(version="2.19.3+cuda12.2").number == (2, 19)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algo": "rings"}, "'rings' is no algorithm; allowed: ring, tree, nvls"),
        ({"proto": "LL256"}, "'LL256' is no protocol; allowed: LL, LL128, Simple"),
        ({"version": "two"}, "no NCCL version; write it as 2.30"),
        ({"version": "2.3"}, "older than SimGPU knows"),
        ({"net_gdr_level": "NEAR"}, "no path class; allowed: LOC, PIX, PXB, PHB, SYS"),
    ],
)
def test_what_does_not_exist_is_refused(fields, message):
    with pytest.raises(ProgramError, match=message):
        NcclSettings(**fields)


@pytest.mark.parametrize(
    ("version", "base", "net_simple", "tree_pci"),
    [
        ((2, 4), 3.6, 9.6, 28.0),
        ((2, 12), 3.6, 9.6, 28.0),
        ((2, 15), 6.6, 14.0, 6.0),
        ((2, 19), 6.6, 14.0, 28.0),
        ((2, 22), 6.6, 14.0, 4.0),
        ((2, 40), 6.6, 14.0, 4.0),
    ],
)
def test_constants_change_with_the_version(version, base, net_simple, tree_pci):
    table = constants(version)
    if version < (2, 15):  # the tables before 2.15 had one latency for the whole tree
        assert (table.base_us("Ring", "LL"), table.step_us("Ring", "Simple", "NET")) == (
            base,
            net_simple if version >= (2, 12) else 14.0,
        )
        return
    assert table.base_us("Ring", "LL") == base
    assert table.step_us("Ring", "Simple", "NET") == net_simple
    assert table.step_us("Tree", "Simple", "PCI") == tree_pci


def test_trees_reach_half_their_bandwidth_at_a_megabyte():
    table = constants((2, 30))
    assert [table.tree_correction("Simple", 2**power) for power in (10, 20, 24, 40)] == [0.9, 0.5, 0.7, 1.0]
