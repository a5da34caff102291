"""Reports from the field about data parallelism, with the reporters' configurations and figures."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases

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


def test_gpt2_large_on_two_h100_scales_nearly_linearly_whatever_the_strategy():
    """daddyofadoggy/blog: 112.3 s on one GPU; DDP 58.3, FSDP full 58.8, grad-only 58.6 (1.91 to 1.93 times as fast)."""
    training = {"micro_batch_size": 16, "global_batch_size": 32}
    one = run("none", topology="dgx-h100", gpus=1, training=training).step_time_ns
    two = [
        run(kind, topology="dgx-h100", gpus=2, training=training, **options).step_time_ns
        for kind, options in (("ddp", {}), ("fsdp", {}), ("fsdp", {"fsdp": {"reshard_after_forward": False}}))
    ]
    assert all(1.8 < one / each < 2.05 for each in two)
    assert max(two) / min(two) < 1.08


def test_zero2_reduces_every_micro_batch_and_zero1_once():
    """facebookresearch/fairscale#1041: about 3 times slower under accumulation; 16 micro-batches over a slow link."""
    slow = {"topology": "8x-a100-single-nic", "nodes": 2, "gpus": 16, "training": {"gradient_accumulation": 16}}
    first, second = (run(kind, **slow).step_time_ns for kind in ("zero1", "zero2"))
    assert 2 < second / first < 4
    once = {**slow, "training": {"gradient_accumulation": 1}}
    first, second = (run(kind, **once).step_time_ns for kind in ("zero1", "zero2"))
    assert second / first < 1.05, "without accumulation they move the same"


def test_no_sync_gains_little_inside_a_node_and_much_across_nodes():
    """Eight micro-batches: seven all-reduces saved, hidden behind backward over NVLink, exposed over one NIC."""
    training = {"gradient_accumulation": 8, "micro_batch_size": 4}
    inside = {"training": training}
    across = {"topology": "8x-a100-single-nic", "nodes": 2, "gpus": 16, "training": training}
    gains = [
        run("ddp", **where, ddp={"no_sync": False}).step_time_ns / run("ddp", **where).step_time_ns
        for where in (inside, across)
    ]
    assert 1 < gains[0] < 1.2
    assert gains[1] > 2


def test_the_last_bucket_is_exposed():
    """ecmwf/WeatherGenerator#1280: 6 to 8 % of the step. The first layers' gradients are ready when backward ends."""
    report = run("ddp", training={"micro_batch_size": 4, "gradient_accumulation": 1})
    assert report.breakdown_ns["exposed.dp"] > 0


def test_bucket_sizes_have_a_flat_optimum_between_two_bad_ends():
    """pytorch/pytorch#118421: 25 MB is small for today's links; one bucket for everything hides nothing."""
    where = {"topology": "8x-a100-single-nic", "nodes": 2, "gpus": 16}
    training = {"micro_batch_size": 4, "gradient_accumulation": 1}
    times = {
        cap: run("ddp", **where, training=training, ddp={"bucket_cap_mb": cap}).step_time_ns
        for cap in (1, 100, 400, 4000)
    }
    assert times[100] < 0.95 * times[1]
    assert times[100] < 0.95 * times[4000]
    assert times[400] == pytest.approx(times[100], rel=0.03)


def test_hybrid_sharding_spares_the_link_between_nodes():
    """huggingface/blog#1649: full shard over nodes slowest, hybrid between, one node fastest per sample."""
    training = {"micro_batch_size": 1, "gradient_accumulation": 2}
    where = {"topology": "8x-a100-single-nic", "gpus": 16, "nodes": 2, "training": training}
    full, hybrid = (run(kind, **where).step_time_ns for kind in ("fsdp", "hsdp"))
    alone = run("fsdp", **{**where, "gpus": 8, "nodes": 1}).step_time_ns
    assert alone < hybrid < full


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
