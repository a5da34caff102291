"""What broke other simulators and trace tools, or made them answer wrongly, tried on this one: a row for each report.

The rows are those of section I of the list of cases, numbered as there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from simgpu.api import collective, simulate
from simgpu.checks import check_traces
from simgpu.config import load_cases
from simgpu.engine.play import play
from simgpu.errors import DeadlockError
from simgpu.io.kineto_reader import read_kineto
from simgpu.io.schedule_csv import read_schedule_csv
from simgpu.metrics.trace_report import TraceReport, report_traces
from simgpu.parallel.schedule_check import check_schedule
from simgpu.program import Record, Wait
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.training import Training
from tests.programs import program, recv, role, send

SCENARIO: dict[str, Any] = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 1024, "micro_batch_size": 8, "gradient_accumulation": 2},
    "parallel": {"data_parallel": "ddp"},
}
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a row may use: the command line, and a folder of its own."""

    simgpu: Callable[..., Any]
    folder: Path

    def refused(self, *words: object) -> str:
        """Run a command that is refused: exit code 2, a message, nothing printed and nothing written."""
        before = {path.name for path in self.folder.iterdir()}
        outcome = self.simgpu(*words)
        assert outcome.code == 2, outcome
        assert "Traceback" not in outcome.err
        assert {path.name for path in self.folder.iterdir()} == before
        return str(outcome.err)

    def written(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def trace(self, events: list[Any], name: str = "t.json", **header: Any) -> TraceReport:
        return report_traces([read_kineto(self.written(name, {**header, "traceEvents": events}))])


def case(**blocks: Any) -> Any:
    merged = {key: {**SCENARIO.get(key, {}), **block} for key, block in blocks.items() if isinstance(block, dict)}
    (found,) = load_cases({**SCENARIO, **blocks, **merged})
    return found


def kernel(name: str, start_us: int, end_us: int, **more: Any) -> dict[str, Any]:
    ids = {"stream": more.pop("stream", 7), "correlation": more.pop("correlation", 1), **more.pop("args", {})}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start_us, "dur": end_us - start_us, "args": ids, **more}


def launch(start_us: int, correlation: int) -> dict[str, Any]:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start_us, "dur": 1}
    return {**call, "args": {"correlation": correlation}}


def breakdown(report: TraceReport) -> dict[str, int]:
    (step,) = report.ranks[0].steps
    return {name: value // 1000 for name, value in step.breakdown_ns.items() if value}


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


def older_traces(tried: Tried) -> None:
    old = [
        {**kernel("gemm", 0, 10, correlation=1), "cat": "Kernel"},
        {**kernel(REDUCE, 10, 30, stream=20, correlation=2), "cat": "Kernel"},
        {**launch(-4, 1), "cat": "Runtime"},
    ]
    new = [kernel("gemm", 0, 10, correlation=1), kernel(REDUCE, 10, 30, stream=20, correlation=2), launch(-4, 1)]
    assert breakdown(tried.trace(old)) == breakdown(tried.trace(new)) == {"compute.gemm": 10, "exposed+wait": 20}


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


def cpu_only_traces(tried: Tried) -> None:
    path = tried.written(
        "t.json", {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 5}]}
    )
    text = tried.refused("trace", path)
    assert "there is no GPU event in it (CPU only, or the profiler ran without CUDA activities)" in text


def types_from_kernels(tried: Tried) -> None:
    host = {"ph": "X", "cat": "cpu_op", "name": "nccl:broadcast", "ts": 0, "dur": 1, "args": {}}
    report = tried.trace([host, kernel(REDUCE, 0, 20, stream=20), kernel("gemm", 5, 15, correlation=2)])
    assert breakdown(report) == {"compute.gemm": 10, "exposed+wait": 10}, "streams without an event have no order"
    (moved,) = [event for event in report.ranks[0].trace.events if event.kind == "collective"]
    assert "AllReduce" in moved.name


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


def traces_without_a_rank(tried: Tried) -> None:
    report = tried.trace([kernel("gemm", 0, 10), launch(0, 1)])
    assert breakdown(report) == {"compute.gemm": 10}
    assert "there is no distributedInfo with a rank" in report.ranks[0].trace.warnings
    some = tried.folder / "some"
    some.mkdir()
    ranks = {"compute.gemm": 10}
    for rank in (0, 2):  # 1 and 3 are missing
        info = {"distributedInfo": {"rank": rank, "world_size": 4}}
        (some / f"{rank}.json").write_text(json.dumps({**info, "traceEvents": [kernel("gemm", 0, 10), launch(0, 1)]}))
    found = report_traces([read_kineto(some / f"{rank}.json") for rank in (0, 2)])
    assert [breakdown(replace(found, ranks=(rank,))) for rank in found.ranks] == [ranks, ranks]
    assert check_traces(case(), found).measured_ns == 10_000


def names_of_nccl(tried: Tried) -> None:
    names = (
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", REDUCE, "ncclDevKernel_SendRecv(ncclDevComm*)",
        "ncclKernel_AllGather_RING_SIMPLE_Sum_int8_t", "rcclGenericKernel_6_1",
        "ncclDevKernel_Generic_4(ncclDevKernelArgs)",
    )  # fmt: skip
    for name in names:
        assert breakdown(tried.trace([kernel(name, 0, 10, stream=20), launch(0, 1)])) == {"exposed+wait": 10}, name


def what_is_no_kernel(tried: Tried) -> None:
    others = [
        {**kernel("Context Sync", 0, 100), "cat": "cuda_sync"},
        {**kernel("ProfilerStep#1", 0, 100), "cat": "gpu_user_annotation"},
    ]
    report = tried.trace(
        [*others, kernel("gemm", 0, 10), kernel(REDUCE, 10, 30, stream=20, correlation=2), launch(-1, 1)]
    )
    assert breakdown(report) == {"compute.gemm": 10, "exposed+wait": 20}


def cut_traces(tried: Tried) -> None:
    whole = json.dumps({"traceEvents": [kernel("gemm", 10 * at, 10 * at + 10, correlation=at) for at in range(100)]})
    path = tried.written("cut.json", whole[: len(whole) * 2 // 3])
    found = read_kineto(path)
    assert 50 < len(found.events) < 100
    assert any(text.startswith("truncated: the file ends") for text in found.warnings)
    outcome = tried.simgpu("trace", path)
    assert outcome.code == 0
    assert "truncated" in outcome.out


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


def streams_of_two_gpus(tried: Tried) -> None:
    both = [
        kernel("gemm", 0, 10, args={"device": 0}, pid=0, tid=7),
        kernel("gemm", 10, 20, correlation=2, args={"device": 0}, pid=0, tid=7),
        kernel("gemm", 5, 95, correlation=3, args={"device": 1}, pid=1, tid=7),
    ]
    report = tried.trace(both)
    assert breakdown(report) == {"compute.gemm": 20}
    assert any("those of GPU 1 are left out" in text for text in report.ranks[0].trace.warnings)


ROWS: dict[int, tuple[str, Callable[[Tried], None]]] = {
    103: ("astra-sim/astra-sim#215: 0 cycles", empty_workloads),
    104: ("astra-sim/astra-sim#172; astra-sim/stage#18: hangs", deadlocks),
    105: ("astra-sim/astra-sim#318: 32 traces, 1 npu", more_ranks_than_the_scenario),
    106: ("astra-sim/astra-sim#207: the same whatever the topology", bandwidth_that_counts),
    107: ("astra-sim/astra-sim#222: runs for days", as_many_events_for_thousands),
    108: ("astra-sim/astra-sim#299: a topology without a switch", switchless_cubes),
    109: ("astra-sim/astra-sim#338: a dependency that is not in the file", dangling_dependencies),
    110: ("astra-sim/astra-sim#224: older traces", older_traces),
    111: ("mlcommons/chakra#134, #189: cyclic dependencies", shortest_cycles),
    112: ("mlcommons/chakra#45: parents that are not in the file", orphans),
    113: ("mlcommons/chakra#197: only cpu_op events", cpu_only_traces),
    114: ("mlcommons/chakra#49: types from the host op, false order of streams", types_from_kernels),
    115: ("aliyun/SimAI#34: 128 GPUs and a workload of 8", wrong_products),
    116: ("aliyun/SimAI#47, #186, #214: no output folder", unwritable_outputs),
    117: ("aliyun/SimAI#140, #264: hangs, empty output", small_worlds),
    118: ("aliyun/SimAI#138: no NVLink", servers_without_nvlink),
    119: ("aliyun/SimAI#208: 32 and 64 GPUs are the same", more_gpus_that_count),
    120: ("aliyun/SimAI#119, #59: failures", features_that_are_not_there),
    121: ("facebookresearch/HolisticTraceAnalysis#56, #107, #233: no rank", traces_without_a_rank),
    122: ("facebookresearch/HolisticTraceAnalysis#109, #148: names of NCCL's kernels", names_of_nccl),
    123: ("facebookresearch/HolisticTraceAnalysis#162, #241: synchronisation as compute", what_is_no_kernel),
    124: ("a public profiling note: 6 of 8 files cut off", cut_traces),
    125: ("cli99/llm-analysis#12: a flag without effect", flags_without_effect),
    126: ("cli99/llm-analysis#19: norms divided by tp", norms_on_every_tensor_rank),
    127: ("cli99/llm-analysis#27: tensor groups between nodes", tensor_groups_between_nodes),
    128: ("JF-D/Proteus#3: errors of a factor of ten", errors_per_configuration),
    129: ("IBM/aiu-trace-analyzer#84: thread numbers of two streams", streams_of_two_gpus),
}


def test_every_row_is_tried() -> None:
    assert list(ROWS) == list(range(103, 130))


@pytest.mark.parametrize(
    "check", [check for _, check in ROWS.values()], ids=[f"{n}: {what}" for n, (what, _) in ROWS.items()]
)
def test_row(check: Callable[[Tried], None], simgpu: Callable[..., Any], tmp_path: Path) -> None:
    check(Tried(simgpu=simgpu, folder=tmp_path))
