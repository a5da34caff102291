"""network.logs: output of nccl-tests and NCCL's own log, from the file to prices."""

import gzip
from pathlib import Path

import pytest

from simgpu.config import load_cases
from simgpu.costs.transfers import collective, point_to_point
from simgpu.errors import ScenarioError
from simgpu.io.nccl_log import kind_in, read_nccl_log

LOGS = Path(__file__).parents[3] / "shared" / "inputs" / "nccl-logs"
real = pytest.mark.skipif(not LOGS.is_dir(), reason="the collected logs are not here")
HEADER = "# nThread 1 nGpus {n} minBytes 8 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20\n"
RANK = "#  Rank {rank:2} Group  0 Pid 7 on {host} device {rank:2} [0x07] NVIDIA A100-SXM4-80GB\n"


def table(rows, n=8, hosts=1, program=""):
    """Output of nccl-tests; rows of size and microseconds in place."""
    text = f"# Collective test starting: {program}_perf\n" if program else ""
    text += HEADER.format(n=n)
    text += "".join(RANK.format(rank=rank, host=f"node{rank * hosts // n}") for rank in range(n))
    text += (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw ...\n"
    )
    for size, time_us in rows:
        text += f" {size} {size // 4} float sum -1 {2 * time_us} 1.0 1.0 0 {time_us} 1.0 1.0 0\n"
    return text


def scenario(logs, gpus=8, topology="dgx-a100", nodes=1, **network):
    return {
        "model": "gpt2",
        "cluster": {"topology": topology, "nodes": nodes, "gpus": gpus},
        "training": {"sequence_length": 512, "micro_batch_size": 1},
        "parallel": {"data_parallel": "ddp"},
        "network": {"logs": logs, **network},
    }


def case(path, text, **changes):
    path.write_text(text)
    (found,) = load_cases(scenario(str(path), **changes))
    return found


def whole_us(case, kind, size, ranks=8):
    cost = collective(case.cluster, tuple(range(ranks)), kind, size, case.nccl)
    return (cost.latency_ns + cost.stream_ns) / 1e3


def test_measured_times_go_before_the_model_and_between_sizes_in_logarithms(tmp_path):
    rows = [(1 << 20, 100.0), (1 << 22, 200.0), (1 << 24, 900.0)]
    found = case(tmp_path / "x.log", table(rows, program="all_reduce"))
    assert [whole_us(found, "all_reduce", size) for size, _ in rows] == pytest.approx([100.0, 200.0, 900.0], abs=1e-3)
    assert whole_us(found, "all_reduce", 1 << 21) == pytest.approx(100 * 2**0.5, abs=1e-3)
    assert collective(found.cluster, tuple(range(8)), "all_reduce", 1 << 22, found.nccl).source == "measured"


def test_beyond_what_was_measured_the_model_keeps_the_factor_of_the_edge(tmp_path):
    (plain,) = load_cases({**scenario([]), "network": {}})
    slow = [
        (1 << 20, 10 * whole_us(plain, "all_reduce", 1 << 20)),
        (1 << 26, 3 * whole_us(plain, "all_reduce", 1 << 26)),
    ]
    found = case(tmp_path / "x.log", table(slow, program="all_reduce"))
    assert whole_us(found, "all_reduce", 1 << 28) == pytest.approx(3 * whole_us(plain, "all_reduce", 1 << 28), rel=1e-3)
    assert whole_us(found, "all_reduce", 1 << 12) == pytest.approx(
        10 * whole_us(plain, "all_reduce", 1 << 12), rel=1e-3
    )


def test_other_groups_and_collectives_are_the_models(tmp_path):
    (plain,) = load_cases({**scenario([]), "network": {}})
    found = case(tmp_path / "x.log", table([(1 << 20, 5000.0)], program="all_reduce"))
    assert whole_us(found, "all_gather", 1 << 20) == whole_us(plain, "all_gather", 1 << 20)
    assert whole_us(found, "all_reduce", 1 << 20, ranks=4) == whole_us(plain, "all_reduce", 1 << 20, ranks=4)


def test_a_larger_payload_is_never_faster(tmp_path):
    found = case(
        tmp_path / "x.log", table([(1 << 20, 300.0), (1 << 21, 200.0), (1 << 22, 400.0)], program="all_reduce")
    )
    times = [whole_us(found, "all_reduce", size) for size in (1 << 20, 3 << 19, 1 << 21, 3 << 20, 1 << 22)]
    assert times == sorted(times)


def test_no_link_carries_more_than_it_can(tmp_path):
    """An all-reduce of 1 GiB in 1 ms would need 1.9 TB/s; the link's own time counts."""
    found = case(tmp_path / "x.log", table([(1 << 20, 20.0), (1 << 30, 1000.0)], program="all_reduce"))
    cost = collective(found.cluster, tuple(range(8)), "all_reduce", 1 << 30, found.nccl)
    for load in cost.loads:
        assert load.bytes / cost.stream_ns <= found.cluster.links[load.link].bytes_per_s / 1e9 * (1 + 1e-9)


def test_sends_and_receives(tmp_path):
    found = case(tmp_path / "sendrecv.log", table([(1 << 20, 77.0), (1 << 24, 700.0)], n=2))
    cost = point_to_point(found.cluster, 0, 5, 1 << 20, found.nccl)
    assert (cost.latency_ns + cost.stream_ns, cost.source) == (77_000, "measured")


def test_the_file_name_tells_the_collective_where_the_text_does_not(tmp_path):
    found = case(tmp_path / "node-all_gather.log", table([(1 << 20, 444.0)]))
    assert whole_us(found, "all_gather", 1 << 20) == 444.0
    with pytest.raises(ScenarioError, match="does not say which collective"):
        case(tmp_path / "results.log", table([(1 << 20, 444.0)]))


def test_several_tables_in_one_file_and_several_runs_of_a_size(tmp_path):
    text = table([(1 << 20, 10.0), (1 << 20, 30.0), (1 << 20, 20.0)], program="all_reduce") + table(
        [(1 << 20, 50.0)], n=16, hosts=2, program="all_gather"
    )
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(text.encode()))
    first, second = read_nccl_log(path).tests
    assert (first.kind, first.ranks, first.nodes, dict(first.times_us)) == ("all_reduce", 8, 1, {1 << 20: 20.0})
    assert (second.kind, second.ranks, second.nodes, dict(second.times_us)) == ("all_gather", 16, 2, {1 << 20: 50.0})


def test_ranks_tagged_by_mpirun_and_rows_that_were_cut_off(tmp_path):
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in table([(1 << 20, 9.0)], program="all_reduce").splitlines())
    path = tmp_path / "x.log"
    path.write_text(text + "[1,0]<stdout>: 2097152 524288 float sum -1 12.0 1.0\n")
    assert [dict(test.times_us) for test in read_nccl_log(path).tests] == [{1 << 20: 9.0}]


INFO = """node1:7:8 [0] NCCL INFO NCCL_ALGO set by environment to Ring.
node1:7:8 [0] NCCL INFO NCCL_MIN_NCHANNELS set by environment to 16.
NCCL version 2.19.3+cuda12.2
node1:7:8 [0] NCCL INFO Using network Socket
node1:7:8 [0] NCCL INFO Channel 00 : 0[7000] -> 1[8000] via SHM/direct/direct
"""


def test_what_nccl_says_of_itself_becomes_settings_that_the_scenario_may_overrule(tmp_path):
    found = case(tmp_path / "job.log", INFO)
    assert (found.nccl.version, found.nccl.algo) == ("2.19.3", "ring")
    assert (found.nccl.ib_disable, found.nccl.p2p_disable) == (True, True)
    assert "job.log: network.nccl.p2p_disable is true" in found.warnings
    assert "job.log: NCCL_MIN_NCHANNELS was set and is not simulated" in found.warnings
    overruled = case(tmp_path / "job.log", INFO, nccl={"version": "2.27.3", "ib_disable": False})
    assert (overruled.nccl.version, overruled.nccl.ib_disable, overruled.nccl.algo) == ("2.27.3", False, "ring")


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        (["Using network IB"], "IB"),
        (["Assigned NET plugin Socket to comm"], "Socket"),
        (["Initialized NET plugin IB", "Assigned NET plugin AWS Libfabric to comm"], "AWS"),
        (["NET/IB : No device found.", "NET/Socket : Using [0]eth0:10.0.0.1<0>"], "Socket"),
        (["NET/Socket : Using [0]eth0:10.0.0.1<0>", "Using network IB"], "IB"),
        (["Using network IB", "NET/Socket : Using [0]eth0:10.0.0.1<0>"], "IB"),
        (["Bootstrap : Using eth0:10.0.0.1<0>", "NCCL version 2.21.5"], ""),
    ],
)
def test_networks_by_the_lines_of_old_new_and_cut_logs(tmp_path, lines, network):
    path = tmp_path / "job.log"
    path.write_text("".join(f"box:1:2 [0] NCCL INFO {line}\n" for line in lines))
    assert read_nccl_log(path).network == network


def test_groups_that_the_cluster_cannot_have_are_named(tmp_path):
    found = case(tmp_path / "x.log", table([(1 << 20, 9.0)], n=16, hosts=2, program="all_reduce"))
    assert any("all_reduce was measured on 16 ranks of 2 nodes" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"hello\n", "neither a table of nccl-tests nor"), (b"\x1f\x8b\x08broken", "cannot be read"), (b"", "neither")],
)
def test_files_that_are_no_logs(tmp_path, content, told):
    path = tmp_path / "x.log"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=told):
        load_cases(scenario(str(path)))


@pytest.mark.parametrize(
    ("size", "time_us", "told"),
    [("1048576", "1e400", "time in a row of nccl-tests = 1e400"), ("1048576", "-5.0", "= -5.0"),
     ("1048576", "nan", "= nan"), ("1" + "0" * 23, "5.0", "size in a row of nccl-tests = 1000"),
     ("9" * 5000, "5.0", "size in a row of nccl-tests = 9999")],
)  # fmt: skip
def test_figures_that_are_none_are_refused_with_their_line(tmp_path, size, time_us, told):
    path = tmp_path / "x.log"
    text = table([], program="all_reduce")
    path.write_text(f"{text} {size} 262144 float sum -1 9.0 1.0 1.0 0 {time_us} 1.0 1.0 0\n")
    with pytest.raises(ScenarioError) as caught:
        load_cases(scenario(str(path)))
    assert f"x.log:{text.count(chr(10)) + 1}: " in str(caught.value)
    assert told in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ScenarioError, match=r"network\.logs") as caught:
        load_cases(scenario([str(tmp_path / "absent.log")]))
    assert "there is no file" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("all_reduce_perf", "all_reduce"), ("nccl-AllGather.txt", "all_gather"), ("all_to_all", "all_to_all"),
     ("alltoall_perf", "all_to_all"), ("reduce_perf", ""), ("all_reduce_and_broadcast.log", "")],
)  # fmt: skip
def test_names_of_collectives(name, kind):
    assert kind_in(name) == kind


@real
def test_real_output_of_nccl_tests():
    """8 x A100-40GB, 0 bytes to 8 GiB; the largest all-gather in place takes 32.6 ms."""
    (test,) = read_nccl_log(LOGS / "superbench-nccl_allgather.log").tests
    assert (test.kind, test.ranks, test.nodes) == ("all_gather", 8, 1)
    assert min(test.times_us) == 32
    assert test.times_us[8388608] == 120.7
    (test,) = read_nccl_log(LOGS / "superbench-nccl_broadcast.log").tests
    assert (test.kind, test.times_us[1 << 33]) == ("broadcast", 36599.0)


@real
@pytest.mark.parametrize(
    ("name", "version", "ranks"),
    [("a100-4node-allreduce-nccl-info.txt.gz", "2.10.3", 32), ("v100-16node-allreduce-nccl-info.txt.gz", "2.7.8", 64)],
)
def test_real_logs_of_nccl(name, version, ranks):
    log = read_nccl_log(LOGS / name)
    assert (log.version, log.network, log.tests) == (version, "IB", ())
    assert log.ways == {"P2P", "NET"}
