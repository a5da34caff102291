from dataclasses import replace

import pytest

from simgpu.dtypes import DType
from simgpu.errors import ModelError
from simgpu.workload.bundled import bundled_model
from simgpu.workload.experts import Experts
from simgpu.workload.families import model_units
from simgpu.workload.inline import model_from_fields
from simgpu.workload.latent import LatentAttention
from simgpu.workload.model import Model
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange

SHAPE = {"layers": 3, "hidden": 512, "heads": 8, "kv_heads": 4, "vocab": 1000}
EIGHT = {"experts": 8, "experts_per_token": 2, "expert_ffn": 256}
WIDTHS = {
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip
TOKENS = 512


def block(tp=1, sequence_parallel=False, fields=EIGHT, layer=-1, **changes):
    batch = Training(**({"sequence_length": 256, "micro_batch_size": 2, "accumulation": 1} | changes))
    model = model_from_fields({**SHAPE, **fields}, "m") if isinstance(fields, dict) else fields
    return model_units(model, batch, tp=tp, sequence_parallel=sequence_parallel).layers[layer].units[0]


def ops(items, kind):
    return {item.name: item for item in items if isinstance(item, kind)}


def exchanges(items):
    return [(item.tag, item.kind, item.bytes) for item in items if isinstance(item, Exchange)]


def test_mixtral_by_hand():
    model = bundled_model("mixtral-8x7b")
    attention = 4096 * (32 + 16) * 128 + 4096 * 4096
    expert = 3 * 4096 * 14336
    layer = attention + 8 * expert + 8 * 4096 + 2 * 4096
    assert model.parameters == 32 * layer + 2 * 32000 * 4096 + 4096 == 46_702_792_704
    assert model.active_parameters == model.parameters - 32 * 6 * expert == 12_879_925_248
    met = 32 * (attention + 2 * expert + 8 * 4096) + 32000 * 4096
    assert model.model_flops_per_token(1024) == 6 * met + 12 * 32 * 1024 * 4096


def test_deepseek_v3_by_hand():
    model = bundled_model("deepseek-v3")
    heads, hidden = 128, 7168
    attention = hidden * 1536 + 1536 * heads * 192 + hidden * (512 + 64) + 512 * heads * 256 + heads * 128 * hidden
    norms = 2 * hidden + 1536 + 512
    expert = 3 * hidden * 2048
    dense, sparse = 3 * hidden * 18432, 256 * expert + 256 * hidden + expert
    total = 61 * (attention + norms) + 3 * dense + 58 * sparse + 2 * 129280 * hidden + hidden
    assert model.parameters == total == 671_026_404_352
    assert round(model.active_parameters / 1e9, 1) == 37.6  # "37B activated", arXiv 2412.19437
    # scores of 192, values of 128 per head, instead of twice one width
    assert model.attention_flops(4096) == 2 * 61 * 4096 * heads * (192 + 128)


def test_experts_are_one_grouped_product_each():
    unit = block()
    forward, backward = ops(unit.forward, GroupedGemm), ops(unit.backward, GroupedGemm)
    assert [(op.name, op.groups, op.rows, op.n, op.k) for op in forward.values()] == [
        ("experts.gate_up", 8, 2 * TOKENS, 512, 512),
        ("experts.down", 8, 2 * TOKENS, 512, 256),
    ]
    assert {name: op.layout for name, op in backward.items()} == {
        "experts.down.dgrad": "nn",
        "experts.down.wgrad": "nt",
        "experts.gate_up.dgrad": "nn",
        "experts.gate_up.wgrad": "nt",
    }
    assert sum(op.flops for op in backward.values()) == 2 * sum(op.flops for op in forward.values())
    assert (backward["experts.down.dgrad"].n, backward["experts.down.dgrad"].k) == (256, 512)
    assert (backward["experts.down.wgrad"].n, backward["experts.down.wgrad"].k) == (512, 256)
    router = ops(unit.forward, Gemm)["router"]
    assert (router.m, router.n, router.k) == (TOKENS, 8, 512)


def test_imbalance_is_the_busiest_experts_share():
    def busiest(imbalance):
        return ops(block(moe_imbalance=imbalance).forward, GroupedGemm)["experts.down"].busiest

    assert [busiest(x) for x in (1.0, 1.5, 4.0)] == [128, 192, 512]
    assert busiest(100.0) == 2 * TOKENS, "no more than all"


def test_only_experts_are_marked():
    marked = {p.name for p in block(fields={**EIGHT, "shared_ffn": 128}).parameters if p.expert}
    assert marked == {"experts.gate_up.weight", "experts.down.weight"}


def test_bytes_of_routing_by_hand():
    sizes = {name: op.bytes for name, op in ops(block().forward + block().backward, MemoryBound).items()}
    stream, rows = 2 * TOKENS * 512, 2 * 2 * TOKENS * 512
    assert sizes["experts.permute"] == sizes["experts.permute.backward"] == stream + rows
    assert sizes["experts.unpermute"] == stream + rows
    assert sizes["experts.unpermute.backward"] == stream + 2 * rows
    assert sizes["experts.swiglu"] == 3 * 2 * 2 * TOKENS * 256
    assert sizes["router.scores"] == TOKENS * 8 * (2 + 2 * 4) + 2 * 12 * TOKENS * 2


def test_what_a_layer_of_experts_keeps():
    plain = {**SHAPE, "ffn": 256}
    dense = block(fields=model_from_fields(plain, "dense")).saved_bytes
    mlp = 2 * TOKENS * 512 + 2 * TOKENS * 3 * 256
    rows = 2 * TOKENS
    # router's input, its scores and choices, permuted tokens, gate and up, product, outputs of the experts
    experts = 2 * TOKENS * 512 + TOKENS * (4 * 8 + 12 * 2) + 2 * rows * (512 + 3 * 256 + 512)
    assert block().saved_bytes == dense - mlp + experts


def test_shared_mlp_keeps_the_routers_input_only_once():
    shared = block(fields={**EIGHT, "shared_ffn": 128})
    assert shared.saved_bytes - block().saved_bytes == 2 * TOKENS * 3 * 128


@pytest.mark.parametrize("shared", [0, 256])
def test_exchanges_of_experts(shared):
    fields = {**EIGHT, "shared_ffn": shared} if shared else EIGHT
    whole = 2 * TOKENS * 512
    plain, scattered = block(2, False, fields), block(2, True, fields)
    assert [item for item in exchanges(plain.forward) if item[0].startswith("experts")] == [
        ("experts.reduce", "all_reduce", whole)
    ]
    assert [item for item in exchanges(scattered.forward) if item[0].startswith("experts")] == [
        ("experts.gather", "all_gather", whole),
        ("experts.scatter", "reduce_scatter", whole),
    ]
    assert [item[1] for item in exchanges(scattered.backward) if item[0].startswith("experts")] == [
        "all_gather",
        "reduce_scatter",
    ]
    beside = [item for item in exchanges(plain.forward) if item[0].startswith("mlp")]
    assert len(beside) == (1 if shared else 0), "the shared MLP has its own"
    assert ops(scattered.forward, Gemm)["router"].m == TOKENS // 2, "each rank routes its own tokens"
    assert ops(scattered.forward, GroupedGemm)["experts.down"].k == 128


def test_first_layers_without_experts():
    fields = {**EIGHT, "ffn": 1024, "dense_layers": 1}
    names = [set(ops(block(fields=fields, layer=i).forward, Gemm)) for i in range(3)]
    assert "mlp.down" in names[0]
    assert "router" not in names[0]
    assert names[1] == names[2]
    assert "router" in names[1]


def test_autocast_casts_the_experts_too():
    batch = Training(sequence_length=64, micro_batch_size=1, accumulation=1)
    model = model_from_fields({**SHAPE, **EIGHT}, "m")
    unit = model_units(model, batch, cast_weights=True).layers[0].units[0]
    casts = {name: op.bytes for name, op in ops(unit.forward, MemoryBound).items() if name.endswith(".cast")}
    assert casts["experts.down.weight.cast"] == 6 * 8 * 512 * 256


LATENT = LatentAttention(kv_rank=64, query_rank=96, nope_dim=32, rope_dim=16, value_dim=24)


def latent_block(tp=1, sequence_parallel=False, **changes):
    model = Model(
        name="mla", family="deepseek_v3", layers=2, hidden=512, heads=8, kv_heads=8, head_dim=48, ffn=1024, vocab=1000,
        latent=LATENT,
    )  # fmt: skip
    return block(tp, sequence_parallel, model, **changes)


def test_latent_attention_by_hand():
    gemms = ops(latent_block(2).forward, Gemm)
    assert {name: (op.n, op.k) for name, op in gemms.items() if name.startswith("attention")} == {
        "attention.q_down": (96, 512),
        "attention.q_up": (4 * 48, 96),
        "attention.kv_down": (64 + 16, 512),
        "attention.kv_up": (4 * (32 + 24), 64),
        "attention.out": (512, 4 * 24),
    }
    core = ops(latent_block(2).forward, Attention)["attention.core"]
    assert (core.heads, core.kv_heads, core.head_dim, core.value_dim, core.causal) == (4, 4, 48, 24, True)
    assert core.flops == 2 * 2 * 4 * 256**2 * (48 + 24) // 2


def test_latent_vectors_are_what_tensor_parallel_ranks_exchange():
    gathers = {tag: size for tag, kind, size in exchanges(latent_block(2, True).forward) if kind == "all_gather"}
    assert gathers["attention.q_up.gather"] == 2 * TOKENS * 96
    assert gathers["attention.kv_up.gather"] == 2 * TOKENS * 64
    assert ops(latent_block(2, True).forward, Gemm)["attention.kv_down"].m == TOKENS // 2


def test_what_latent_attention_keeps():
    plain = Model(name="m", family="x", layers=2, hidden=512, heads=8, kv_heads=8, head_dim=48, ffn=1024, vocab=1000)
    usual = 2 * TOKENS * (3 * 8 * 48 + 8 * 48)  # q, k, v and output
    # both latent vectors before and after their norms, q and k, v and output of value heads
    latent = 2 * TOKENS * (2 * 96 + 2 * 64 + 2 * 8 * 48 + 2 * 8 * 24)
    assert latent_block().saved_bytes - block(fields=plain).saved_bytes == latent - usual


def test_numbers_that_cannot_be():
    with pytest.raises(ModelError, match=r"experts.count = 0.*\n.*experts.ffn = True"):
        Experts(count=0, active=1, ffn=True)
    with pytest.raises(ModelError, match="active = 9 is more than the 8 experts"):
        Experts(count=8, active=9, ffn=1)
    with pytest.raises(ModelError, match=r"latent\.kv_rank = 0"):
        LatentAttention(kv_rank=0, nope_dim=1, rope_dim=1, value_dim=1)
    with pytest.raises(ModelError, match="head_dim = 64 is not the 48 of the latent attention"):
        Model(
            name="m", family="x", layers=1, hidden=64, heads=1, kv_heads=1, head_dim=64, ffn=1, vocab=1, latent=LATENT
        )
    with pytest.raises(ModelError, match="experts_per_token = 9 is more than experts = 8"):
        model_from_fields({**SHAPE, **EIGHT, "experts_per_token": 9}, "m")
    with pytest.raises(ModelError, match="expert_ffn needs experts"):
        model_from_fields({**SHAPE, "ffn": 8, "expert_ffn": 8}, "m")
    with pytest.raises(ModelError, match="mlp = 'gelu' is not what the experts are"):
        replace(model_from_fields({**SHAPE, **EIGHT}, "m"), mlp="gelu")
    with pytest.raises(ModelError, match="q_lora_rank needs kv_lora_rank"):
        model_from_fields({**SHAPE, "ffn": 8, "q_lora_rank": 8}, "m")
    with pytest.raises(ModelError, match="kv_heads means nothing with kv_lora_rank"):
        model_from_fields({**SHAPE, "ffn": 8, **WIDTHS}, "m")


def test_plain_experts_have_two_matrices_and_the_wider_of_both_passes():
    gated = model_from_fields({**SHAPE, **EIGHT}, "m")
    plain = model_from_fields({**SHAPE, **EIGHT, "mlp": "gelu"}, "m")
    own = plain.experts
    assert own.matrices == 2
    per_layer = own.count * plain.hidden * own.ffn  # one matrix of every expert
    assert gated.parameters - plain.parameters == plain.layers * per_layer
    unit = block(fields={**EIGHT, "mlp": "gelu"})
    names = [item.name for item in unit.forward if getattr(item, "name", "").startswith("experts")]
    assert names[:4] == ["experts.permute", "experts.up", "experts.gelu", "experts.down"]
    assert ops(unit.forward, GroupedGemm)["experts.up"].n == 256


def test_blocks_without_experts_may_be_listed():
    listed = model_from_fields({**SHAPE, **EIGHT, "ffn": 64, "layers": 4, "dense_layers": [2, 0, 2, 9]}, "m")
    assert listed.dense_layers == (0, 2)
    leading = model_from_fields({**SHAPE, **EIGHT, "ffn": 64, "layers": 4, "dense_layers": 2}, "m")
    assert leading.dense_layers == (0, 1)
    assert listed.parameters == leading.parameters


def test_inline_latent_attention_is_that_of_the_bundled_deepseek():
    fields = {
        "layers": 61, "hidden": 7168, "heads": 128, "ffn": 18432, "vocab": 129280, "experts": 256,
        "experts_per_token": 8, "expert_ffn": 2048, "shared_ffn": 2048, "dense_layers": 3, **WIDTHS,
    }  # fmt: skip
    assert model_from_fields(fields, "m").parameters == bundled_model("deepseek-v3").parameters == 671_026_404_352


def test_grouped_product_bytes():
    op = GroupedGemm(name="e", groups=4, rows=100, n=8, k=16, busiest=30, dtype=DType.BF16)
    assert op.flops == 2 * 100 * 8 * 16
    assert op.bytes == 2 * (100 * (8 + 16) + 4 * 8 * 16)
