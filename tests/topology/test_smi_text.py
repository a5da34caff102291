"""The text of ``nvidia-smi topo -m`` in all the forms it is pasted in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.errors import ScenarioError
from simgpu.io.nvidia_smi import read_smi_matrix

TABBED = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
TABBED += "GPU0\t X \tNV4\tPIX\t0-7\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t8-15\t1\t\tN/A\nNIC0\tPIX\tSYS\t X \t\t\t\n"
TABBED += "\nLegend:\n\n  X    = Self\n  SYS  = across\n"
TABBED += "  PIX  = one bridge\n  NV#  = NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
WANTED = read_smi_matrix(TABBED, "t")


def refused(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        read_smi_matrix(text, "t")
    assert len(caught.value.issues) == 1
    return str(caught.value)


def test_the_plain_form():
    assert WANTED["gpus"] == ["GPU0", "GPU1"]
    assert WANTED["nics"] == ["NIC0"]
    assert WANTED["devices"] == {"NIC0": "mlx5_0"}
    assert WANTED["classes"]["GPU1"] == {"GPU0": "NV4", "GPU1": "X", "NIC0": "SYS"}
    assert WANTED["affinity"] == {"GPU0": {"cpu": "0-7", "numa": "0"}, "GPU1": {"cpu": "8-15", "numa": "1"}}
    assert WANTED["view"] == "all"
    assert WANTED["notes"] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("GPU0\tGPU1\tNIC0\tCPU", "GPU0GPU1NIC0CPU"),
        lambda text: text.replace("\tGPU0\tGPU1", "GPU0\tGPU1", 1),
        lambda text: "\n".join(f"# {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
        lambda text: text.replace("\nGPU", "\n\nGPU").replace("\nNIC0\t", "\n   \nNIC0\t"),
        lambda text: text.replace("GPU0", "\x1b[4mGPU0\x1b[0m").replace("NV4", "\x1b[1;32mNV4\x1b[m"),
        lambda text: text.replace("NV4\tPIX", "NV4PIX").replace("NV4\t X \tSYS", "NV4 X SYS"),
        lambda text: text.replace("\t X \tNV4", " X  NV4 "),
        lambda text: f"$ nvidia-smi topo -m\n```\n{text}```\n",
        lambda text: text.replace("SYS", "SOC"),
        lambda text: text + "\n" + TABBED,
        lambda text: text.replace("NV4\tPIX\t0-7", "NV4\tPI0-7"),
    ],
    ids=[
        "CRLF",
        "glued header",
        "header not indented",
        "comments",
        "indented",
        "blank lines",
        "ANSI escapes",
        "glued cells",
        "mixed blanks",
        "command and fence",
        "SOC keyword",
        "same table twice",
        "overprinted cell",
    ],
)
def test_odd_forms_read_the_same(change):
    found = read_smi_matrix(change(TABBED), "t")
    assert found["classes"] == WANTED["classes"]
    assert found["affinity"] == WANTED["affinity"]
    assert found["gpus"] == WANTED["gpus"]


def test_blank_affinity_keeps_its_column():
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    text += "GPU0\t X \tPHB\t\t0\t\tN/A\nGPU1\tPHB\t X \t1\t1\t\tN/A\n"
    affinity = read_smi_matrix(text, "t")["affinity"]
    assert affinity == {"GPU0": {"cpu": "", "numa": "0"}, "GPU1": {"cpu": "1", "numa": "1"}}


def test_peer_access_beside_the_matrix():
    text = TABBED + "\n \tGPU0\tGPU1\n GPU0\tX\tGNS\n GPU1\tGNS\tX\n"
    found = read_smi_matrix(text, "t")
    assert found["peer_access"]["GPU0"]["GPU1"] == "GNS"
    assert found["classes"] == WANTED["classes"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no matrix"),
        ("hello\nworld\n", "holds no matrix"),
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", "t: is a table of peer access"),
        ("\tGPU0\tGPU1\n", "t:1: is cut: the matrix has a header but no rows"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\n", "t:1: is cut: GPU1 of the header has no row (2 columns, 1 rows)"),
        ("\tGPU0\nGPU0\tX\nNIC0\tPIX\n", "t:1: is cut: NIC0 has a row but no column in the header"),
        ("\tGPU0\tGPU1\nGPU0\tX\nGPU1\tNV4\tX\n", "t:2: is damaged: the row of GPU0 ends after 1 of 2 cells"),
        ("\tGPU0\tGPU1\nGPU0\tX\tPX\nGPU1\tPX\tX\n", "t:2: is damaged: the cell of GPU0 and GPU1 cannot be read"),
        (
            "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tPIX\tX\n",
            "t:2: contradicts itself: GPU0 to GPU1 is SYS, but GPU1 to GPU0",
        ),
        ("ROCm System Management\n GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n", "is a matrix of AMD GPUs by rocm-smi"),
        (TABBED + TABBED.replace("NV4", "NV8"), "holds 2 different matrices (lines 1, 16)"),
    ],
)
def test_refusals(text, says):
    assert says in refused(text)


@pytest.mark.parametrize(
    ("legend", "view"),
    [
        ("  SYS  = a\n  PIX  = b\n", "pcie"),
        ("  SYS  = a\n  PIX  = b\n  NV#  = c\n", "all"),
        ("  SOC  = a\n  PIX  = b\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_legend_tells_the_view(legend, view):
    text = f"\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n\n{legend}"
    assert read_smi_matrix(text, "t")["view"] == view
    assert read_smi_matrix(f"$ nvidia-smi topo -mp\n{text}", "t")["view"] == "pcie"


@given(st.text(alphabet="GPU012NICXVSY mlx_5\tPHB-,\n#=", max_size=200))
def test_no_text_makes_it_fail_otherwise(text):
    try:
        found = read_smi_matrix(text, "t")
    except ScenarioError:
        pass
    else:
        assert all(set(row) == set(found["classes"]) for row in found["classes"].values())
