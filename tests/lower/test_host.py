"""What the CPU is made to issue, when, and where it waits."""

from itertools import pairwise

import pytest

from simgpu.api import play_case, simulate
from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.metrics.launches import launches
from simgpu.program import COMPUTE, HOST, Collective, Compute, Issue, Record, Wait
from simgpu.workload.families import model_units
from tests.lower.tiny import program, roles, tiny


def issues(role):
    return [item for item in role.streams[HOST] if isinstance(item, Issue)]


def issued(role):
    """Instructions in the order in which the CPU issues them."""
    return [role.streams[issue.stream][issue.instruction] for issue in issues(role)]


@pytest.mark.parametrize("data_parallel", ["ddp", "fsdp", "zero1"])
def test_everything_that_takes_time_is_issued_once_and_in_the_order_of_each_stream(data_parallel):
    (role,) = roles(data_parallel=data_parallel, software={"host_issue_ns": 7000})
    for stream, instructions in role.streams.items():
        if stream != HOST:
            wanted = [i for i, item in enumerate(instructions) if isinstance(item, Compute | Collective)]
            assert [issue.instruction for issue in issues(role) if issue.stream == stream] == wanted


def test_a_reduction_is_issued_between_the_backwards_that_its_hook_stands_between():
    """DDP: the hook of block 1's last gradient runs before block 0's backward is issued."""
    (role,) = roles(data_parallel="ddp", ddp={"bucket_cap_mb": 0.1}, software={"host_issue_ns": 7000})
    names = [item.name for item in issued(role)]
    first = names.index(next(name for name in names if name.startswith("reduce gradients")))
    assert "backward block 0" in names[first:], names


def test_backward_is_issued_by_autograd_and_the_rest_by_python():
    (role,) = roles(training={"recompute": "full"}, gpus=1, software={"host_issue_ns": "7 us"})
    preset = tiny(gpus=1, software={"host_issue_ns": 0, "preset": "eager"})
    assert {issue.op_ns for issue in issues(role)} == {7000}
    assert preset.software.host.free
    (case,) = load_cases({**BASE, "software": "flash"})
    (role,) = play_case(case).program.roles
    host = case.software.host
    costs = {item.phase: (issue.op_ns, issue.launch_ns) for issue, item in zip(issues(role), issued(role), strict=True)}
    assert costs == {
        "forward": (host.forward_op_ns, host.launch_ns),
        "backward": (host.backward_op_ns, host.launch_ns),
        "optimizer": (host.forward_op_ns, host.launch_ns),
    }
    assert host.launch_ns < host.forward_op_ns < host.backward_op_ns < host.collective_ns


BASE = {
    "name": "small",
    "model": {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 256},
    "cluster": {"topology": "dgx-a100", "gpus": 1},
    "training": {"sequence_length": 32, "micro_batch_size": 1, "global_batch_size": 2},
}


def test_a_free_cpu_and_a_synthetic_model_have_no_host_stream():
    (role,) = roles(gpus=1)
    assert HOST not in role.streams
    (case,) = load_cases(
        {
            "name": "stages",
            "model": {"stages": 1, "forward_ns": 1000, "backward_ns": 2000},
            "cluster": {"topology": "dgx-a100", "gpus": 1},
            "training": {"gradient_accumulation": 1, "micro_batch_size": 1},
        }
    )
    assert HOST not in play_case(case).program.roles[0].streams


def test_a_launch_bound_step_is_the_cpus_time_to_the_nanosecond():
    """Nothing but launches: at 1 ms each every kernel is over before the next one is there."""
    case = tiny(gpus=1, software={"host_issue_ns": "1 ms"})
    report = simulate(case)
    count = launches(report.timeline.program, 0)
    assert report.step_time_ns == count.cpu_ns
    work = sum(v for k, v in report.breakdown_ns.items() if k.startswith("compute."))
    free = simulate(tiny(gpus=1))
    assert work == free.step_time_ns
    assert report.breakdown_ns["host"] == count.cpu_ns - work
    assert "Launch-bound" in report.verdict
    assert f"to launch {count.kernels:,} kernels" in report.verdict


def test_cuda_graphs_issue_every_kernel_at_the_cost_of_a_node():
    case = tiny(gpus=1, software={"host_issue_ns": "1 ms", "cuda_graphs": True})
    (role,) = play_case(case).program.roles
    assert {(issue.op_ns, issue.launch_ns) for issue in issues(role)} == {(case.software.host.graph_node_ns,) * 2}


def test_launch_blocking_adds_every_launch_to_every_kernel():
    """CPU and GPU take turns: the step is the sum of both, whatever is longer."""
    for issue_ns in (100, 20_000):
        case = tiny(gpus=1, software={"host_issue_ns": issue_ns, "cuda_launch_blocking": True})
        report = simulate(case)
        (role,) = report.timeline.program.roles
        assert all(len(item.kernels) == 1 for item in role.streams[COMPUTE] if isinstance(item, Compute))
        work = simulate(tiny(gpus=1)).step_time_ns
        # of an op with several launches only the first is before the GPU's time: they run beside each other
        first = sum(issue.op_ns for issue in issues(role))
        assert report.step_time_ns >= work + first
        single = [item for item in issued(role) if item.kernels[0].launches == 1]
        if len(single) == len(issues(role)):
            assert report.step_time_ns == work + first


def test_launch_blocking_undoes_the_overlap_of_gradient_reductions():
    wanted = {"data_parallel": "ddp", "ddp": {"bucket_cap_mb": 0.1}}
    blocking = simulate(tiny(**wanted, software={"host_issue_ns": 1, "cuda_launch_blocking": True}))
    assert blocking.overlap_ratio == 0
    assert simulate(tiny(**wanted)).overlap_ratio > 0


def test_graphs_and_launch_blocking_exclude_each_other():
    with pytest.raises(ScenarioError, match=r"software.cuda_launch_blocking = true: waits for every kernel"):
        tiny(software={"cuda_graphs": True, "cuda_launch_blocking": True})


def waits_in_optimizer(role):
    """Whether the CPU waits for the GPU between the gradients' norm and the optimizer."""
    recorded = {
        item.event: (stream, index)
        for stream, items in role.streams.items()
        for index, item in enumerate(items)
        if isinstance(item, Record)
    }
    found = []
    for item, after in pairwise(role.streams[HOST]):
        if isinstance(item, Wait) and isinstance(after, Issue):
            stream, _ = recorded[item.event]
            work = role.streams[after.stream][after.instruction]
            found.append((stream, work.name))
    return (COMPUTE, "optimizer") in found


@pytest.mark.parametrize(
    ("wanted", "reads"),
    [
        ({"data_parallel": "ddp"}, False),
        ({"data_parallel": "fsdp"}, False),
        ({"data_parallel": "ddp", "training": {"precision": "fp16"}}, True),
        ({"data_parallel": "zero1"}, True),
        ({"data_parallel": "zero3"}, True),
        ({"tp": 2}, True),
        ({"gpus": 4, "tp": 2, "data_parallel": "fsdp"}, False),
    ],
)
def test_the_cpu_reads_the_norm_where_the_framework_does(wanted, reads):
    role = roles(**wanted, software={"host_issue_ns": 7000})[0]
    assert waits_in_optimizer(role) == reads


def test_blocking_messages_hold_the_cpu_and_overlapped_ones_do_not():
    for overlap in (False, True):
        role = program(gpus=2, pp=2, overlap_p2p=overlap, software={"host_issue_ns": 7000}).roles[0]
        waits = [item for item in role.streams[HOST] if isinstance(item, Wait)]
        assert len(waits) == (1 if overlap else 1 + 3), "the norm, and three batches: F0 leaves; F1, B0; B1 arrives"


GPT2 = {
    "name": "gpt2",
    "model": "gpt2",
    "cluster": {"topology": "dgx-h100", "gpus": 1},
    "training": {"sequence_length": 128, "micro_batch_size": 1, "global_batch_size": 1},
}


def test_gpt2_one_sequence_at_a_time_is_launch_bound_in_eager_mode_and_not_with_cuda_graphs():
    eager, graphs, batch = (
        simulate(*load_cases({**GPT2, **change}))
        for change in (
            {"software": "eager"},
            {"software": {"preset": "eager", "cuda_graphs": True}},
            {"software": "eager", "training": {**GPT2["training"], "micro_batch_size": 64, "global_batch_size": 64}},
        )
    )
    assert eager.breakdown_ns["host"] > 0.2 * eager.step_time_ns
    assert "Launch-bound: the CPU needs" in eager.verdict
    assert "software.cuda_graphs: true gives" in eager.verdict
    assert "training.micro_batch_size: 2 gives" in eager.verdict
    gain = graphs.tokens_per_s / eager.tokens_per_s
    assert f"software.cuda_graphs: true gives {gain:.2f}× the tokens/s" in eager.verdict
    for other in (graphs, batch):
        assert other.breakdown_ns["host"] < 0.05 * other.step_time_ns
        assert "Launch-bound" not in other.verdict


@pytest.mark.parametrize(
    "parallel",
    [{"data_parallel": "fsdp"}, {"tp": 4, "pp": 2}, {"tp": 2, "data_parallel": "zero1"}],
)
def test_large_models_feel_little_of_the_cpu(parallel):
    """PHYSICS section 0, row 9: 0.3-0.8 % for large models."""
    scenario = {
        "name": "large",
        "model": "llama-2-7b",
        "cluster": {"topology": "dgx-a100"},
        "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 32},
        "parallel": parallel,
    }
    held, free = (
        simulate(*load_cases({**scenario, "software": software})).step_time_ns
        for software in ("flash", {"host_issue_ns": 0})
    )
    assert 1 <= held / free < 1.008


def test_every_gradient_that_ddp_flattens_is_issued_by_its_hook():
    """One mul_out kernel under every AccumulateGrad, as DDP's profiler traces have it."""
    (role,) = roles(data_parallel="ddp", software={"host_issue_ns": 7000})
    copies = [item for item in role.streams[COMPUTE] if isinstance(item, Compute) and item.name == "flatten gradients"]
    case = tiny(data_parallel="ddp")
    tensors = sum(len(unit.parameters) for unit in model_units(case.model, case.training).units)
    assert sum(len(item.kernels) for item in copies) == tensors


def test_hooks_of_zero3_keep_python_busy_around_every_module():
    """Four ops' worth for each module that gathers its own weights, in forward and in backward; graphs run none."""

    def hooks(**software):
        (role,) = roles(data_parallel="zero3", zero={"stage3_param_persistence_threshold": 0}, software=software)
        named = {(i.stream, i.instruction): i for i in issues(role)}
        return [
            named[COMPUTE, index].op_ns
            for index, item in enumerate(role.streams[COMPUTE])
            if isinstance(item, Compute) and item.name == "module hooks"
        ]

    found = hooks(host_issue_ns=7000)
    assert found
    assert all(time % (4 * 7000) == 0 for time in found)
    assert hooks(cuda_graphs=True, host_issue_ns=7000) == []
