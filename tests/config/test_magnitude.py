"""Numbers too large to be meant are refused, singly and together; what has been trained is far below the bounds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.api import facts, play_case
from simgpu.config import load_cases
from simgpu.config.magnitude import LARGEST_PASSES, oversized
from simgpu.config.quantity import LARGEST_ACCUMULATION, LARGEST_LAYERS, LARGEST_WIDTH
from simgpu.errors import ScenarioError
from simgpu.metrics.summary import summarize
from simgpu.workload.bundled import bundled_model, bundled_models

TINY = {"layers": 1, "hidden": 8, "heads": 1, "ffn": 8, "vocab": 8}
STAGES = {"stages": 2, "forward_ns": 1, "backward_ns": 1}
BASE = {
    "model": TINY,
    "cluster": {"topology": "dgx-a100", "gpus": 2},
    "training": {"sequence_length": 64, "micro_batch_size": 1},
}


def refusals(overrides, **blocks):
    with pytest.raises(ScenarioError) as caught:
        load_cases({**BASE, **blocks}, overrides=overrides)
    return [str(issue) for issue in caught.value.issues]


@pytest.mark.parametrize(
    "override",
    [
        "model.hidden=1e12", "model.ffn=1e8", "model.vocab=1e18", "model.layers=1e6", "model.heads=1e9",
        "training.sequence_length=1e18", "training.micro_batch_size=1e15", "training.global_batch_size=1e15",
        "training.gradient_accumulation=1e8", "cluster.gpus=131072", "cluster.nodes=16384", "parallel.tp=1e6",
        "parallel.pp=1e6", "price_per_gpu_hour=1e9", "training.train_tokens=1e19", "zero.reduce_bucket_size=1e19",
    ],
)  # fmt: skip
def test_one_number(override):
    (text,) = refusals([override])
    assert text.startswith(f"--set: {override.split('=')[0]} = ")
    assert "is too large to be meant; allowed: " in text


@pytest.mark.parametrize(
    "override",
    ["model.forward_ns=1e18", "model.forward_ns=[1, 1e18]", "model.saved_bytes=1e30", "model.activation_bytes=2 TiB 5"],
)
def test_one_number_of_a_synthetic_model(override):
    texts = refusals([override], model=STAGES)
    assert len(texts) == 1
    assert override.split("=")[0] in texts[0]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["training.sequence_length=1e8", "training.micro_batch_size=11"], "the tokens of one micro-batch come to 1,1"),
        (["training.global_batch_size=1e9"], "global_batch_size: the micro-batches of one step come to 500,000,000"),
        (["model.layers=10", "training.gradient_accumulation=6554"], "layers x micro-batches of one step come to 65"),
        (["model.hidden=1e7", "model.ffn=1e7", "model.layers=3"], "model: parameters = "),
        (["model.hidden=1e5", "model.ffn=1e6", "training.sequence_length=1e8"], "the FLOPs of one replica's step"),
        (["model.layers=10000", "training.sequence_length=1e8", "training.micro_batch_size=10", "model.ffn=1e5"],
         "activation bytes"),
    ],
)  # fmt: skip
def test_numbers_that_are_too_large_together(overrides, words):
    texts = refusals(overrides)
    assert any(words in text for text in texts), texts


def test_a_synthetic_step_that_leaves_64_bits():
    long = {"stages": 2, "forward_ns": "1e6 s", "backward_ns": 1}
    texts = refusals(["training.gradient_accumulation=2000"], model=long)
    assert any("nanoseconds of one step" in text for text in texts)
    texts = refusals(["training.gradient_accumulation=2000"], model={**STAGES, "saved_bytes": "1000 TiB"})
    assert any("bytes kept" in text for text in texts)


def test_more_gpus_than_are_simulated():
    texts = refusals([], cluster={"topology": "dgx-a100", "nodes": 5000})
    assert any("the GPUs come to 40,000" in text for text in texts)


def test_a_model_file_is_bounded_like_the_fields(tmp_path):
    config = {"model_type": "llama", "hidden_size": 10**12, "intermediate_size": 8, "num_hidden_layers": 10**9,
              "num_attention_heads": 1, "vocab_size": 8}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    texts = refusals([], model=str(tmp_path / "config.json"))
    assert all(text.startswith(f"{tmp_path / 'config.json'}") for text in texts)
    for words in ("layers = 1,000,000,000 is too large", "hidden = 1,000,000,000,000 is too large"):
        assert any(words in text for text in texts), texts


def test_what_has_been_trained_is_allowed():
    assert not any(oversized(bundled_model(name)) for name in bundled_models())
    frontier = {
        "model": "llama-3.1-405b",
        "cluster": {"topology": "dgx-h100", "nodes": 2048},
        "training": {
            "sequence_length": 8192,
            "micro_batch_size": 1,
            "global_batch_size": 2048,
            "train_tokens": "15.6T",
        },
        "parallel": {"tp": 8, "pp": 16, "layers_per_stage": [*[8] * 14, 7, 7]},
    }
    assert load_cases(frontier)[0].strategy.dp == 128


WIDTHS = st.integers(0, 7).map(lambda power: 10**power)


@settings(max_examples=25)
@given(WIDTHS, WIDTHS, WIDTHS, st.integers(0, 8), st.integers(0, 6), st.sampled_from(["bf16", "fp32"]))
def test_whatever_is_accepted_is_simulated_in_64_bits(hidden, ffn, vocab, sequence, micro, precision):
    model = {"layers": 2, "hidden": hidden, "heads": 1, "ffn": ffn, "vocab": vocab}
    training = {"sequence_length": 10**sequence, "micro_batch_size": 10**micro, "precision": precision}
    cases, issues = (), ()
    try:
        cases = load_cases({**BASE, "model": model, "training": training})
    except ScenarioError as error:
        issues = error.issues
    assert all("too large" in issue.problem for issue in issues)
    for case in cases:
        report = summarize(play_case(case), facts(case))
        assert 0 < report.step_time_ns < 2**63
        assert 0 < report.peak_memory_bytes < 2**63


@pytest.mark.parametrize(("stages", "steps"), [(2, 1), (2, 64), (8, 64)])
def test_the_longest_synthetic_steps_are_simulated_in_64_bits(stages, steps):
    largest = 10**18 // (2 * (steps + stages))
    model = {"stages": stages, "forward_ns": min(largest, 10**15), "backward_ns": min(largest, 10**15),
             "saved_bytes": 2**60 // (steps + stages)}  # fmt: skip
    (case,) = load_cases(
        {**BASE, "model": model, "cluster": {"topology": "dgx-a100", "gpus": stages}, "network": "free"},
        overrides=[f"training.gradient_accumulation={steps}"],
    )
    assert summarize(play_case(case), facts(case)).step_time_ns == (steps + stages - 1) * 2 * min(largest, 10**15)


def test_the_bounds_leave_room_for_each_other():
    assert LARGEST_LAYERS <= LARGEST_PASSES
    assert LARGEST_ACCUMULATION <= LARGEST_PASSES
    assert max(bundled_model(name).dimensions["vocab"] for name in bundled_models()) * 10 < LARGEST_WIDTH
