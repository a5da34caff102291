"""Data parallelism inside a node and across nodes, beyond what the table of cases holds."""

from pathlib import Path

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases

HERE = Path(__file__).parent

GPT2_LARGE = {
    "layers": 36,
    "hidden": 1280,
    "heads": 20,
    "ffn": 5120,
    "vocab": 50257,
    "mlp": "gelu",
    "norm": "layernorm",
    "positions": "learned",
    "max_positions": 1024,
    "tied_embeddings": True,
    "qkv_bias": True,
    "output_bias": True,
    "mlp_bias": True,
}


def run(kind, *, model=GPT2_LARGE, topology="dgx-a100", nodes=1, gpus=8, training=None, **options):
    (case,) = load_cases(
        {
            "name": "case",
            "model": model,
            "cluster": {"topology": topology, "nodes": nodes, "gpus": gpus},
            "training": {"sequence_length": 1024, "micro_batch_size": 1, **(training or {})},
            "parallel": {"data_parallel": kind},
            **options,
        }
    )
    return simulate(case)


@pytest.mark.parametrize(
    ("machine", "nodes", "without_s", "with_s"),
    [("2x-t4-10gbe", 1, 0.50, 0.41), ("1x-t4-10gbe", 2, 2.0, 0.91)],
)
def test_no_sync_gains_little_inside_a_node_and_much_across_nodes(machine, nodes, without_s, with_s):
    """huggingface/accelerate, docs/source/concept_guides/gradient_synchronization.md: BERT on two T4.

    16 sequences a GPU, 4 times. The script (muellerzr/timing_experiments) pads sentence pairs of MRPC to the longest
    of 16, about 88 tokens, and prints the time of an optimizer's step. Neither precision nor network is told: fp16
    under autocast and 10 Gb/s.
    """
    found = [
        run(
            "ddp",
            model="bert-base",
            topology=str(HERE / "topologies" / f"{machine}.yaml"),
            nodes=nodes,
            gpus=2,
            training={
                "sequence_length": 88, "micro_batch_size": 16, "gradient_accumulation": 4, "precision": "fp16"
            },
            software={"preset": "eager"},
            ddp={"no_sync": no_sync},
        ).step_time_s
        for no_sync in (False, True)
    ]  # fmt: skip
    assert found == pytest.approx([without_s, with_s], rel=0.2)
    assert found[0] / found[1] == pytest.approx(without_s / with_s, rel=0.2)


def test_zeropp_moves_less_between_nodes_than_zero3():
    where = {"topology": "8x-a100-single-nic", "gpus": 16, "nodes": 2, "training": {"gradient_accumulation": 2}}
    plain = run("zero3", **where).step_time_ns
    times = [
        run("zero3", **where, zero=options).step_time_ns
        for options in (
            {"zero_quantized_weights": True},
            {"zero_hpz_partition_size": 8},
            {"zero_quantized_gradients": True},
            {"zero_quantized_weights": True, "zero_hpz_partition_size": 8, "zero_quantized_gradients": True},
        )
    ]
    assert all(each < plain for each in times)
    assert times[-1] == min(times)


def test_llama_70b_on_64_h100_copies_and_counts():
    """A published profile of FSDP 2: 322 gathers, 162 reductions, 878 ms of copies, 8.6 s a step."""
    report = run(
        "fsdp",
        model="llama-3-70b",
        topology="dgx-h100",
        nodes=8,
        gpus=64,
        training={"sequence_length": 4096, "global_batch_size": 128, "recompute": "full"},
    )
    rank = report.ranks[0]
    transfers = [bar.name.split()[0] for bar in rank.bars if bar.kind == "transfer"]
    assert transfers.count("gather") == 322
    assert len([bar for bar in rank.bars if bar.kind == "transfer" and bar.name.startswith("reduce gradients")]) == 162
    copies = [bar for bar in rank.bars if bar.stream == "compute" and bar.name.startswith(("spread", "flatten"))]
    assert 0.4 < sum(bar.duration_ns for bar in copies) / 878e6 < 1
    assert 0.85 < report.step_time_ns / 8.624e9 < 1.05
