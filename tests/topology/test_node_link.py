"""Node-link JSON both ways."""

import json

import networkx as nx
import pytest

from simgpu.config.imported_topology import import_topology
from simgpu.config.lookup import bundled_names, find_file
from simgpu.config.topology_graph import from_node_link, to_node_link
from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import build_cluster
from simgpu.io.node_link import parse_node_link
from simgpu.io.yaml_file import read_yaml


def description(name, tmp_path):
    return read_yaml(find_file(name, "topologies", folder=tmp_path)).data


def machine(found):
    return build_cluster(found, nodes=1, gpus=None).machine


def wires(found):
    devices = machine(found).devices
    return sorted(
        (devices[w.source].name, devices[w.target].name, w.kind, w.bytes_per_s, w.latency_ns)
        for w in machine(found).wires
    )


@pytest.mark.parametrize("name", bundled_names("topologies"))
@pytest.mark.parametrize("old", [False, True])
def test_round_trip(name, old, tmp_path):
    own = description(name, tmp_path)
    data = to_node_link(own)
    if old:
        data["links"] = data.pop("edges")
    back = from_node_link(parse_node_link(json.dumps(data), "g.json"), "g.json")
    assert machine(back).devices == machine(own).devices
    assert wires(back) == wires(own)
    assert back.get("fabric") == own.get("fabric")
    assert back["name"] == own["name"]


def test_networkx_reads_and_writes_it(tmp_path):
    own = description("dgx-a100", tmp_path)
    graph = nx.node_link_graph(to_node_link(own), edges="edges")
    assert graph.number_of_nodes() == 8 + 1 + 4 + 2 + 2 + 8
    written = nx.node_link_data(graph.to_directed(), edges="links")
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(written), encoding="utf-8")
    assert wires(import_topology(path).description) == wires(own)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("[]", "holds no matrix"),
        ("{", "is not valid JSON"),
        ("{}", "is no node-link graph"),
        ('{"nodes": [{"id": 1}], "edges": []}', "without a text 'id' (nodes[0])"),
        ('{"nodes": [{"id": "gpu0"}, {"id": "gpu0"}], "edges": []}', "two nodes named 'gpu0'"),
        ('{"nodes": [{"id": "gpu0"}], "edges": [{"source": "gpu0", "target": "x"}]}', "is no node (edges[0])"),
        ('{"nodes": [{"id": "GPU 0"}], "edges": []}', "a family and a number, such as gpu0"),
        ('{"nodes": [{"id": "gpu1", "kind": "gpu"}], "edges": []}', "gpu1 but no gpu0"),
        ('{"nodes": [{"id": "a0", "kind": "gpu"}, {"id": "a1", "kind": "nic"}], "edges": []}', "a1 unlike a0"),
        (
            '{"nodes": [{"id": "gpu0"}, {"id": "gpu1"}], "edges": [{"source": "gpu0", "target": "gpu1"}]}',
            "without a 'type' of link",
        ),
    ],
)
def test_refusals(data, says, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(data, encoding="utf-8")
    with pytest.raises(ScenarioError, match=r".") as caught:
        import_topology(path, source="graph.json")
    assert says in str(caught.value)
