import pytest

from simgpu.errors import ModelError
from simgpu.workload.bundled import bundled_config, bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.training import Training

BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30522,
}


def ops(items, kind):
    return {item.name: item for item in items if isinstance(item, kind)}


def batch(length=512, size=4, **changes):
    return Training(sequence_length=length, micro_batch_size=size, accumulation=1, **changes)


@pytest.mark.parametrize(
    ("head", "count"),
    [
        ("BertForPreTraining", 110_106_428),
        ("BertForMaskedLM", 109_514_298),
        ("BertLMHeadModel", 109_514_298),
        ("BertForSequenceClassification", 109_482_240 + 2 * 769),  # BertModel and a classifier
    ],
)
def test_bert_base_by_what_is_trained(head, count):
    assert model_from_huggingface({**BERT, "architectures": [head]}, name="b").parameters == count


def test_bert_attends_both_ways_and_norms_come_last():
    units = model_units(bundled_model("bert-large"), batch())
    block = units.layers[0].units[0]
    core = ops(block.forward, Attention)["attention.core"]
    assert not core.causal
    assert core.flops == 4 * 4 * 16 * 512**2 * 64
    order = [item.name for item in block.forward if isinstance(item, MemoryBound | Attention | Gemm)]
    assert order.index("norm1") > order.index("attention.residual") > order.index("attention.out")
    assert order.index("norm2") == len(order) - 1
    assert [item.name for item in block.backward[:1]] == ["norm2.backward"]


def test_masked_language_model_head():
    head = model_units(bundled_model("bert-large"), batch()).head
    gemms = ops(head.forward, Gemm)
    assert [(op.name, op.m, op.n, op.k) for op in gemms.values()] == [
        ("transform", 2048, 1024, 1024),
        ("head", 2048, 30522, 1024),
        ("pooler", 4, 1024, 1024),
        ("classifier", 4, 2, 1024),
    ]
    (tied,) = (p for p in head.parameters if p.tied)
    assert (tied.name, tied.tied) == ("head.weight", "embedding.weight")


def test_bert_refusals():
    for changes, words in (
        ({"architectures": ["BertForMultipleChoice"]}, "architectures = 'BertForMultipleChoice'"),
        ({"is_decoder": True}, "is_decoder"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"hidden_size": 770}, "not a multiple of 12 heads"),
    ):
        with pytest.raises(ModelError, match=words):
            model_from_huggingface({**BERT, **changes}, name="b")


def test_patches_are_the_tokens_of_an_image():
    model = bundled_model("vit-base")
    assert (model.patches, model.fixed_sequence) == (196, 197)
    units = model_units(model, batch(197, 8))
    patches = ops(units.embedding.forward, Gemm)["patches"]
    assert (patches.m, patches.n, patches.k) == (8 * 196, 768, 768)
    assert "patches.dgrad" not in ops(units.embedding.backward, Gemm), "an image needs no gradient"
    head = ops(units.head.forward, Gemm)["classifier"]
    assert (head.m, head.n, head.k) == (8, 1000, 768)
    assert not ops(units.layers[0].units[0].forward, Attention)["attention.core"].causal


def test_vit_base_flops_are_the_published_ones():
    # 17.6 GFLOPs (multiply-adds) forward at 224 x 224: pytorch/vision vision_transformer.py, vit_b_16: 17.56
    per_image = bundled_model("vit-base").model_flops(batch(197, 1)) / 3 / 2
    assert per_image / 1e9 == pytest.approx(17.56, rel=0.01)


def test_vit_refusals():
    config = bundled_config("vit-base")
    with pytest.raises(ModelError, match="patch = 15 does not divide image = 224"):
        model_from_huggingface({**config, "patch_size": 15}, name="v")
    with pytest.raises(ModelError, match="qkv_bias = False"):
        model_from_huggingface({**config, "qkv_bias": False}, name="v")
    labels = {key: value for key, value in config.items() if key != "num_labels"} | {
        "id2label": {"0": "cat", "1": "dog"}
    }
    assert model_from_huggingface(labels, name="v").classes == 2


def t5_units(**changes):
    fields = {"sequence_length": 512, "micro_batch_size": 4, "accumulation": 1, "target_length": 114}
    return model_units(bundled_model("t5-base"), Training(**(fields | changes)))


def test_t5_stacks_see_their_own_tokens():
    units = t5_units()
    first, last = units.layers[0].units[0], units.layers[-1].units[0]
    assert ops(first.forward, Gemm)["mlp.up"].m == 4 * 512
    assert ops(last.forward, Gemm)["mlp.up"].m == 4 * 114
    assert not ops(first.forward, Attention)["attention.core"].causal
    assert ops(last.forward, Attention)["attention.core"].causal
    assert ops(units.head.forward, Gemm)["head"].m == 4 * 114


def test_t5_cross_attention():
    last = t5_units().layers[-1].units[0]
    gemms = {name: (op.m, op.n, op.k) for name, op in ops(last.forward, Gemm).items() if name.startswith("cross")}
    assert gemms == {
        "cross.q": (456, 768, 768),
        "cross.kv": (2048, 1536, 768),
        "cross.out": (456, 768, 768),
    }
    core = ops(last.forward, Attention)["cross.core"]
    assert (core.sequence, core.kv_sequence, core.causal) == (114, 512, False)
    assert core.flops == 4 * 4 * 12 * 114 * 512 * 64


def test_t5_target_is_as_long_as_the_source_unless_said():
    assert ops(t5_units(target_length=None).head.forward, Gemm)["head"].m == 4 * 512


def test_t5_relative_bias_is_made_once_per_stack():
    units = t5_units()
    with_table = [
        layer.name
        for layer in units.layers
        for unit in layer.units
        for parameter in unit.parameters
        if parameter.name == "relative_bias.weight"
    ]
    assert with_table == ["encoder block 0", "decoder block 0"]
    first, second = units.layers[0].units[0], units.layers[1].units[0]
    assert first.elements - second.elements == 32 * 12
    assert ops(second.forward, MemoryBound)["attention.bias"].bytes == 2 * 4 * 12 * 512**2


def test_t5_decoder_starts_with_the_shared_table():
    bridge, _ = t5_units().layers[12].units
    (table,) = (p for p in bridge.parameters if p.tied)
    assert (table.name, table.tied) == ("decoder_embedding.weight", "embedding.weight")
    assert bridge.elements == 768, "only the encoder's last norm is its own"
    assert next(iter(t5_units().layers[12].named_units))[0] == "entry of decoder block 0"


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 222_903_552),
        # google/t5-v1_1-base: gated, with a head of its own
        ({"d_ff": 2048, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, 247_577_856),
    ],
)
def test_t5_counts(changes, count):
    assert model_from_huggingface({**bundled_config("t5-base"), **changes}, name="t").parameters == count
