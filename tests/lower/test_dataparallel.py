"""torch.nn.DataParallel: what GPU 0 sends, gathers and holds; who issues what; what the others wait for."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.engine import play
from simgpu.errors import ScenarioError
from simgpu.fold import fold
from simgpu.lower.threads import Ledger
from simgpu.program import HOST, Collective, Compute, Issue
from simgpu.workload.host_costs import HostCosts
from tests.lower.tiny import ALL, TOKENS, program, roles, tiny

GPUS = 2
ONE = {"gradient_accumulation": 1}
LOGITS = 2 * TOKENS * 256  # of one GPU, in bf16
SLOW = {"host_issue_ns": 20_000}


def collectives(role):
    return [(item.name, item.kind, item.bytes) for item in role.streams["dp"] if isinstance(item, Collective)]


def test_a_step_scatters_broadcasts_gathers_scatters_and_reduces():
    lead, other = roles(data_parallel="dataparallel", training=ONE)
    assert collectives(lead) == collectives(other)
    assert collectives(lead) == [
        ("inputs to GPUs", "scatter", 8 * TOKENS * GPUS),
        ("weights to GPUs", "broadcast", 4 * ALL),  # 460 kB fit into one buffer
        ("outputs to GPU 0", "gather", LOGITS * GPUS),
        ("gradients of outputs", "scatter", LOGITS * GPUS),
        ("gradients to GPU 0", "reduce", 4 * ALL),
    ]


def test_weights_go_in_buffers_of_10_mib_and_large_ones_alone():
    (case,) = load_cases(
        {
            "name": "x",
            "model": "gpt2",
            "cluster": {"topology": "dgx-a100", "gpus": 2},
            "training": {"sequence_length": 64, "micro_batch_size": 1},
            "parallel": {"data_parallel": "dataparallel"},
        }
    )
    (report,) = (simulate(case),)
    sizes = Counter()
    for transfer in report.transfers:
        if transfer.rank == 0:
            sizes[transfer.kind] += transfer.count * transfer.bytes
    elements = 124_439_808
    assert sizes["broadcast"] == sizes["reduce"] == 4 * elements
    largest = max(t.bytes for t in report.transfers if t.kind == "broadcast")
    assert largest == 4 * 50257 * 768, "the embedding"
    others = [t.bytes for t in report.transfers if t.kind == "broadcast" and t.bytes != largest]
    assert max(others) <= 10 << 20


def test_the_loss_of_all_outputs_runs_on_gpu_0_alone():
    lead, other = roles(data_parallel="dataparallel", training=ONE)

    def loss(role):
        kernels = (k for item in role.streams["compute"] if isinstance(item, Compute) for k in item.kernels)
        return sum(kernel.bytes for kernel in kernels if kernel.name.startswith("loss."))

    (alone,) = roles(gpus=1, training=ONE)
    assert (loss(lead), loss(other)) == (GPUS * loss(alone), 0)


def test_gpu_0_alone_has_states_and_an_optimizer():
    lead, other = roles(data_parallel="dataparallel", training=ONE)
    assert {name: lead.resident_bytes[name] for name in ("weights", "gradients", "optimizer")} == {
        "weights": 4 * ALL,
        "gradients": 4 * ALL,
        "optimizer": 8 * ALL,
    }
    assert {"weights", "gradients", "optimizer"}.isdisjoint(other.resident_bytes)
    phases = [{item.phase for item in role.streams["compute"] if isinstance(item, Compute)} for role in (lead, other)]
    assert "optimizer" in phases[0]
    assert "optimizer" not in phases[1]


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_gpu_0_holds_the_outputs_of_all_more_with_every_gpu(gpus):
    report = simulate(tiny(model={"vocab": 4096}, gpus=gpus, data_parallel="dataparallel", training=ONE))
    lead, other = report.ranks
    assert (lead.members, other.members) == ((0,), tuple(range(1, gpus)))
    assert lead.memory_at_peak_bytes["gathered outputs"] == gpus * 3 * 2 * TOKENS * 4096, "and their fp32 softmax"
    assert other.memory_at_peak_bytes["replica weights"] == 4 * (ALL + 2 * (4096 - 256) * 64)
    assert lead.peak_memory_bytes > other.peak_memory_bytes


def issued(lead):
    return {name: [i for i in items if isinstance(i, Issue)] for name, items in lead.streams.items() if HOST in name}


def test_one_thread_at_a_time_runs_forwards_and_every_gpu_has_one_for_backward():
    lead, other = roles(data_parallel="dataparallel", training=ONE, software=SLOW)
    found = issued(lead)
    assert set(found) == {"host", "host 0", "host 1"}
    assert {issue.member for issue in found["host 0"]} == {0}
    assert {issue.member for issue in found["host 1"]} == {1}
    every = [issue for items in found.values() for issue in items]
    for member, role in enumerate((lead, other)):
        wanted = {
            (stream, index)
            for stream, items in role.streams.items()
            for index, item in enumerate(items)
            if isinstance(item, Compute | Collective)
        }
        assert {(i.stream, i.instruction) for i in every if i.member == member} == wanted, "each once, none left out"
    assert len(every) == len({(i.member, i.stream, i.instruction) for i in every})
    forward = [i.member for i in found["host"] if i.stream == "compute"][:8]
    assert forward == [0, 1] * 4 or forward == [0, 0, 1, 0, 1, 0, 1, 0], "turn by turn, after GPU 0's copies"


def test_forwards_cost_the_cpu_as_often_as_there_are_gpus():
    """A slow CPU: n forwards one after another; backwards at once. ddp's processes do not wait for each other."""

    def step_ns(gpus, kind):
        software = {"host_issue_ns": 200_000}
        return simulate(tiny(gpus=gpus, data_parallel=kind, training=ONE, software=software)).step_time_ns

    two, four, eight = (step_ns(gpus, "dataparallel") for gpus in (2, 4, 8))
    assert (eight - four) / (four - two) == pytest.approx(2, rel=0.05)
    assert step_ns(8, "ddp") < 1.1 * step_ns(2, "ddp")


def test_without_cpu_time_nothing_is_issued():
    lead, _ = roles(data_parallel="dataparallel", training=ONE)
    assert not any(issued(lead).values())


def test_microbatches_hand_out_again_and_add_up():
    lead, _ = roles(data_parallel="dataparallel", training={"gradient_accumulation": 3})
    counted = Counter(kind for _, kind, _ in collectives(lead))
    assert counted == {"scatter": 6, "broadcast": 3, "gather": 3, "reduce": 3}
    added = [item for item in lead.streams["compute"] if isinstance(item, Compute) and item.name == "add gradients"]
    assert [kernel.bytes for item in added for kernel in item.kernels] == [3 * 4 * ALL] * 2


@settings(max_examples=10)
@given(st.sampled_from([2, 3, 8]), st.integers(1, 2), st.sampled_from([0, 5_000, 50_000]))
def test_folded_and_unfolded_agree_and_the_accounting_adds_up(gpus, accumulation, issue_ns):
    case = tiny(
        gpus=gpus,
        data_parallel="dataparallel",
        training={"gradient_accumulation": accumulation},
        software={"host_issue_ns": issue_ns},
    )
    folded, whole = simulate(case), simulate(case, fold=False)
    assert folded.step_time_ns == whole.step_time_ns
    for rank in whole.ranks:
        assert sum(rank.breakdown_ns.values()) == whole.step_time_ns


def test_it_folds_to_two_ranks():
    assert [rank.members for rank in fold(program(gpus=8, data_parallel="dataparallel")).ranks] == [
        (0,),
        (1, 2, 3, 4, 5, 6, 7),
    ]


def test_one_gpu_is_no_dataparallel():
    alone, plain = (simulate(tiny(gpus=1, data_parallel=kind)) for kind in ("dataparallel", "none"))
    assert alone.step_time_ns == plain.step_time_ns


def test_a_ledger_lists_what_was_written():
    ledger = Ledger()
    event = ledger.transfer("dp", Collective(name="c", communicator="dp", kind="reduce", bytes=1), after=None)
    assert ledger.drain() == [("dp", 0, "")]
    assert ledger.drain() == []
    assert event == 1


def test_a_model_without_logits_is_handed_out_too():
    (case,) = load_cases(
        {
            "name": "x",
            "model": "resnet-18",
            "cluster": {"topology": "dgx-a100", "gpus": 4},
            "training": {"micro_batch_size": 8},
            "parallel": {"data_parallel": "dataparallel"},
        }
    )
    report = simulate(case)
    assert any(t.kind == "gather" and t.bytes == 4 * 8 * 1000 * 2 for t in report.transfers)
    blocked = replace(case, software=replace(case.software, host=HostCosts(cuda_graphs=True)))
    assert simulate(blocked).step_time_ns <= report.step_time_ns


@pytest.mark.parametrize(
    ("cluster", "parallel", "words"),
    [
        ({"nodes": 2, "gpus": 16}, {}, "is one process, which cannot use the GPUs of 2 nodes; fix: use ddp"),
        ({}, {"tp": 2}, "runs whole models, none that spans 2 GPUs"),
        ({}, {"pp": 2}, "runs whole models, none that spans 2 GPUs"),
    ],
)
def test_it_is_refused_where_pytorch_cannot_run_it(cluster, parallel, words):
    with pytest.raises(ScenarioError) as caught:
        load_cases(
            {
                "name": "x",
                "model": "gpt2",
                "cluster": {"topology": "dgx-a100", **cluster},
                "training": {"sequence_length": 64, "micro_batch_size": 1},
                "parallel": {"data_parallel": "dataparallel", **parallel},
            }
        )
    assert words in str(caught.value)


def test_the_timeline_is_steady():
    assert play(program(data_parallel="dataparallel")).steady
