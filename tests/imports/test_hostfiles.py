"""Hostfiles, of DeepSpeed's launcher and of MPI, are read by one pattern, whoever names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.host_list import read_host_list, read_hostfile
from tests.imports.lines import at, line

START = "deepspeed --hostfile hosts %s train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --deepspeed z.json"
ZERO = '{"zero_optimization": {"stage": 1}}'

FORMS = {
    "DeepSpeed": "node1 slots=8\nnode2 slots=8\n",
    "comments and blanks": "# both\n\nnode1   slots = 8  # one\n\tnode2 slots=8",
    "Open MPI": "node1 slots=8 max_slots=16\nnode2 slots=8\n",
    "MPICH": "node1:8\nnode2:8\n",
    "addresses": "10.0.0.1 slots=8\nfe80::1 slots=8\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_forms(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    assert list(read_hostfile(path).values()) == [8, 8]
    reading = read_host_list(path)
    assert (reading.gpus, reading.settings["cluster.nodes"]) == (16, 2)
    run = line(tmp_path, START % "", {"hosts": text, "z.json": ZERO})
    assert at(run, "cluster.gpus", "cluster.nodes") == [16, 2]


def test_a_filter_of_them(tmp_path: Path) -> None:
    files = {"hosts": FORMS["Open MPI"], "z.json": ZERO}
    run = line(tmp_path, START % "--include node1@node2:0,1", files)
    assert at(run, "cluster.gpus", "cluster.nodes") == [10, 2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node1 slots=8\nnode2\n", "'node2' is no host with its GPUs"),
        ("node1 slots=8\nnode1 slots=4\n", "lists node1 twice"),
    ],
)
def test_what_deepspeed_refuses(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        line(tmp_path, START % "", {"hosts": text, "z.json": ZERO})


@pytest.mark.parametrize(
    ("options", "hosts", "gpus", "nodes"),
    [
        ("-np 16", "a slots=4\nb slots=4\nc slots=4\nd slots=4\ne slots=4\n", 16, 4),
        ("-np 8 --machinefile hosts", "a slots=8\nb slots=8\n", 8, None),
        ("", "a slots=8\nb slots=8\n", 16, 2),
        ("-np 16", "a\nb\n", 16, 2),  # the slots are then those of the topology
        ("-np 16 -N 8", "a slots=16\nb slots=16\n", 16, 2),
    ],
)
def test_mpi_fills_its_hosts_in_order(tmp_path: Path, options: str, hosts: str, gpus: int, nodes: int | None) -> None:
    text = (
        f"mpirun {options} --hostfile hosts python train.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
    )
    run = line(tmp_path, text, {"hosts": hosts})
    assert at(run, "cluster.gpus", "cluster.nodes") == [gpus, nodes]


def test_hosts_that_are_not_alike(tmp_path: Path) -> None:
    """As many on each are simulated, and said; where that is no whole number, nothing is."""
    run = line(tmp_path, START % "", {"hosts": "a slots=6\nb slots=2\n", "z.json": ZERO})
    assert at(run, "cluster.gpus", "cluster.nodes") == [8, 2]
    assert any("6, 2 on its nodes; 4 on each are simulated" in note for note in run.notes)
    with pytest.raises(ScenarioError, match=r"run.sh: gpus: are 7 on 2 nodes \(5, 2\), and nodes of one size"):
        line(tmp_path, START % "", {"hosts": "a slots=5\nb slots=2\n", "z.json": ZERO})
