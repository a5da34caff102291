"""What is wrong with a topology is said with its field and a way out, all of it at once."""

import pytest

from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import description


def issues(machine, *, nodes=1, gpus=None, fabric=None):
    with pytest.raises(ScenarioError) as caught:
        build_cluster(machine, nodes=nodes, gpus=gpus, fabric=fabric, source="mine.yaml")
    return caught.value.issues


def edit(path, value, name="dgx-a100"):
    machine = description(name)
    place = machine
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return machine


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        (("colour",), "green", "colour", "is no field here"),
        (("name",), None, "name", "is missing"),
        (("description",), 7, "description", "is no text"),
        (("devices",), {}, "devices", "has no GPU"),
        (("devices",), [], "devices", "is not a mapping"),
        (("devices", "GPU!"), {"kind": "gpu"}, "devices.GPU!", "small letters"),
        (("devices", "box"), 3, "devices.box", "is not a mapping"),
        (("devices", "box"), {}, "devices.box.kind", "is missing"),
        (("devices", "box"), {"kind": "nvlink_switch"}, "devices.box.kind", "did you mean nvswitch"),
        (("devices", "cpu", "cores"), 64, "devices.cpu.cores", "is no field here"),
        (("devices", "cpu", "count"), 0, "devices.cpu.count", "is no whole number above zero"),
        (("devices", "cpu", "count"), True, "devices.cpu.count", "is no whole number above zero"),
        (("devices", "gpu", "model"), "A100", "devices.gpu.model", "did you mean A100-SXM4-40GB"),
        (("devices", "gpu", "model"), None, "devices.gpu.model", "is missing"),
        (("devices", "nic", "type"), "HDR", "devices.nic.type", "did you mean IB HDR 200G"),
        (("links",), {}, "links", "is not a list"),
        (("links", 0), "gpu", "links[0]", "is not a mapping"),
        (("links", 0, "width"), 4, "links[0].width", "is no field here"),
        (("links", 0, "type"), "NVLink9", "links[0].type", "no link type is named 'NVLink9'"),
        (("links", 0, "type"), None, "links[0].type", "is missing"),
        (("links", 0, "from"), "tpu", "links[0].from", "names no device"),
        (("links", 0, "to"), "nvswitch 4", "links[0].to", "is out of range"),
        (("links", 1, "from"), "gpu 1-0", "links[1].from", "is out of range"),
        (("links", 1, "to"), "pcie", "links[1]", "joins 2 devices to 4"),
        (("links", 1, "to"), "gpu 1", "links[1]", "joins gpu1 to itself"),
        (("links", 1, "from"), "gpu 1-2", "links[2]", "joins gpu2 and pcie1 once more"),
        (("links", 0, "bandwidth_gb_per_s"), 0, "links[0].bandwidth_gb_per_s", "is zero"),
        (("links", 0, "bandwidth_gb_per_s"), -3, "links[0].bandwidth_gb_per_s", "is negative"),
        (("links", 0, "bandwidth_gb_per_s"), "300 Gbps", "links[0].bandwidth_gb_per_s", "bits or bytes"),
        (("links", 0, "latency_us"), "soon", "links[0].latency_us", "does not start with a number"),
        (("links", 0, "lanes"), 8, "links[0].lanes", "does not fit"),
        (("links", 1, "lanes"), 32, "links[1].lanes", "does not fit"),
        (("devices", "gpu", "count"), 10**9, "devices.gpu.count", "too large to be meant; allowed: 1 to 1,024"),
        (("links", 0, "count"), 10**6, "links[0].count", "1 to 1,024"),
        (("links", 0, "count"), 1025, "links[0].count", "1 to 1,024"),
        (("links", 0, "bandwidth_gb_per_s"), 3e11, "links[0].bandwidth_gb_per_s", "0.001 to 100,000 GB/s (GB/s, not"),
        (("links", 0, "bandwidth_gb_per_s"), "1 B/s", "links[0].bandwidth_gb_per_s", "too small to be meant"),
        (("links", 0, "latency_us"), "11 s", "links[0].latency_us", "0 to 10 s"),
        (("links", 0, "latency_us"), 1e30, "links[0].latency_us", "0 to 10 s"),
        (("fabric", "oversubscription"), 1e9, "fabric.oversubscription", "too large to be meant"),
        (("fabric", "nodes_per_leaf"), 10**9, "fabric.nodes_per_leaf", "1 to 65,536"),
        (("fabric",), "rail", "fabric", "is not a mapping"),
        (("fabric", "kind"), "torus", "fabric.kind", "is not known"),
        (("fabric", "spines"), 2, "fabric.spines", "is no field here"),
        (("fabric", "oversubscription"), 0, "fabric.oversubscription", "is below 1"),
        (("fabric", "oversubscription"), "much", "fabric.oversubscription", "does not start with a number"),
        (("fabric", "nodes_per_leaf"), 0, "fabric.nodes_per_leaf", "above zero"),
        (("fabric", "link"), "HDR", "fabric.link", "did you mean IB HDR 200G"),
    ],
)  # fmt: skip
def test_one_problem(path, value, field, words):
    machine = edit(path, value)
    if path == ("links", 1, "from") and value == "gpu 1-2":
        machine["links"][1]["to"] = "pcie 0-1"
    found = issues(machine)
    assert field in [issue.field for issue in found]
    assert words in "\n".join(str(issue) for issue in found if issue.field == field)
    assert all(issue.file == "mine.yaml" for issue in found)


def test_all_problems_at_once():
    machine = edit(("colour",), "green")
    machine["devices"]["gpu"]["model"] = "A100"
    machine["links"][3]["type"] = "PCI"
    machine["fabric"]["kind"] = "torus"
    fields = [issue.field for issue in issues(machine)]
    assert fields == ["colour", "devices.gpu.model", "links[3].type", "fabric.kind"]


def test_gpus_that_no_link_connects():
    machine = description("4x-rtx4090-pcie")
    machine["links"][1] = {"from": "gpu 2", "to": "cpu 1", "type": "PCIe 4.0 x16"}
    found = issues(machine)
    assert [issue.field for issue in found] == ["links"] * 3
    assert "nothing connects gpu0 to gpu3" in found[0].problem
    build_cluster(machine, nodes=1, gpus=3)  # the lone card is not used


def test_cards_without_peer_access_need_a_memory():
    machine = description("4x-rtx4090-pcie")
    del machine["devices"]["memory"]
    machine["links"] = [link for link in machine["links"] if link["to"] != "memory"]
    found = issues(machine)
    assert "memory device" in str(found[0])


def test_several_nodes_need_a_nic():
    machine = description("dgx-a100")
    del machine["devices"]["nic"]
    machine["links"] = [link for link in machine["links"] if not link["from"].startswith("nic")]
    build_cluster(machine, nodes=1, gpus=None)
    assert "cannot reach the other nodes" in str(issues(machine, nodes=2)[0])


@pytest.mark.parametrize(
    ("nodes", "gpus", "field", "words"),
    [
        (1, 9, "cluster.gpus", "fix: set cluster.nodes to 2"),
        (1, 0, "cluster.gpus", "allowed: 1 to 8"),
        (2, 17, "cluster.gpus", "2 x DGX A100 have 16 GPUs"),
        (2, 7, "cluster.gpus", "fix: set cluster.gpus to 6 or 8"),
        (2, 1, "cluster.gpus", "fix: set cluster.gpus to 2"),
        (0, 8, "cluster.nodes", "is below 1"),
    ],
)
def test_counts(nodes, gpus, field, words):
    found = issues(description("dgx-a100"), nodes=nodes, gpus=gpus)
    assert [issue.field for issue in found] == [field]
    assert words in str(found[0])
    assert found[0].file is None


def test_problems_of_the_scenarios_own_fabric():
    found = issues(description("dgx-a100"), nodes=2, fabric={"kind": "ring", "leaves": 3})
    assert [issue.field for issue in found] == ["fabric.leaves", "fabric.kind"]


def test_a_bundle_faster_than_anything_built_is_refused():
    machine = description("dgx-h100")
    machine["links"][0] |= {"type": "B200 NVSwitch per GPU", "count": 200}
    (issue,) = issues(machine)
    assert (issue.field, issue.allowed) == ("links[0].count", "1 to 111")


def test_the_bounds_themselves_are_allowed():
    machine = description("dgx-a100")
    machine["links"][0] |= {"bandwidth_gb_per_s": 100_000, "latency_us": "10 s"}
    machine["links"][1] |= {"bandwidth_gb_per_s": "1 MB/s", "latency_us": 0}
    machine["fabric"] |= {"oversubscription": 1000, "nodes_per_leaf": 65_536}
    build_cluster(machine, nodes=1, gpus=None)


def test_more_nodes_than_fit_in_memory_are_refused():
    (issue,) = issues(description("dgx-a100"), nodes=10**9)
    assert (issue.field, issue.allowed) == ("cluster.nodes", "1 to 26,886")
