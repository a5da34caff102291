"""Files of machines beside those of a run: measurements, lists of hosts, ports; and files of other commands."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simgpu.cli.imports import import_command
from simgpu.config import load_scenario
from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from tests.imports.reading import read

ANSWERS = RunAnswers(model="gpt2", topology="dgx-a100")
NCCL = (
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 8\n"
    "#  Rank  0 Pid 7 on box device  0 [0x07] A100\n#  Rank  1 Pid 7 on box device  1 [0x0b] A100\n"
    "  1048576  262144  float  sum  -1  20.0  52.4  52.4  0  21.0  49.9  49.9  0\n"
)
COPIES = "nvbandwidth Version: v0.6\nRunning host_to_device_memcpy_ce.\nmemcpy CE\n   0\n 0  25.17\n"
PORT = "Port 1:\n\t\tState: {state}\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tLink layer: {layer}\n"
TRAINER = "per_device_train_batch_size: 2\nbf16: true\nmodel_name_or_path: gpt2\n"


def adapters(*ports: tuple[str, int], layer: str = "InfiniBand") -> str:
    return "".join(
        f"CA 'mlx5_{place}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\t"
        + PORT.format(state=state, rate=rate, layer=layer)
        for place, (state, rate) in enumerate(ports)
    )


def test_measurements_go_along_into_network_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    files = {"run.yaml": TRAINER, "all_reduce.log": NCCL, "copies.txt": COPIES}
    for name, text in files.items():
        (tmp_path / "in" / name).write_text(text)
    (tmp_path / "in" / "job.out.gz").write_bytes(gzip.compress(b"hello\nNCCL version 2.19.3+cuda12.2\n"))
    sources = [str(tmp_path / "in" / name) for name in (*files, "job.out.gz")]
    out = tmp_path / "mine.yaml"
    import_command(sources, RunAnswers(topology="dgx-a100", gpus=2), out=str(out))
    (case,) = load_scenario(out).cases
    assert case.nccl.measured is not None
    assert case.nccl.measured.groups == (("all_reduce", 2, 1),)
    assert case.nccl.version == "2.19.3"
    assert "logs: [in/all_reduce.log, in/copies.txt, in/job.out.gz]" in out.read_text()
    assert "all_reduce.log goes into network.logs" in capsys.readouterr().out
    assert any("measured times of all_reduce on 2 ranks of 1 node" in text for text in case.warnings)
    assert any("copies to a GPU at 25.17 GB/s" in text for text in case.warnings)


def test_measurements_alone_say_where_they_belong(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(NCCL)
    with pytest.raises(ScenarioError, match=r"nothing of a run; fix: .*network: \{logs: \[\.\.\.\]\}"):
        import_run([path], RunAnswers(topology="dgx-a100"))
    logs = import_run([path], ANSWERS, folder=tmp_path).data["network"]["logs"]
    assert logs == ["all_reduce.log"]


def test_a_measurement_with_a_broken_figure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"run\.log:4: time in a row of nccl-tests = -21"):
        read(tmp_path, NCCL.replace("21.0", "-21"), ".log")


@pytest.mark.parametrize(
    ("text", "nodes", "gpus"),
    [
        ("worker-1 slots=8\nworker-2 slots=4  # half\n\n# worker-3 slots=8\n", 2, 12),
        ("a slots=8 max_slots=8\nb slots=8 max_slots=8\n", 2, 16),
        ("node1:4\nnode2:4\nnode3:4\n", 3, 12),
        ("VM_hostname a\n0ff08c4321664e96\n0ff08c43217299f2\nVM_hostname b\n1c34da03005baca4\n", 2, None),
        ("VM_hostname a\n0ff08c4321664e96\nVM_hostname b\n0000000000000000\nVM_hostname c\n", 1, None),
    ],
)
def test_lists_of_hosts(tmp_path: Path, text: str, nodes: int, gpus: int | None) -> None:
    reading = read(tmp_path, text, "")
    assert (reading.settings["cluster.nodes"], reading.gpus, reading.kind) == (nodes, gpus, "host-list")


def test_hosts_that_named_no_adapter_are_left_out_by_name(tmp_path: Path) -> None:
    reading = read(tmp_path, "VM_hostname a\n0ff08c4321664e96\nVM_hostname b\nVM_hostname c\n", ".txt")
    assert "run.txt: b, c did not name an adapter, and are left out" in reading.notes
    with pytest.raises(ScenarioError, match=r"'hello' .* is neither a host nor an adapter's GUID"):
        read(tmp_path, "VM_hostname a\n0ff08c4321664e96\nhello\n", ".txt")
    with pytest.raises(ScenarioError, match="lists no host"):
        read(tmp_path, "VM_hostname a\n", ".txt")


def test_a_host_list_gives_the_nodes_of_a_run(tmp_path: Path) -> None:
    hosts, run = tmp_path / "ibstat.txt", tmp_path / "run.yaml"
    hosts.write_text("".join(f"VM_hostname vm{place}\n0ff08c4321664e9{place}\n" for place in range(3)))
    run.write_text(TRAINER)
    assert import_run([hosts], ANSWERS).data["cluster"] == {"topology": "dgx-a100", "nodes": 3, "gpus": 24}
    assert import_run([run, hosts], RunAnswers(topology="dgx-a100")).data["cluster"]["nodes"] == 3


def test_ibstat_of_a_host_shows_its_active_ports(tmp_path: Path) -> None:
    ibstat, hosts = tmp_path / "ibstat.txt", tmp_path / "hostfile"
    ibstat.write_text(adapters(*[("Active", 400)] * 4, ("Down", 10)))
    hosts.write_text("a slots=8\nb slots=8\n")
    run = import_run([ibstat, hosts], ANSWERS)
    assert run.data["cluster"] == {"topology": "dgx-a100", "nodes": 2, "gpus": 16, "fabric": {"link": "IB NDR 400G"}}
    assert "ibstat.txt: 4 of 5 ports are active (400 Gb/s of InfiniBand)" in run.notes
    assert any("shows 4 active ports, and a node of dgx-a100 has 8 NICs" in note for note in run.notes)
    assert any("IB NDR 400G of ibstat.txt goes before the ports of dgx-a100" in note for note in run.notes)
    assert "fabric" not in import_run([ibstat], ANSWERS).data["cluster"]  # one node has no network
    ibstat.write_text(adapters(*[("Active", 200)] * 8))
    run = import_run([ibstat, hosts], ANSWERS)
    assert "fabric" not in run.data["cluster"]
    assert not any("ports of dgx-a100" in note for note in run.notes)


def test_ibstat_of_ethernet_and_of_several_hosts(tmp_path: Path) -> None:
    reading = read(tmp_path, adapters(("Active", 100), layer="Ethernet"), ".txt")
    assert reading.settings == {"cluster.fabric.link": "RoCEv2 100G"}
    assert read(tmp_path, adapters(("Active", 100), ("Active", 200)), ".txt").settings == {}
    with pytest.raises(ScenarioError, match="has mlx5_0 twice: it is of several hosts"):
        read(tmp_path, adapters(("Active", 100)) * 2, ".txt")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("trace.json", b'{"schemaVersion": 1, "traceEvents": []}', "is a trace of a profiler"),
        (
            "trace.json.gz",
            gzip.compress(b'{"traceEvents": []}', mtime=0),
            "simgpu check SCENARIO --trace trace.json.gz",
        ),
        ("topo.xml", b'<!-- a -->\n<system version="1">\n', "simgpu topology import topo.xml"),
        ("topo.txt", b"\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n", "nvidia-smi's matrix"),
        ("train.log", b"elapsed time per iteration (ms): 1383.4\n" * 3, "simgpu check SCENARIO --log train.log"),
        ("train.log.gz", gzip.compress(b"step time: 2.5 s\n" * 3, mtime=0), "simgpu check SCENARIO --log train.log.gz"),
    ],
)
def test_files_of_other_commands_are_refused_with_the_command(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        import_run([path], ANSWERS)
    assert told in str(caught.value)
    assert "no configuration of a run" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_ba", "run.toml:5: is broken TOML at its end"),
        ("[model]\nname = 'llama3'\nflavor =\n", "run.toml:3: is broken TOML in column 9"),
        ("[job]\nx = [1,\n", "run.toml:2: is broken TOML at its end"),
    ],
)
def test_broken_toml_says_so_and_where(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text, ".toml")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("up", "absent"),
    [(4, ["nic1", "nic3", "nic5", "nic7"]), (6, ["nic3", "nic7"]), (1, [f"nic{at}" for at in range(1, 8)]), (8, [])],
)
def test_nics_beyond_the_active_ports_have_no_links(tmp_path: Path, up: int, absent: list[str]) -> None:
    ibstat, hosts = tmp_path / "ibstat.txt", tmp_path / "hostfile"
    ibstat.write_text(adapters(*[("Active", 200)] * up))
    hosts.write_text("a slots=8\nb slots=8\n")
    run = import_run([ibstat, hosts], ANSWERS)
    links = run.data.get("perturb", {}).get("links", [])
    assert [entry["link"] for entry in links] == [f"node*/{name}<->*" for name in absent]
    cluster = load_scenario(run.data).cases[0].cluster
    assert len({cluster.nearest_nic(rank) for rank in range(16)}) == up
    assert "perturb" not in import_run([ibstat], ANSWERS).data  # one node has no network


def test_more_ports_than_nics_are_said(tmp_path: Path) -> None:
    ibstat, hosts = tmp_path / "ibstat.txt", tmp_path / "hostfile"
    ibstat.write_text(adapters(*[("Active", 200)] * 10))
    hosts.write_text("a slots=8\nb slots=8\n")
    run = import_run([ibstat, hosts], ANSWERS)
    assert "perturb" not in run.data
    assert any("10 active ports, and a node of dgx-a100 has 8 NICs, which are simulated" in note for note in run.notes)
