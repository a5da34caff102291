"""Whole scenarios of every family, from the mapping to the report."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.metrics.activity import CLASSES

EXPERTS = {
    "layers": 4,
    "hidden": 512,
    "heads": 8,
    "kv_heads": 8,
    "vocab": 1024,
    "ffn": 1024,
    "experts": 8,
    "experts_per_token": 2,
    "expert_ffn": 256,
    "shared_ffn": 256,
    "dense_layers": 1,
}


def run(model, gpus=2, parallel=None, **training):
    scenario = {
        "model": model,
        "cluster": {"topology": "dgx-a100", "nodes": 1, "gpus": gpus},
        "training": {"micro_batch_size": 2, **training},
        "parallel": parallel or {},
    }
    (case,) = load_cases(scenario)
    return simulate(case)


def adds_up(report):
    return all(sum(rank.breakdown_ns[name] for name in CLASSES) == report.step_time_ns for rank in report.ranks)


@pytest.mark.parametrize("data_parallel", ["ddp", "zero1", "zero2", "zero3", "fsdp"])
@pytest.mark.parametrize(
    ("model", "training"),
    [
        ("resnet-18", {}),
        ("vit-base", {}),
        ("bert-base", {"sequence_length": 128}),
        ("t5-base", {"sequence_length": 128, "target_length": 32}),
        (EXPERTS, {"sequence_length": 128}),
    ],
)
def test_every_family_on_every_kind_of_data_parallelism(model, training, data_parallel):
    report = run(
        model, parallel={"data_parallel": data_parallel}, recompute="full", gradient_accumulation=2, **training
    )
    assert adds_up(report)
    assert report.fits
    assert 0 < report.mfu < report.hfu < 1


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize(("tp", "pp", "gpus"), [(2, 1, 2), (1, 2, 2), (2, 2, 8), (4, 2, 8)])
def test_experts_on_tensor_and_pipeline_ranks(tp, pp, gpus, sequence_parallel):
    report = run(
        EXPERTS,
        gpus,
        {"tp": tp, "pp": pp, "sequence_parallel": sequence_parallel},
        sequence_length=256,
        gradient_accumulation=4,
        moe_imbalance=1.5,
    )
    assert adds_up(report)
    assert 0 < report.mfu < 1


def test_stages_of_unequal_blocks():
    (case,) = load_cases(
        {
            "model": {**EXPERTS, "expert_ffn": 2048},
            "cluster": {"topology": "dgx-a100", "gpus": 2},
            "training": {"sequence_length": 256, "micro_batch_size": 1, "gradient_accumulation": 4},
            "parallel": {"pp": 2, "layers_per_stage": [1, 3]},
        }
    )
    first, second = simulate(case).timeline.program.roles
    one, three = (role.resident_bytes["weights"] for role in (first, second))
    expert = 3 * 512 * (8 * 2048 + 256) + 8 * 512
    attention = 4 * 512 * 512 + 2 * 512
    dense = attention + 3 * 512 * 1024
    assert one == 2 * (1024 * 512 + dense)
    assert three == 2 * (3 * (attention + expert) + 512 + 1024 * 512)


def test_latent_attention_over_tensor_ranks():
    report = run(
        "deepseek-v3", 8, {"tp": 8, "sequence_parallel": True, "data_parallel": "none"}, sequence_length=64,
        optimizer="none",
    )  # fmt: skip
    assert adds_up(report)
    assert not report.fits, "671 B parameters are more than eight cards hold"


def test_images_need_no_sequence():
    assert run("resnet-18").tokens_per_s == pytest.approx(4 / (run("resnet-18").step_time_ns / 1e9))
    assert run("vit-base").tokens_per_s == pytest.approx(4 * 197 / (run("vit-base").step_time_ns / 1e9))


def test_batch_norm_statistics_are_resident():
    (role,) = run("resnet-18").timeline.program.roles
    assert role.resident_bytes["weights"] == 4 * 11_689_512 + 2 * 4 * 4_800 + 8 * 20


def test_shorter_targets_take_less_time():
    long, short = (run("t5-base", sequence_length=512, target_length=n, micro_batch_size=16) for n in (512, 64))
    assert short.step_time_ns < long.step_time_ns
    assert short.tokens_per_s > long.tokens_per_s


@pytest.mark.parametrize(
    ("model", "parallel", "training", "words"),
    [
        ("resnet-50", {"tp": 2}, {}, "parallel.tp = 2: is not modelled for the convolutions of resnet-50"),
        ("resnet-50", {}, {"sequence_length": 5}, "training.sequence_length = 5: is not the 1 of resnet-50"),
        ("gpt2", {}, {"sequence_length": 128, "moe_imbalance": 2}, "training.moe_imbalance = 2"),
        ("gpt2", {}, {"sequence_length": 128, "moe_imbalance": 0.5}, "training.moe_imbalance = 0.5: is below 1"),
        ("gpt2", {}, {"sequence_length": 128, "target_length": 64}, "training.target_length = 64"),
        ("bert-base", {}, {}, "training.sequence_length"),
        (EXPERTS, {"ep": 3}, {"sequence_length": 128}, "parallel.ep = 3: does not divide"),
        ({**EXPERTS, "experts_per_token": 9}, {}, {"sequence_length": 128}, "experts_per_token = 9 is more than"),
    ],
)
def test_refusals(model, parallel, training, words):
    with pytest.raises(ScenarioError) as caught:
        run(model, parallel=parallel, **training)
    assert words in str(caught.value)
