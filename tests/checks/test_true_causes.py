"""simgpu check names the state that a run was in: a slow rank, longer sequences, another GPU, another batch."""

import json

import pytest

from simgpu.checks import check_traces, other_device
from simgpu.io.kineto_reader import read_kineto
from simgpu.metrics.kernel_class import is_communication
from simgpu.metrics.trace_report import report_traces
from tests.checks.test_check import BASE, changed, traced

FSDP = {"parallel": {"data_parallel": "fsdp"}, "training": {"micro_batch_size": 2}}


@pytest.mark.parametrize("factor", [1.15, 1.4, 2.0])
def test_a_slow_rank_comes_first_with_its_true_factor(simgpu, tmp_path, factor):
    """Under FSDP the others' kernels take longer too, beside collectives that spin for the slow rank."""
    _, report = traced(simgpu, tmp_path, perturb={"slow_ranks": {2: factor}}, **FSDP)
    check = check_traces(changed(**FSDP), report)
    assert check.differences
    for one in check.differences:
        first = one.explained[0]
        assert first.cause.name == "slow_rank"
        assert first.cause.case.perturbation.slow == {2: pytest.approx(factor, abs=0.02)}
        assert first.fit > 0.85
    best = check.differences[0].explained[0]
    assert best.share > 0.9
    assert best.cause.text.startswith("rank 2 computes")


def test_a_slow_rank_of_a_pipeline_whose_stages_differ(simgpu, tmp_path):
    uneven = {"parallel": {"pp": 2, "layers_per_stage": [3, 9]}, "training": {"gradient_accumulation": 4}}
    _, report = traced(simgpu, tmp_path, perturb={"slow_ranks": {0: 1.5}}, **uneven)
    check = check_traces(changed(**uneven), report)
    first = check.differences[0].explained[0]
    assert first.cause.name == "slow_rank"
    assert first.cause.case.perturbation.slow == {0: pytest.approx(1.5, abs=0.05)}


@pytest.mark.parametrize(("real", "name"), [(1024, "sequence_doubled"), (256, "sequence_halved")])
def test_sequences_of_another_length(simgpu, tmp_path, real, name):
    _, report = traced(simgpu, tmp_path, training={"sequence_length": real})
    check = check_traces(changed(training={"sequence_length": 512}), report)
    first = check.differences[0].explained[0]
    assert first.cause.name == name
    assert f"{real:,} tokens" in first.cause.text
    assert first.fit == pytest.approx(1.0, abs=0.02)


def test_sequences_longer_than_the_positions_are_no_cause(simgpu, tmp_path):
    _, report = traced(simgpu, tmp_path, training={"gradient_accumulation": 4})  # gpt2 has 1,024 positions
    check = check_traces(changed(), report)
    assert "sequence_doubled" not in [found.cause.name for one in check.differences for found in one.explained]


def test_traces_of_another_gpu(simgpu, tmp_path):
    folder, report = traced(simgpu, tmp_path, cluster={"topology": "dgx-h100", "gpus": 4})
    check = check_traces(changed(), report)
    told = "another GPU: the traces are of H100-SXM5-80GB, the scenario has A100-SXM4-80GB"
    assert check.differences
    assert all(one.hint.startswith(told) and one.explained == () for one in check.differences)
    (tmp_path / "plan.yaml").write_text(json.dumps(BASE))
    assert told in " ".join(simgpu("check", str(tmp_path / "plan.yaml"), "--trace", str(folder)).out.split())


def test_the_same_gpu_by_the_drivers_name(simgpu, tmp_path):
    folder, _ = traced(simgpu, tmp_path)
    traces = [read_kineto(path) for path in sorted(folder.iterdir())]
    assert {trace.device for trace in traces} == {"A100-SXM4-80GB"}
    assert other_device(changed(), report_traces(traces)) == ""


def test_a_cause_that_accounts_for_nothing_is_left_out(simgpu, tmp_path):
    (tmp_path / "plan.yaml").write_text(json.dumps(BASE))
    line = " iteration 7/ 500 | elapsed time per iteration (ms): 60000 | global batch size:   128 |\n"
    (tmp_path / "train.log").write_text(line * 5)
    shown = simgpu("check", "plan.yaml", "--log", "train.log").out
    assert "accounts for 0%" not in shown
    assert "wrong batch: the real run states a global batch size of 128, the scenario has 64" in shown
    assert "the step is then predicted at" in shown


def test_deepep_moves_tokens():
    assert is_communication("deep_ep::intranode::dispatch<8, 768>")
    assert is_communication("void deep_ep::internode_ll::combine<true, 7168>(void*)")
    assert not is_communication("void deep_gemm::sm90_fp8_gemm_1d2d_impl<...>")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("dur", None, "dur of 'gemm' is null"),
        ("dur", -5, "dur of 'gemm' is -5"),
        ("ts", "10", "ts of 'gemm' is \"10\""),
    ],
)
def test_events_without_a_time_are_told(simgpu, tmp_path, key, value, told):
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {"stream": 7}}
    bad = {**kernel, key: value}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [kernel, bad]}))
    warnings = read_kineto(tmp_path / "t.json").warnings
    assert (
        f"1 of the 2 events of the GPU have no time and are left out: {told}, not a number of microseconds" in warnings
    )
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [bad]}))
    outcome = simgpu("trace", str(tmp_path / "t.json"))
    assert outcome.code == 2
    assert told in outcome.err
    assert "there is no GPU event" not in outcome.err


@pytest.mark.parametrize(
    ("name", "told"), [("NVIDIA H100 80GB HBM3", True), ("NVIDIA A100-SXM4-80GB", False), ("", False)]
)
def test_collectives_measured_on_another_gpu(tmp_path, name, told):
    ranks = "".join(f"#  Rank  {rank} Group  0 Pid 7 on box device  {rank} [0x0{rank}] {name}\n" for rank in range(4))
    row = " 1048576  262144  float  sum  -1  20.0  52.4  52.4  0  21.0  49.9  49.9  0\n"
    (tmp_path / "all_reduce.log").write_text(f"# nThread 1 nGpus 4 minBytes 8 maxBytes 8\n{ranks}{row}")
    case = changed(network={"logs": [str(tmp_path / "all_reduce.log")]})
    note = f"all_reduce.log: was measured on {name}, and DGX A100 has A100-SXM4-80GB"
    assert (note in case.warnings) == told
    assert any("was measured on" in one for one in case.warnings) == told
