"""What holds for every family: parameters, FLOPs, marks and exchanges of the units."""

from collections import Counter

import pytest

from simgpu.errors import ScenarioError
from simgpu.workload.architecture import Architecture
from simgpu.workload.bundled import bundled_model, bundled_models
from simgpu.workload.encoder_decoder import EncoderDecoder
from simgpu.workload.families import layout_issues, model_units
from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.inline import model_from_fields
from simgpu.workload.op import Attention, Gemm, GroupedGemm
from simgpu.workload.resnet import ResNet
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange, GradientReady, Join

QWEN_MOE = {
    "model_type": "qwen2_moe",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 384,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "mlp_only_layers": [1],
}
LITE = {
    "model_type": "deepseek_v2",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 64,
    "n_routed_experts": 16,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "kv_lora_rank": 64,
    "q_lora_rank": None,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "vocab_size": 1024,
}
T5_V11 = {
    "model_type": "t5",
    "d_model": 256,
    "d_kv": 64,
    "d_ff": 512,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 8,
    "vocab_size": 1024,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}
CLASSIFIER = {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1024,
    "num_labels": 5,
}
INLINE = {
    "layers": 3,
    "hidden": 256,
    "heads": 4,
    "vocab": 1024,
    "ffn": 512,
    "experts": 8,
    "experts_per_token": 2,
    "expert_ffn": 128,
    "shared_ffn": 64,
    "dense_layers": 1,
}
SMALL = {
    "qwen-moe": model_from_huggingface(QWEN_MOE, name="qwen-moe"),
    "deepseek-lite": model_from_huggingface(LITE, name="deepseek-lite"),
    "t5-v1.1": model_from_huggingface(T5_V11, name="t5-v1.1"),
    "bert-classifier": model_from_huggingface(CLASSIFIER, name="bert-classifier"),
    "inline-experts": model_from_fields(INLINE, "inline-experts"),
}


def named(name) -> Architecture:
    return SMALL.get(name) or bundled_model(name)


EVERY = (*bundled_models(), *SMALL)
ONE_KEY_HEAD = "gemma-3-1b"  # which both of two ranks hold
SPLIT = tuple(name for name in EVERY if named(name).tensor_ways % 2 == 0 and name != ONE_KEY_HEAD)


def training(model, **changes):
    fields = {"sequence_length": model.fixed_sequence or 128, "micro_batch_size": 2, "accumulation": 1}
    if isinstance(model, EncoderDecoder):
        fields["target_length"] = 64
    return Training(**(fields | changes))


def ops(items, *kinds):
    return [item for item in items if isinstance(item, kinds)]


def product_flops(items):
    return sum(op.flops for op in ops(items, Gemm, GroupedGemm))


def attention_squares(items):
    """FLOPs of attention cores, causal ones counted whole."""
    return sum(op.flops * (2 if op.causal else 1) for op in ops(items, Attention))


@pytest.mark.parametrize("name", EVERY)
def test_units_hold_the_models_parameters(name):
    model = named(name)
    assert sum(unit.elements for unit in model_units(model, training(model)).units) == model.parameters


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_tensor_parallel_ranks_share_what_is_not_replicated(name, sequence_parallel):
    model = named(name)
    units = model_units(model, training(model), tp=2, sequence_parallel=sequence_parallel).units
    parameters = [p for unit in units for p in unit.parameters if p.tied is None]
    assert sum(p.total for p in parameters) == model.parameters
    for p in parameters:
        padded = p.name in ("embedding.weight", "head.weight", "head.bias")
        assert p.elements * (1 if p.replicated else 2) == p.total or padded, p


@pytest.mark.parametrize("name", EVERY)
def test_flops_of_the_ops_are_the_models(name):
    model = named(name)
    batch = training(model)
    units = model_units(model, batch).units
    products = sum(product_flops((*unit.forward, *unit.backward)) for unit in units)
    squares = sum(attention_squares(unit.forward) for unit in units)
    assert model.model_flops(batch) == products + 3 * squares


@pytest.mark.parametrize("name", EVERY)
def test_full_recomputation_repeats_exactly_the_layers_forward(name):
    model = named(name)
    batch = training(model, recompute="full")
    units = model_units(model, batch)
    layers = [unit for layer in units.layers for unit in layer.units if unit.kind == "block"]
    assert all(unit.recompute == unit.forward for unit in layers)
    assert not units.embedding.recompute
    assert not units.head.recompute
    repeated = sum(product_flops(unit.recompute) + attention_squares(unit.recompute) for unit in layers)
    assert model.hardware_flops(batch) - model.model_flops(batch) == repeated
    plain = [unit for layer in model_units(model, training(model)).layers for unit in layer.units]
    outputs = sum(unit.late_bytes // 4 for unit in layers)  # one of four streams that a re-entrant checkpoint holds
    kept = sum(unit.saved_bytes + unit.recomputed_bytes for unit in layers) - outputs
    assert kept == sum(unit.saved_bytes for unit in plain if unit.kind == "block")


@pytest.mark.parametrize(
    ("name", "tp", "sequence_parallel"),
    [(name, 1, False) for name in EVERY] + [(name, 2, scattered) for name in SPLIT for scattered in (False, True)],
)
def test_gradients_come_once_and_exchanges_are_joined(name, tp, sequence_parallel):
    model = named(name)
    units = model_units(model, training(model), tp=tp, sequence_parallel=sequence_parallel)
    for unit in {id(unit): unit for unit in units.units}.values():
        marked = [name for item in ops(unit.backward, GradientReady) for name in item.parameters]
        assert sorted(marked) == sorted(p.name for p in unit.parameters)
        assert len(set(marked)) == len(marked)
        for items in (unit.forward, unit.backward):
            pending = set()
            for item in items:
                if isinstance(item, Exchange):
                    assert item.tag not in pending
                    assert item.bytes > 0
                    pending.add(item.tag)
                elif isinstance(item, Join):
                    pending.remove(item.tag)
            assert not pending
        exchanged = Counter(type(item).__name__ for item in (*unit.forward, *unit.backward))["Exchange"]
        assert exchanged == 0 or tp > 1


@pytest.mark.parametrize("name", EVERY)
def test_equal_layers_share_their_unit(name):
    model = named(name)
    layers = model_units(model, training(model)).layers
    assert len(layers) == model.layers
    kinds = len({id(unit) for layer in layers for unit in layer.units})
    assert kinds == len(layers) if isinstance(model, ResNet) else kinds <= 5


@pytest.mark.parametrize("name", EVERY)
def test_activations_stay_below_their_bound(name):
    model = named(name)
    batch = training(model)
    kept = sum(unit.saved_bytes + unit.logits_bytes for unit in model_units(model, batch).units)
    assert kept < model.activation_bound_bytes(batch)


@pytest.mark.parametrize(
    ("name", "layout", "changes", "words"),
    [
        ("resnet-50", {"tp": 2}, {}, "parallel.tp = 2: is not modelled for the convolutions of resnet-50; allowed: 1"),
        ("resnet-50", {}, {"recompute": "selective"}, "repeats the attention core, which resnet-50 does not have"),
        ("vit-base", {}, {"sequence_length": 512}, "is not the 197 of vit-base, which its images decide"),
        ("mixtral-8x7b", {"tp": 3}, {}, "does not divide the 14336 columns of an expert"),
        ("mixtral-8x7b", {}, {"moe_imbalance": 4.5}, "2 visits a token, 8 experts; allowed: 1 to 4"),
        ("llama-2-7b", {}, {"moe_imbalance": 1.5}, "llama-2-7b, which has no experts"),
        ("bert-large", {}, {"target_length": 9}, "bert-large, which has no decoder of its own"),
        ("bert-large", {}, {"sequence_length": 513}, "longer than the position table of bert-large"),
        ("t5-base", {"tp": 5}, {}, "does not divide the 12 attention heads of t5-base"),
    ],
)
def test_what_does_not_fit_is_said(name, layout, changes, words):
    model = named(name)
    assert words in "\n".join(map(str, layout_issues(model, training(model, **changes), **layout)))


def test_what_fits_is_not_refused():
    for name in EVERY:
        assert layout_issues(named(name), training(named(name))) == []


def test_other_descriptions_have_no_units():
    with pytest.raises(TypeError, match="object has no units"):
        model_units(object(), training(bundled_model("gpt2")))


def test_units_refuse_what_does_not_divide():
    with pytest.raises(ScenarioError, match="does not divide the 32 attention heads"):
        model_units(bundled_model("mixtral-8x7b"), training(bundled_model("mixtral-8x7b")), tp=3)
