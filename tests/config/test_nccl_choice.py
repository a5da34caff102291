"""The scenario's ``network.nccl``: NCCL's version and environment variables."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import ScenarioError

BASE = {
    "name": "two nodes",
    "model": "gpt2",
    "cluster": {"topology": "8x-a100-single-nic", "nodes": 2},
    "training": {"sequence_length": 512, "micro_batch_size": 1, "gradient_accumulation": 1},
    "parallel": {"data_parallel": "ddp"},
}


def _case(**nccl):
    (case,) = load_cases({**BASE, "network": {"nccl": nccl}})
    return case


def test_nothing_said_is_nccl_as_it_is():
    (plain,) = load_cases(BASE)
    assert plain.nccl == CURRENT == _case().nccl


def test_every_field_reaches_the_case():
    case = _case(
        version="2.19.3", algo="Tree", proto="simple", p2p_disable=True, ib_disable=True, net_gdr_level="phb"
    )  # fmt: skip
    assert case.nccl == NcclSettings(
        version="2.19.3", algo="tree", proto="Simple", p2p_disable=True, ib_disable=True, net_gdr_level="PHB"
    )


def test_a_forced_algorithm_is_what_runs():
    for algo in ("ring", "tree"):
        report = simulate(_case(algo=algo))
        large = max(report.transfers, key=lambda one: one.bytes)
        assert large.algorithm == algo


def test_sockets_are_slower():
    assert simulate(_case(ib_disable=True)).step_time_ns > 1.3 * simulate(_case()).step_time_ns


def test_without_peer_access_copies_go_through_host_memory():
    (alone,) = load_cases({**BASE, "cluster": {"topology": "dgx-a100"}})
    (staged,) = load_cases(
        {**BASE, "cluster": {"topology": "dgx-a100"}, "network": {"nccl": {"p2p_disable": True}}}
    )  # fmt: skip
    assert simulate(staged).breakdown_ns["exposed.dp"] > 3 * simulate(alone).breakdown_ns["exposed.dp"]


@pytest.mark.parametrize(
    ("nccl", "message"),
    [
        ({"algo": "Rung"}, "network.nccl.algo = Rung: is no algorithm; allowed: ring, tree"),
        ({"proto": "LL64"}, "network.nccl.proto = LL64: is no protocol; allowed: LL, LL128, Simple"),
        ({"version": "two"}, "network.nccl.version = two: is no NCCL version"),
        ({"version": "2.3"}, "network.nccl.version = 2.3: NCCL 2.3 is older than SimGPU knows; allowed: 2.4 and later"),
        ({"net_gdr_level": "FAR"}, "network.nccl.net_gdr_level = FAR: is no path class; allowed: LOC"),
        ({"p2p_disable": "yes"}, "network.nccl.p2p_disable = yes: is not true or false"),
        ({"alg": "ring"}, "network.nccl.alg = ring: is not a field of SimGPU; fix: "),
    ],
)
def test_what_does_not_exist_is_refused_by_name(nccl, message):
    with pytest.raises(ScenarioError) as raised:
        _case(**nccl)
    (issue,) = raised.value.issues
    assert message in str(issue)


def test_all_wrong_settings_are_said_at_once():
    with pytest.raises(ScenarioError) as raised:
        _case(algo="Rung", proto="LL64")
    assert [issue.field for issue in raised.value.issues] == ["network.nccl.algo", "network.nccl.proto"]
