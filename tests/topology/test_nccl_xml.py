"""NCCL's topology XML: dumps, files by hand, hostile ones."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.config.imported_topology import Answers, import_topology
from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.path_class import class_matrix
from simgpu.io.import_file import LARGEST_IMPORT_BYTES
from simgpu.io.nccl_xml import read_nccl_xml

GPU = (
    '<pci busid="0:{n}:0.0" class="0x030200" device="{device}" link_speed="{speed}" link_width="{width}">{inside}</pci>'
)


def slot(n, inside, device="0x20b2", speed="16.0 GT/s PCIe", width=16):
    return GPU.format(n=n, inside=inside, device=device, speed=speed, width=width)


def dump(first, second, cpu='arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'):
    cpus = "".join(f'<cpu numaid="{i}" {cpu}>{inside}</cpu>' for i, inside in enumerate((first, second)) if inside)
    return f'<system version="1">{cpus}</system>'


PAIR = dump(
    slot(1, '<gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0:2:0.0" count="12" tclass="0x030200"/></gpu>')
    + '<pci busid="0:9:0.0" class="0x020700" link_speed="16 GT/s" link_width="16"><nic>'
    '<net name="mlx5_0" dev="0" speed="200000" port="1"/></nic></pci>',
    slot(2, '<gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0:1:0.0" count="12" tclass="0x030200"/></gpu>'),
)


@pytest.fixture
def run(tmp_path):
    def run(text, **answers):
        path = tmp_path / "topo.xml"
        path.write_text(text, encoding="utf-8")
        return import_topology(path, Answers(**answers), "topo.xml")

    return run


def message(run, text, **answers):
    with pytest.raises(ScenarioError) as caught:
        run(text, **answers)
    assert len(caught.value.issues) == 1
    return str(caught.value)


def test_a_dump_needs_no_answers(run):
    found = run(PAIR).description
    assert found["devices"]["gpu"] == {"kind": "gpu", "model": "A100-SXM4-80GB", "count": 2}
    assert found["devices"]["nic"]["type"] == "IB HDR 200G"
    machine = build_cluster(found, nodes=1, gpus=None).machine
    assert class_matrix(machine) == (("X", "NV12", "PHB"), ("NV12", "X", "SYS"), ("PHB", "SYS", "X"))
    assert found["links"][-1]["type"] == "UPI Sapphire Rapids"


@pytest.mark.parametrize(
    ("cpu", "link"),
    [
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"', "QPI (Haswell/Broadwell)"),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"', "UPI Skylake"),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"', "UPI Emerald Rapids"),
        ('arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1"', "AMD Infinity Fabric socket link"),
        ('arch="arm64"', "ARM inter-socket"),
    ],
)
def test_the_socket_link_by_nccls_rule(run, cpu, link):
    text = dump(slot(1, '<gpu dev="0" sm="80" rank="0"/>'), slot(2, '<gpu dev="1" sm="80" rank="1"/>'), cpu)
    assert run(text).description["links"][-1]["type"] == link


def test_switches_nest_and_slots_have_their_width(run):
    inner = '<pci busid="0:5:0.0" class="0x060400" link_speed="8 GT/s" link_width="8">'
    inner += slot(1, '<gpu dev="0" sm="75" rank="0"/>', "0x1eb8", "8 GT/s", 4)
    inner += slot(2, '<gpu dev="1" sm="75" rank="1"/>', "0x1eb8", "2.5 GT/s PCIe", 16) + "</pci>"
    found = run(dump(f'<pci busid="0:4:0.0" class="0x060400">{inner}</pci>', "")).description
    assert found["devices"]["pcie"]["count"] == 2
    links = {link["from"]: link for link in found["links"]}
    assert links["gpu 0"] == {"from": "gpu 0", "to": "pcie 1", "type": "PCIe 3.0 x16", "lanes": 4}
    assert links["gpu 1"]["bandwidth_gb_per_s"] == 3.0  # 16 lanes x 15 / 80
    assert links["pcie 1"]["to"] == "pcie 0"
    assert links["pcie 1"]["lanes"] == 8
    assert class_matrix(build_cluster(found, nodes=1, gpus=None).machine)[0][1] == "PIX"


def test_nvswitches_count_together(run):
    links = "".join(f'<nvlink target="0:a{i}:0.0" count="2" tclass="0x068000"/>' for i in range(6))
    gpus = [slot(n, f'<gpu dev="{n}" sm="80" rank="{n}">{links}</gpu>') for n in range(3)]
    found = run(dump("".join(gpus), "")).description
    assert found["links"][0] == {"from": "gpu", "to": "nvswitch", "type": "NVLink3 link (A100)", "count": 12}


def test_gpus_without_rank_are_left_out(run):
    text = dump(slot(1, '<gpu dev="0" sm="75" rank="0"/>', "0x1eb8") + slot(2, '<gpu dev="1" sm="75"/>', "0x1eb8"), "")
    found = run(text)
    assert found.description["devices"]["gpu"] == {"kind": "gpu", "model": "T4"}
    assert any("without a rank" in note for note in found.notes)


def test_files_by_hand_say_what_is_missing(run):
    bare = dump(slot(1, "") + slot(2, "") + '<pci busid="0:9:0.0" class="0x020000"/>', "")
    assert "hides A100-SXM4-80GB's NVLinks" in message(run, bare)
    assert "does not say how fast its 1 NICs are (no <net>)" in message(run, bare, nvlink="switch")
    found = run(bare, nvlink="switch", nic="100G").description
    assert found["devices"]["nvswitch"] == {"kind": "nvswitch"}
    no_class = dump('<pci busid="0:1:0.0"/><pci busid="0:2:0.0"/>', "")
    assert "has no GPU: neither <gpu> nor a PCI device of class 0x03, only 2 PCI devices" in message(run, no_class)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<graphs version='1'/>", "is an NCCL_GRAPH_FILE"),
        ("<html/>", "has the root <html>"),
        ("<system/>", "has no <cpu>"),
        ("<system><cpu></system>", "topo.xml:1: is not well-formed XML: mismatched tag"),
        (PAIR.replace('count="12"', 'count="many"', 1), "has count='many' in a <nvlink>, which is no whole number"),
        (
            PAIR.replace('count="12"', 'count="11"', 1),
            "contradicts itself: 11 NVLinks from 0:1:0.0 to 0:2:0.0, 12 back",
        ),
        (PAIR.replace('count="12"', 'count="13"'), "13 NVLinks, but A100-SXM4-80GB has 12"),
        (PAIR.replace("200000", "600000"), "gives mlx5_0 600000 Mbit/s, a port SimGPU has no figures of"),
        (PAIR.replace("0x20b2", "0xffff"), "says of its GPUs only sm 80, no model; fix: give --gpu MODEL (A100-SXM4"),
        (PAIR.replace('tclass="0x030200"', 'tclass="0x068001"'), "joins GPUs to CPUs by NVLink (POWER9)"),
        (PAIR.replace('rank="0"', 'rank="0" gcn="908"'), "is RCCL's, of GPUs with gcn 908"),
        (f"<system><cpu>{'<pci>' * 40}{'</pci>' * 40}</cpu></system>", "nests PCI buses more than 32 deep"),
    ],
)
def test_refusals(run, text, says):
    assert says in message(run, text)


def test_amd_of_a_known_kind_is_taken_by_name(run):
    gpu = '<gpu dev="{n}" sm="304" gcn="942" rank="{n}"><xgmi target="0:{m}:0.0" count="1" tclass="0x120000"/></gpu>'
    text = dump("".join(slot(n, gpu.format(n=n, m=1 - n), "0x74a1") for n in range(2)), "")
    assert "which is MI300X or MI325X; fix: give --gpu MODEL" in message(run, text)
    found = run(text, gpu="MI300X").description
    assert found["links"][0] == {"from": "gpu 0", "to": "gpu 1", "type": "xGMI MI300X pair"}
    assert "so no T4" in message(run, text, gpu="T4")


BOMB = '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><system>&b;</system>'
EXTERNAL = (
    '<?xml version="1.0"?><!DOCTYPE system [<!ENTITY x SYSTEM "file:///etc/passwd">]><system><cpu>&x;</cpu></system>'
)


@pytest.mark.parametrize("text", [BOMB, EXTERNAL, '<!DOCTYPE system SYSTEM "http://localhost/x.dtd"><system/>'])
def test_document_types_are_refused_unread(run, text):
    assert "declares a document type" in message(run, text)


def test_undeclared_entities_are_no_xml(run):
    assert "is not well-formed XML" in message(run, "<system>&b;</system>")


def test_size_is_bounded(run):
    assert "is larger than" in message(run, "<system>" + " " * LARGEST_IMPORT_BYTES + "</system>")


@given(st.text(alphabet='<>/="cpugnilk 01x', max_size=120))
def test_no_text_makes_it_fail_otherwise(text):
    with contextlib.suppress(ScenarioError):
        read_nccl_xml("<system>" + text, "t")
