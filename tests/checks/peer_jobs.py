"""What broke other simulators, or made them answer wrongly, tried on this one."""

from __future__ import annotations

from typing import Any

import pytest

from simgpu.api import collective, simulate
from simgpu.engine.play import play
from simgpu.errors import DeadlockError
from simgpu.io.schedule_csv import read_schedule_csv
from simgpu.parallel.schedule_check import check_schedule
from simgpu.program import Record, Wait
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.training import Training
from tests.checks.trace_events import breakdown, kernel, launch
from tests.checks.tried import SCENARIO, Tried, case
from tests.programs import program, recv, role, send


def empty_workloads(tried: Tried) -> None:
    assert "is empty; allowed: a mapping of fields" in tried.refused("run", tried.written("e.yaml", ""))
    assert "model" in tried.refused("run", tried.written("e.yaml", {"cluster": SCENARIO["cluster"]}))
    nothing = {**SCENARIO, "training": {**SCENARIO["training"], "micro_batch_size": 0}}
    assert "is below 1; allowed: a whole number from 1" in tried.refused("run", tried.written("e.yaml", nothing))
    assert "has no traceEvents" in tried.refused("trace", tried.written("t.json", "{}"))
    assert "nothing in these traces ran on a GPU" in tried.refused(
        "trace", tried.written("t.json", {"traceEvents": []})
    )
    assert "is empty" in tried.refused("import", tried.written("ds.json", ""), "--out", "x.yaml")


def stuck_pair(*bystanders: Any) -> Any:
    """Two ranks that each wait for the other's message before they send theirs, and others that wait for them."""
    pair = [
        role(
            {"compute": [Wait(1)], "pp recv": [recv(1 - own, 8), Record(1)], "pp send": [Wait(1), send(1 - own, 8)]},
            stage=own,
        )
        for own in (0, 1)
    ]
    roles = [*pair, *bystanders]
    return program(roles, list(range(len(roles))), [("pp", tuple(range(len(roles))))], {})


def deadlocks(tried: Tried) -> None:
    with pytest.raises(DeadlockError) as caught:
        play(stuck_pair())
    assert "rank 0, stream pp recv waits for message x of 8 bytes with rank 1, stream pp send" in str(caught.value)
    assert "rank 1, stream pp send waits for its own stream pp recv" in str(caught.value)
    text = tried.refused("schedule", tried.written("s.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"))
    assert "1F1 waits for ever for the forward of stage 0, microbatch 1, on rank 0, which waits itself" in text


def more_ranks_than_the_scenario(tried: Tried) -> None:
    path = tried.written("s.yaml", SCENARIO)
    assert tried.simgpu("export", path, "--format", "kineto", "--all-ranks", "--out", "traces").code == 0
    outcome = tried.simgpu("check", path, "--set", "cluster.gpus=2", "--trace", "traces")
    assert "the traces are of 4 ranks, the scenario has 2 GPUs" in outcome.out
    text = tried.refused("run", path, "--set", "cluster.gpus=16")
    assert "cluster.gpus = 16" in text
    assert "allowed: 1 to 8" in text


def bandwidth_that_counts(tried: Tried) -> None:
    def bus_time(topology: str) -> float:
        (row,) = collective("all_reduce", topology=topology, gpus=2, sizes=[1 << 30]).rows
        return float(row.time_ns)

    assert bus_time("4x-rtx4090-pcie") > 8 * bus_time("dgx-h100")
    slow = simulate(case(perturb={"links": [{"link": "node0/gpu*->*", "share": 0.1}]}))
    assert slow.step_time_ns > simulate(case()).step_time_ns


def as_many_events_for_thousands(tried: Tried) -> None:
    few, many = (
        simulate(case(cluster={"topology": "dgx-a100", "nodes": nodes, "gpus": 8 * nodes})) for nodes in (2, 128)
    )
    assert len(few.ranks) == len(many.ranks) == 1, "equal ranks are played once, however many they are"
    assert many.ranks[0].count == 1024
    assert len(few.ranks[0].bars) == len(many.ranks[0].bars)


def switchless_cubes(tried: Tried) -> None:
    (row,) = collective("all_reduce", topology="dgx-1v", gpus=8, sizes=[1 << 28]).rows
    assert row.time_ns > 0
    far = case(
        cluster={"topology": "dgx-1v", "gpus": 8}, parallel={"data_parallel": "none", "pp": 4, "tp": 2},
        training={"precision": "fp16"},
    )  # fmt: skip
    assert simulate(far).step_time_ns > 0, "stages without a common NVLink hand on over another GPU or the host"


def dangling_dependencies(tried: Tried) -> None:
    report = tried.trace([kernel("gemm", 0, 10, correlation=99), launch(0, 1)])
    assert breakdown(report) == {"compute.gemm": 10}
    assert any("launches are missing" in text for text in report.ranks[0].trace.warnings)
    faults = check_schedule(read_schedule_csv(tried.written("s.csv", "0F0,0B0\n1B0,\n")))
    assert any("1B0" in str(fault) for fault in faults)


def shortest_cycles(tried: Tried) -> None:
    late = [role({"pp recv": [recv(0, 8, "late")]}, stage=own) for own in (2, 3)]
    with pytest.raises(DeadlockError) as caught:
        play(stuck_pair(*late))
    text = str(caught.value)
    assert "rank 0, stream pp recv waits for message x" in text
    assert "message late" not in text, "who only waits for the cycle is no part of it"


def orphans(tried: Tried) -> None:
    events = [kernel("gemm", 10 * at, 10 * at + 5, correlation=1000 + at) for at in range(8)]
    assert breakdown(tried.trace(events)) == {"compute.gemm": 40, "unattributed": 35}


def wrong_products(tried: Tried) -> None:
    path = tried.written("s.yaml", SCENARIO)
    text = tried.refused("run", path, "--set", "parallel.tp=3")
    assert "parallel.tp = 3" in text
    text = tried.refused("run", path, "--set", "parallel.dp=128")
    assert "128" in text
    assert "is not the 4 GPUs of the cluster" in text
    assert case(cluster={"gpus": 3}).cluster.world_size == 3, "a part of a node is asked for by its number"


def unwritable_outputs(tried: Tried) -> None:
    path = tried.written("s.yaml", SCENARIO)
    tried.written("file", "x")
    for words in (
        ("run", path, "--no-html", "--json", "absent/r.json"),
        ("run", path, "--html", "absent/r.html"),
        ("run", path, "--html", "file/r.html"),
        ("sweep", tried.written("grid.yaml", {**SCENARIO, "sweep": {"training.micro_batch_size": [4, 8]}}), "--html",
         "absent/r.html"),
        ("export", path, "--format", "kineto", "--out", "file/traces"),
        ("import", tried.written("ds.json", {"train_batch_size": 8}), "--model", "gpt2", "--topology", "dgx-a100",
         "--out", "absent/s.yaml"),
    ):  # fmt: skip
        text = tried.refused(*words)
        assert "absent" in text or "file" in text, text


def small_worlds(tried: Tried) -> None:
    big = case(
        model="llama-2-13b", cluster={"topology": "dgx-a100", "gpus": 16, "nodes": 2},
        training={"recompute": "full"}, parallel={"tp": 2, "data_parallel": "fsdp"},
    )  # fmt: skip
    report = simulate(big)
    assert report.step_time_ns > 0
    assert sum(report.breakdown_ns.values()) == pytest.approx(report.step_time_ns, rel=1e-9)


def servers_without_nvlink(tried: Tried) -> None:
    for topology in ("4x-rtx4090-pcie", "8x-l40s"):
        assert simulate(case(cluster={"topology": topology, "gpus": 4})).step_time_ns > 0


def more_gpus_that_count(tried: Tried) -> None:
    def step(gpus: int) -> Any:
        return simulate(case(cluster={"topology": "8x-a100-100gbe", "gpus": gpus, "nodes": gpus // 8}))

    few, many = step(32), step(64)
    assert few.step_time_ns != many.step_time_ns
    assert few.tokens_per_s < many.tokens_per_s < 2 * few.tokens_per_s


def features_that_are_not_there(tried: Tried) -> None:
    path = tried.written("s.yaml", SCENARIO)
    text = tried.refused("run", path, "--set", "perturb.node_failure=0.01")
    assert "perturb.node_failure" in text
    assert "is not a field of SimGPU; allowed: seed, jitter, slow_ranks, links" in text


def flags_without_effect(tried: Tried) -> None:
    path = tried.written("s.yaml", SCENARIO)
    outcome = tried.simgpu("run", path, "--no-html", "--set", "parallel.sequence_parallel=true")
    assert "parallel.sequence_parallel has no effect: parallel.tp is 1" in outcome.out + outcome.err
    assert "zero.overlap_comm" in tried.refused("run", path, "--set", "zero.overlap_comm=true")
    plain = simulate(case())
    for changes in (
        {"training": {"recompute": "full"}}, {"training": {"precision": "fp32"}}, {"ddp": {"bucket_cap_mb": 400}},
        {"training": {"micro_batch_size": 4}}, {"training": {"optimizer": "sgd"}}, {"software": "eager"},
        {"network": {"nccl": {"p2p_disable": True}}}, {"parallel": {"tp": 2}}, {"parallel": {"data_parallel": "zero1"}},
    ):  # fmt: skip
        other = simulate(case(**changes))
        assert (other.step_time_ns, other.peak_memory_bytes) != (plain.step_time_ns, plain.peak_memory_bytes), changes


def norms_on_every_tensor_rank(tried: Tried) -> None:
    training = Training(sequence_length=128, micro_batch_size=1, accumulation=1)
    whole, half = (model_units(bundled_model("llama-2-7b"), training, tp=tp).layers[0].units[0] for tp in (1, 2))
    norms = [[p.elements for p in unit.parameters if p.vector] for unit in (whole, half)]
    assert norms == [[4096, 4096]] * 2, "two norms a layer, whole on every rank"
    assert all(p.replicated for p in half.parameters if p.vector)


def tensor_groups_between_nodes(tried: Tried) -> None:
    def step(gpus_of_a_node: int) -> float:
        nodes = 8 // gpus_of_a_node
        spread = {"topology": "dgx-a100", "nodes": nodes, "gpus": 8}
        return float(simulate(case(cluster=spread, parallel={"data_parallel": "none", "tp": 4, "pp": 2})).step_time_ns)

    inside = step(8)
    across = float(simulate(case(cluster={"topology": "dgx-a100", "nodes": 2, "gpus": 4},
                                 parallel={"data_parallel": "none", "tp": 4})).step_time_ns)  # fmt: skip
    within = float(simulate(case(parallel={"data_parallel": "none", "tp": 4})).step_time_ns)
    assert across > 1.2 * within
    assert inside > 0


def errors_per_configuration(tried: Tried) -> None:
    accumulated = {"parallel.tp": 2, "training.gradient_accumulation": 4}
    variants = [
        {"name": "ddp", "measured": {"step_time_s": 0.1}},
        {"name": "tp", "set": accumulated, "measured": {"step_time_s": 0.2}},
    ]
    path = tried.written("s.yaml", {**SCENARIO, "variants": variants})
    outcome = tried.simgpu("validate", path, "--no-html", "--json", "errors.json")
    assert outcome.code == 0, outcome.err
    for words in ("measured", "predicted", "error", "ddp", "tp", "mean error"):
        assert words in outcome.out, "every configuration has its own error, virtual stages and all"
