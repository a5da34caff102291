import pytest

from simgpu.errors import ModelError
from simgpu.workload.bundled import bundled_config, bundled_model, bundled_models
from simgpu.workload.inline import model_from_fields
from simgpu.workload.model import Model
from simgpu.workload.synthetic import SyntheticModel, synthetic_units

PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "qwen2.5-7b": 7_615_616_512,
    "mixtral-8x7b": 46_702_792_704,
    # 671,026,419,200 tensors' elements with the routers' 58 x 256 correction biases, which no gradient trains
    "deepseek-v3": 671_026_404_352,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    # published 116,829,156,672 and 20,914,757,184; left out: of each expert 3 x 2,880 biases and one of the router's,
    # of each layer 64 sinks
    "gpt-oss-120b": 116_829_156_672 - 36 * (128 * (8640 + 1) + 64),
    "gpt-oss-20b": 20_914_757_184 - 24 * (32 * (8640 + 1) + 64),
    # and 60 x 384 correction biases of the routers, which no gradient trains
    "kimi-k2": 1_026_408_232_448 - 60 * 384,
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
    "clip-vit-b-32": 151_277_313,
    "clip-vit-l-14": 427_616_513,
    "resnet-18": 11_689_512,
    "resnet-34": 21_797_672,
    "resnet-50": 25_557_032,
    "resnet-101": 44_549_160,
    "resnet-152": 60_192_808,
    "clip-vit-b-16": 149_620_737,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    # 64 rows of the embedding more than keras-hub's text models
    "gemma-3-4b": 3_880_099_328 + 64 * 2560,
    "gemma-3-12b": 11_765_788_416 + 64 * 3840,
    "gemma-3-27b": 27_009_002_240 + 64 * 5376,
    # the biases of the heads are left out
    "phi-2": 2_779_683_840 - 51_200,
    "gpt-j-6b": 6_050_882_784 - 50_400,
    # norms have no biases there
    "command-r": 34_980_831_232 + 41 * 8192,
    "falcon-7b": 6_921_720_704,
    "olmo-2-7b": 7_298_617_344,
    "starcoder2-7b": 7_173_923_840,
    "roberta-base": 124_697_433,
    "llama-4-scout": 107_769_861_120,
    "llama-4-maverick": 400_711_848_960,
    # 12 h^2 + 13 h a block, embeddings of 50257 + 2048 rows, final norm
    "gpt3-175b": 96 * (12 * 12288**2 + 13 * 12288) + (50257 + 2048) * 12288 + 2 * 12288,
}


def test_every_bundled_model_has_its_published_count():
    assert {name: bundled_model(name).parameters for name in bundled_models()} == PUBLISHED


@pytest.mark.parametrize("name", bundled_models())
def test_bundled_files_say_where_they_come_from(name):
    config = bundled_config(name)
    assert config["_source"]
    assert config["_parameters"]["count"] == PUBLISHED[name]
    assert config["_parameters"]["source"]


def test_unknown_bundled_name_lists_the_known_ones():
    with pytest.raises(ModelError, match=r"llama-9.*bundled: bert-base, bert-large, clip-vit-b-16, "):
        bundled_model("llama-9")


def test_model_flops_by_hand():
    model = bundled_model("llama-2-7b")
    matmul = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
    assert model.matmul_parameters == matmul
    assert model.model_flops_per_token(4096) == 6 * matmul + 12 * 32 * 4096 * 4096


def test_megatron_formula_is_the_same_count():
    # 72 B s L h^2 (1 + s/(6h) + V/(12 L h)) per B s tokens, Narayanan et al., for a GPT with f = 4h
    model = bundled_model("gpt3-175b")
    length, layers, hidden, vocab = 2048, 96, 12288, 50257
    formula = 72 * layers * hidden**2 * (1 + length / (6 * hidden) + vocab / (12 * layers * hidden))
    assert model.model_flops_per_token(length) == pytest.approx(formula, rel=1e-12)
    # with full recomputation 96 B s L h^2 (1 + s/(6h) + V/(16 L h))
    formula = 96 * layers * hidden**2 * (1 + length / (6 * hidden) + vocab / (16 * layers * hidden))
    assert model.hardware_flops_per_token(length, "full") == pytest.approx(formula, rel=1e-12)


def test_model_names_every_problem_at_once():
    with pytest.raises(ModelError) as caught:
        Model(
            name="bad",
            family="x",
            layers=0,
            hidden=64,
            heads=6,
            kv_heads=4,
            head_dim=True,
            ffn=-1,
            vocab=10,
            norm="none",
        )
    text = str(caught.value)
    for part in (
        "layers = 0",
        "head_dim = True",
        "ffn = -1",
        "norm = 'none'",
        "heads = 6 is not a multiple of kv_heads",
    ):
        assert part in text


def test_inline_fields_default_to_llama():
    fields = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256}
    assert model_from_fields(fields, "mine").parameters == PUBLISHED["llama-3-8b"]


def test_inline_gpt_defaults_to_four_times_hidden():
    flags = dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias", "tied_embeddings"), True)
    shape = {"layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "positions": "learned", "max_positions": 1024}
    model = model_from_fields({**shape, **flags, "norm": "layernorm", "mlp": "gelu"}, "mine")
    assert model.parameters == PUBLISHED["gpt2"]


def test_inline_fields_report_everything_at_once():
    with pytest.raises(ModelError) as caught:
        model_from_fields(
            {"layers": "four", "hidden": 100, "heads": 3, "vocab": True, "width": 3, "mlp": "tanh"}, "mine"
        )
    text = str(caught.value)
    for part in ("width is not a field", "layers = 'four'", "vocab = True", "ffn is missing", "mlp = 'tanh'"):
        assert part in text


def test_synthetic_stage_times():
    model = SyntheticModel(stages=2, forward_ns=(5, 7), backward_ns=10, activation_bytes=3, saved_bytes=4)
    first, second = synthetic_units(model)
    assert [unit.forward[0].duration_ns for unit in (first, second)] == [5, 7]
    assert [sum(op.duration_ns for op in unit.backward) for unit in (first, second)] == [10, 10]
    assert (first.output_bytes, first.saved_bytes, first.parameters) == (3, 4, ())


def test_synthetic_reports_everything_at_once():
    with pytest.raises(ModelError) as caught:
        SyntheticModel(stages=3, forward_ns=(1, 2), backward_ns=-1, saved_bytes=True)
    text = str(caught.value)
    for part in ("forward_ns lists 2 stages", "backward_ns = -1", "saved_bytes = True"):
        assert part in text
