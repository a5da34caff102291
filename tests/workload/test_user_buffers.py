"""Overlapped tensor parallelism: the same work and bytes in chunks."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import layout_issues, model_units
from simgpu.workload.lora import Lora
from simgpu.workload.op import Gemm
from simgpu.workload.splits import Splits
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange, Join

TP, LENGTH, HIDDEN = 4, 256, 4096
STREAM = 2 * LENGTH * HIDDEN


def block(overlap, **training):
    recipe = Training(**({"sequence_length": LENGTH, "micro_batch_size": 1, "accumulation": 1} | training))
    splits = Splits(tp_overlap=overlap)
    units = model_units(bundled_model("llama-2-7b"), recipe, tp=TP, sequence_parallel=True, splits=splits)
    return units.layers[0].units[0]


def sent(items):
    found = {}
    for item in items:
        if isinstance(item, Exchange):
            found.setdefault(item.kind, []).append(item.bytes)
    return found


def test_forward_gathers_by_sends_and_scatters_by_quarters():
    assert sent(block(True).forward) == {
        "copy_ring": [STREAM // TP] * 2 * (TP - 1),
        "reduce_scatter": [STREAM // 4] * 2 * 4,
    }
    assert sent(block(False).forward) == {"all_gather": [STREAM] * 2, "reduce_scatter": [STREAM] * 2}


def test_backward_gathers_output_gradients_by_sends_and_keeps_the_bulk_exchanges():
    assert sent(block(True).backward) == {
        "copy_ring": [STREAM // TP] * 2 * (TP - 1),
        "all_gather": [STREAM] * 2,
        "reduce_scatter": [STREAM] * 2,
    }
    assert sent(block(False).backward) == {"all_gather": [STREAM] * 4, "reduce_scatter": [STREAM] * 2}


@pytest.mark.parametrize("items", ["forward", "backward"])
@pytest.mark.parametrize("fp8", [False, True])
def test_the_work_is_the_same(items, fp8):
    flops = [
        sum(item.flops for item in getattr(block(overlap, fp8=fp8), items) if isinstance(item, Gemm))
        for overlap in (True, False)
    ]
    assert flops[0] == flops[1]


def test_every_chunk_is_waited_for_once():
    unit = block(True)
    for items in (unit.forward, unit.backward):
        started = [item.tag for item in items if isinstance(item, Exchange)]
        assert sorted(started) == sorted(item.tag for item in items if isinstance(item, Join))
        assert len(set(started)) == len(started)


def test_what_is_kept_is_the_same():
    assert block(True).saved_bytes == block(False).saved_bytes


def case_of(topology="dgx-h100", **parallel):
    (case,) = load_cases(
        {
            "name": "o",
            "model": "llama-2-70b",
            "cluster": {"topology": topology, "nodes": 1},
            "training": {"sequence_length": 4096, "micro_batch_size": 1, "gradient_accumulation": 2},
            "parallel": {"tp": 8, "sequence_parallel": True, **parallel},
        }
    )
    return case


def test_overlap_hides_most_of_the_exchanges_and_slows_the_products():
    """Megatron-LM's weak scaling on H100 is met with 60 % of the tensor-parallel time hidden."""
    plain, overlapped = (simulate(case_of(tp_overlap=overlap)) for overlap in (False, True))
    assert overlapped.step_time_ns < plain.step_time_ns
    assert overlapped.breakdown_ns["exposed.tp"] < 0.5 * plain.breakdown_ns["exposed.tp"]
    assert overlapped.breakdown_ns["compute.gemm"] > plain.breakdown_ns["compute.gemm"]


def test_it_needs_sequence_parallelism_and_no_adapters():
    with pytest.raises(ScenarioError, match="needs sequence parallelism"):
        case_of(tp_overlap=True, sequence_parallel=False)
    training = Training(sequence_length=64, micro_batch_size=1, accumulation=1, lora=Lora(rank=4))
    model, splits = bundled_model("llama-2-7b"), Splits(tp_overlap=True)
    (issue,) = layout_issues(model, training, tp=2, sequence_parallel=True, splits=splits)
    assert "LoRA" in issue.problem


def test_one_rank_has_nothing_to_overlap():
    assert case_of(tp=1, sequence_parallel=False, tp_overlap=True, data_parallel="fsdp").strategy.tp == 1
