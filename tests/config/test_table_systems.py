"""The words of measured tables and the topologies they mean."""

import re

import pytest

from simgpu.config.collective_table import system_cluster
from simgpu.config.lookup import bundled_names
from simgpu.config.table_systems import TableSystem, table_system
from simgpu.hardware.table import read_table

ROWS = read_table("table_systems.csv")


def test_every_row_is_well_formed():
    for row in ROWS:
        for column in ("gpu", "intra_link", "inter_link"):
            re.compile(row[column])
        assert row["gpu"], row
        assert row["intra_link"], row
        assert row["topology"] in bundled_names("topologies"), row
        assert row["machines"] in {"", "one"}, row
        assert row["note"], row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['topology']}-{row['gpu_model']}-{row['fabric_link']}")
def test_every_row_builds_a_cluster(row):
    system = TableSystem(
        topology=row["topology"], gpu_model=row["gpu_model"], fabric_link=row["fabric_link"], one_machine=False
    )
    machines = 2 if row["inter_link"] and row["machines"] != "one" else 1
    cluster = system_cluster(system, machines)
    assert cluster.nodes == machines
    if row["gpu_model"]:
        assert cluster.gpu(0).name == row["gpu_model"]


@pytest.mark.parametrize(
    ("words", "nodes", "topology", "gpu_model", "fabric_link"),
    [
        (("H100 80GB HBM3", "NVLink4/NVSwitch", ""), 1, "dgx-h100", "", ""),
        (("A100-SXM4-40GB", "NVLink3/NVSwitch", "none"), 1, "dgx-a100", "A100-SXM4-40GB", ""),
        (("A100", "NVLink3", "none"), 1, "dgx-a100", "", ""),
        (("GB200", "NVLink5 NVL72", ""), 1, "gb200-nvl72", "", ""),
        (("GB300", "NVLink5 NVL72", "same NVL72 rack (MNNVL)"), 2, "gb200-nvl72", "GB300", ""),
        (("B200-SXM-180GB", "NVLink5/NVSwitch", "8x400Gb RoCE (GCP A4, NCCL/gIB)"), 2, "hgx-b200", "", "RoCEv2 400G"),
        (("B200-SXM-180GB", "NVLink5/NVSwitch", "8x400Gb NDR IB (ConnectX-7)"), 2, "hgx-b200", "", ""),
        (("H100-SXM5-80GB", "NVLink4/NVSwitch", "8x200Gb GPUDirect-TCPXO (GCP A3 Mega)"), 2, "gcp-a3-mega", "", ""),
        (("V100-SXM2-32GB", "NVLink2 hybrid cube mesh", "1x100Gb EFA (p3dn.24xlarge)"), 2, "aws-p3dn", "", ""),
        (("V100", "NVLink2", "none"), 1, "dgx-1v", "", ""),
        (("A40-48GB", "NVLink bridge NV4 (one pair)", "none"), 1, "2x-rtx3090-nvlink", "A40", ""),
        (("L40S", "PCIe4 (no NVLink)", ""), 1, "8x-l40s", "", ""),
    ],
)
def test_words_of_the_field(words, nodes, topology, gpu_model, fabric_link):
    found = table_system(*words, nodes)
    assert isinstance(found, TableSystem), found
    assert (found.topology, found.gpu_model, found.fabric_link) == (topology, gpu_model, fabric_link)
    assert found.one_machine == ("MNNVL" in words[2])


@pytest.mark.parametrize(
    ("words", "nodes", "reason"),
    [
        (("unstated (A100-class)", "NVLink", "none"), 1, "unstated: gpu"),
        (("", "NVLink4", "none"), 1, "unstated: gpu ''"),
        (("H100-SXM5-80GB", "", "none"), 1, "unstated: intra_link"),
        (("H100-SXM5-80GB", "NVLink4", ""), 2, "unstated: inter_link"),
        (("GB300", "NVLink5", "RoCE 8x400Gb per tray assumed"), 2, "unstated: inter_link"),
        (("H100-PCIe-80GB", "NVLink4 bridge", "none"), 1, "not in simgpu/data/table_systems.csv"),
        (("GH200", "NVLink", "none"), 1, "not in simgpu/data/table_systems.csv"),
        (("H100-SXM5-80GB", "NVLink4", "carrier pigeon"), 2, "'carrier pigeon'"),
        (("MI300X", "XGMI full mesh", "none"), 1, "not in simgpu/data/table_systems.csv"),
    ],
)
def test_what_is_not_known_is_never_guessed(words, nodes, reason):
    found = table_system(*words, nodes)
    assert isinstance(found, str)
    assert reason in found


def test_the_network_of_one_node_does_not_matter():
    assert isinstance(table_system("H100-SXM5-80GB", "NVLink4", "unstated", 1), TableSystem)
