import json
from pathlib import Path

import pytest

from simgpu.config.collective_table import COLUMNS

TRUTH = Path(__file__).parents[3] / "shared" / "truth"

TABLE = """id,op,gpu,ranks,nodes,intra_link,inter_link,size_bytes,time_us,busbw_gbs
good,all_reduce,H100-SXM5-80GB,8,1,NVLink4/NVSwitch,none,1073741824,4000,
good,all_reduce,H100-SXM5-80GB,8,1,NVLink4/NVSwitch,none,1073741824,,469.76
plateau,all_reduce,H100-SXM5-80GB,8,1,NVLink4/NVSwitch,none,,,480
dark,all_reduce,unstated 8-GPU node,8,1,NVLink,none,1048576,50,
odd,MoE dispatch (all-to-all),H100-SXM5-80GB,8,1,NVLink4/NVSwitch,none,1048576,50,
alien,all_reduce,TPU v5,8,1,ICI,none,1048576,50,
"""


def test_the_table_of_nccl_tests(simgpu, tmp_path):
    outcome = simgpu("collective", "all_reduce", "--topology", "dgx-h100", "--nodes", "2", "--sizes", "1K:8G")
    assert outcome.code == 0, outcome.err
    lines = [line.split("│")[1:-1] for line in outcome.out.splitlines() if line.startswith("│")]
    assert len(lines) == 24
    for column, name in enumerate(("size (B)", "count", "type", "time (us)", "algbw (GB/s)", "busbw (GB/s)")):
        assert name in outcome.out
        assert all(cells[column].strip() for cells in lines)
    first, last = ([cell.strip() for cell in lines[index]] for index in (0, -1))
    assert first[:3] == ["1024", "256", "fp32"]
    assert last[0] == str(8 * 2**30)
    time_us, algbw, busbw = map(float, last[3:6])
    assert algbw == pytest.approx(8 * 2**30 / time_us / 1e3, rel=1e-3)
    assert busbw == pytest.approx(algbw * 2 * 15 / 16, rel=1e-3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "factor", "count"),
    [
        ("all_reduce", 2 * 3 / 4, 2**20),
        ("all_gather", 3 / 4, 2**18),
        ("reduce_scatter", 3 / 4, 2**18),
        ("broadcast", 1, 2**20),
        ("alltoall", 3 / 4, 2**18),
        ("sendrecv", 1, 2**20),
    ],
)
def test_bus_factors_and_counts_are_those_of_nccl_tests(simgpu, kind, factor, count):
    outcome = simgpu("collective", kind, "-t", "dgx-a100", "--gpus", 4, "-s", "4M", "--json", "-")
    assert outcome.code == 0, outcome.err
    (row,) = json.loads(outcome.out)["rows"]
    assert (row["size_bytes"], row["count"]) == (4 * 2**20, count)
    assert row["algbw_gb_per_s"] == pytest.approx(row["size_bytes"] / row["time_us"] / 1e3)
    assert row["busbw_gb_per_s"] == pytest.approx(factor * row["algbw_gb_per_s"])
    assert row["source"] in {"measured", "constructed"}
    assert row["bottleneck"].startswith("node0/")
    assert 0 < row["latency_share"] < 1


def test_json_is_alone_on_standard_output_and_the_same_in_a_file(simgpu, tmp_path):
    arguments = ("collective", "all_gather", "-t", "dgx-a100", "-s", "1K:1M", "-f", 4)
    on_stdout = simgpu(*arguments, "--json", "-")
    assert on_stdout.code == 0, on_stdout.err
    data = json.loads(on_stdout.out)
    assert [row["size_bytes"] for row in data["rows"]] == [1024 * 4**power for power in range(6)]
    assert (data["kind"], data["topology"], data["nodes"], data["ranks"]) == (
        "all_gather", "DGX A100", 1, list(range(8))
    )  # fmt: skip
    assert "busbw (GB/s)" in on_stdout.err
    simgpu(*arguments, "--json", "x.json")
    assert (tmp_path / "x.json").read_text() == on_stdout.out


def test_ranks_and_fabric_reach_the_price(simgpu):
    def time_us(*more):
        outcome = simgpu("collective", "all_reduce", "-t", "dgx-h100", "--nodes", 4, "-s", "1G", "--json", "-", *more)
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)["rows"][0]["time_us"]

    rail = time_us("--ranks", "0-31:8")  # one GPU of every node: one NIC each
    assert rail > 3 * time_us()
    spread = ("--fabric", "nodes_per_leaf=1", "--ranks", "0-31:8")
    assert time_us(*spread, "--fabric", "oversubscription=4") > 3 * rail
    assert time_us("--ranks", "0-31:8", "--fabric", "link=RoCEv2 100G") > 3 * rail


def test_the_plot_is_one_self_contained_page(simgpu, tmp_path):
    outcome = simgpu("collective", "all_reduce", "-t", "dgx-h100", "--plot", "p.html", "--json", "-")
    assert outcome.code == 0, outcome.err
    assert outcome.err.endswith("Plot: p.html\n")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    own = page[: page.index("<script>")] + page[page.index('<script type="application/json"') :]
    assert "http" not in own.replace("http-equiv", "")
    assert "GB/s bus bandwidth at 8 GiB" in own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "KIND is missing; fix: such as simgpu collective all_reduce --topology dgx-h100"),
        (("all_reduce",), "--topology NAME is missing"),
        (("all_reduce", "-t", "dgx-h10"), "--topology = dgx-h10: is no topology; allowed:"),
        (("all_reduce", "-t", "dgx-h10"), "fix: did you mean dgx-h100"),
        (("all_reduce", "-t", "dgx-h100", "--gpus", "9"), "--gpus = 9: 1 x DGX H100 has 8 GPUs"),
        (("all_reduce", "-t", "dgx-h100", "--nodes", "0"), "--nodes = 0: is below 1"),
        (("all_reduce", "-t", "dgx-h100", "--fabric", "x"), "--fabric x: is no setting; allowed: KEY=VALUE"),
        (("all_reduce", "-t", "dgx-h100", "--fabric", "knd=rail"), "--fabric knd = rail: is not a field"),
        (("allreduce", "-t", "dgx-h100"), "'allreduce' is no collective that SimGPU prices; allowed: all_reduce"),
        (("all_reduce", "-t", "dgx-h100", "-s", "1Q"), "--sizes 1Q: '1Q' is no size; allowed: MIN:MAX such as 1K:8G"),
        (("all_reduce", "-t", "dgx-h100", "-s", "8M:1M"), "--sizes 8M:1M: the last size is smaller than the first"),
        (("all_reduce", "-t", "dgx-h100", "-f", "1"), "--factor 1: sizes would not grow"),
        (("all_reduce", "-t", "dgx-h100", "--ranks", "0,0"), "--ranks 0,0: rank 0 is named twice"),
        (("all_reduce", "-t", "dgx-h100", "--ranks", "0,8"), "DGX H100 has no rank 8; ranks are 0 to 7"),
        (("all_reduce", "-t", "dgx-h100", "--ranks", "3"), "a collective of 1 rank has nothing to send"),
        (("all_reduce", "-t", "dgx-h100", "--dtype", "int9"), "'int9' is no type; allowed: fp32"),
        (("all_reduce", "-t", "dgx-h100", "--plot", "-"), "--plot - is not possible"),
        (("all_reduce", "-t", "dgx-h100", "--plot", "a", "--json", "a"), "--plot and --json both name a"),
        (("all_reduce", "-t", "dgx-h100", "--json", "no/x.json"), "no/x.json: cannot be written"),
        (("all_reduce", "--table", "x.csv"), "--table takes everything from its file"),
        (("--table", "absent.csv"), "absent.csv: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_priced_is_refused_in_one_sentence(simgpu, tmp_path, arguments, message):
    outcome = simgpu("collective", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_measured_table(simgpu, tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    outcome = simgpu("collective", "--table", "t.csv", "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert set(found) == {"series", "mape", "bias", "skipped"}
    (good,) = found["series"]
    assert set(good) == {"id", "n", "mape", "bias"}
    # Both rows say 4 ms (1 GiB x 2 x 7/8 / 469.76 GB/s), so their errors are one.
    assert (good["id"], good["n"]) == ("good", 2)
    assert good["mape"] == pytest.approx(abs(good["bias"]), rel=1e-4)
    assert abs(good["bias"]) < 0.08
    assert (found["mape"], found["bias"]) == (good["mape"], good["bias"])
    reasons = {one["id"]: one["reason"] for one in found["skipped"]}
    assert reasons == {
        "plateau": "size is unstated",
        "dark": "hardware is unstated: gpu 'unstated 8-GPU node'",
        "odd": "op is not modelled: MoE dispatch (all-to-all)",
        "alien": "hardware is not in simgpu/data/table_systems.csv: 'TPU v5', 'ICI'",
    }
    for words in ("The worst 2", "Skipped", "good", "size is unstated"):
        assert words in outcome.err


def test_the_sign_of_the_bias(simgpu, tmp_path):
    header, row, *_ = TABLE.splitlines()
    (tmp_path / "t.csv").write_text(f"{header}\n{row.replace(',4000,', ',8000,')}\n")
    found = json.loads(simgpu("collective", "--table", "t.csv", "--json", "-").out)
    assert found["bias"] == pytest.approx(-0.5, abs=0.05)  # predicted in half the measured time
    assert found["mape"] == -found["bias"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", f"t.csv: is no table of measured collectives: it has no columns {', '.join(COLUMNS)}"),
        (TABLE.replace("time_us", "time"), "it has no column time_us; allowed: id, op"),
        (TABLE.splitlines()[0], "t.csv: has a header and no rows"),
        ("", "t.csv: is empty"),
        (TABLE.replace(",4000,", ",fast,"), "t.csv:2: time_us = fast: is no number from 0"),
        (TABLE.replace(",4000,", ",-4,"), "t.csv:2: time_us = -4: is no number from 0"),
        (TABLE.replace(",4000,", ",4000,,1"), "t.csv:2: has 11 cells where the header names 10 columns"),
        (TABLE + '"a', "t.csv:8: is no CSV: unexpected end of data"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(simgpu, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    outcome = simgpu("collective", "--table", "t.csv", "--json", "out.json")
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_the_table_is_never_overwritten(simgpu, tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    outcome = simgpu("collective", "--table", "t.csv", "--json", "t.csv")
    assert (outcome.code, (tmp_path / "t.csv").read_text()) == (2, TABLE)


@pytest.mark.skipif(not TRUTH.is_dir(), reason="the measured tables are not here")
@pytest.mark.parametrize("name", ["collectives.csv", "collectives_intranode_aic.csv"])
def test_real_tables_are_priced_or_skipped_row_by_row(simgpu, name):
    path = TRUTH / name
    outcome = simgpu("collective", "--table", path, "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    ids = {line.partition(",")[0] for line in path.read_text(encoding="utf-8").splitlines()[1:]}
    assert {one["id"] for one in (*found["series"], *found["skipped"])} == ids
    assert not [one for one in found["skipped"] if "bundled" in one["reason"]]
    priced = {one["id"] for one in found["series"]}
    assert not [name for name in priced if name.startswith(("galvatron", "mooncake", "deepep"))]


NCCL_TESTS = """# nThread 1 nGpus 2 minBytes 8 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid 7 on box device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid 7 on box device  1 [0x0b] NVIDIA A100-SXM4-80GB
 1048576 262144 float sum -1 30.0 1.0 1.0 0 25.0 1.0 1.0 0
 1073741824 268435456 float sum -1 5000.0 1.0 1.0 0 5000.0 1.0 1.0 0
"""


def test_output_of_nccl_tests_is_compared_on_a_topology(simgpu, tmp_path):
    path = tmp_path / "all_reduce.log"
    path.write_text(NCCL_TESTS)
    outcome = simgpu("collective", "--table", str(path), "-t", "dgx-a100", "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert [(one["id"], one["n"]) for one in found["series"]] == [("all_reduce, 2 ranks on 1 node", 2)]
    assert found["mape"] < 0.5


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--nodes", "2"], "takes collective, ranks, nodes and sizes from nccl-tests' output"),
        (["--plot", "x.html"], "takes collective, ranks, nodes and sizes from nccl-tests' output"),
    ],
)
def test_what_the_output_says_itself_is_refused(simgpu, tmp_path, options, told):
    path = tmp_path / "all_reduce.log"
    path.write_text(NCCL_TESTS)
    outcome = simgpu("collective", "--table", str(path), "-t", "dgx-a100", *options)
    assert outcome.code == 2
    assert told in " ".join(outcome.err.split())
