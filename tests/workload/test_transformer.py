from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.dtypes import DType
from simgpu.errors import ScenarioError
from simgpu.workload.bundled import bundled_model
from simgpu.workload.inline import model_from_fields
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange, GradientReady, Join
from tests.workload.generations import alike

GPT = {"positions": "learned", "max_positions": 8192, "norm": "layernorm", "mlp": "gelu"} | dict.fromkeys(
    ("qkv_bias", "output_bias", "mlp_bias", "tied_embeddings"), True
)
NEOX = {"norm": "layernorm", "mlp": "gelu", "qkv_bias": True, "mlp_bias": True, "parallel_residual": True}
SHAPE = {"layers": 3, "hidden": 512, "heads": 8, "kv_heads": 4, "ffn": 2048, "vocab": 1000}
MODELS = {
    "llama": model_from_fields(SHAPE, "llama-like"),
    "qwen3": model_from_fields({**SHAPE, "qk_norm": True, "head_dim": 128}, "qwen3-like"),
    "gpt": model_from_fields({**SHAPE, **GPT, "kv_heads": 8}, "gpt-like"),
    "relu": model_from_fields({**SHAPE, **GPT, "kv_heads": 8, "mlp": "relu"}, "opt-like"),
    "neox": model_from_fields({**SHAPE, **NEOX}, "neox-like"),
}
LAYOUTS = [(1, False), (2, False), (2, True), (4, True), (8, False)]


def training(**changes):
    return Training(**({"sequence_length": 256, "micro_batch_size": 2, "accumulation": 1} | changes))


def units(name="llama", tp=1, sequence_parallel=False, **changes):
    return alike(MODELS[name], training(**changes), tp=tp, sequence_parallel=sequence_parallel)


def each(built):
    return (built.embedding, built.block, built.head)


def exchanges(items):
    return Counter(item.kind for item in items if isinstance(item, Exchange))


def ops(items, kind):
    return [item for item in items if isinstance(item, kind)]


@pytest.mark.parametrize("name", MODELS)
def test_units_hold_the_models_parameters(name):
    model, built = MODELS[name], units(name)
    assert built.block.elements == model.block_parameters
    assert built.embedding.elements + model.layers * built.block.elements + built.head.elements == model.parameters


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("tp", "sequence_parallel"), LAYOUTS)
def test_ranks_hold_equal_shares(name, tp, sequence_parallel):
    whole = {p.name: p for p in units(name).block.parameters}
    model = MODELS[name]
    for p in units(name, tp, sequence_parallel).block.parameters:
        if p.replicated:
            assert p.elements == p.total == whole[p.name].elements
        elif not p.name.startswith("attention.qkv") or tp <= model.kv_heads:
            assert p.elements * tp == p.total == whole[p.name].total


def test_fewer_key_value_heads_than_ranks_are_copied():
    (qkv,) = (p for p in units("llama", tp=8).block.parameters if p.name == "attention.qkv.weight")
    assert qkv.elements == (1 + 2 * 1) * 64 * 512  # one query head, one key and one value head
    assert qkv.total == (8 + 2 * 4) * 64 * 512


def test_vocabulary_is_padded_only_when_split():
    assert units().embedding.parameters[0].elements == 1000 * 512
    table = units(tp=2).embedding.parameters[0]
    assert (table.elements, table.total) == (512 * 512, 1000 * 512)  # 1024 rows: next multiple of 256
    assert units(tp=8).embedding.parameters[0].elements == 128 * 512


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("tp", "sequence_parallel"), LAYOUTS)
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_gradients_come_once_and_exchanges_are_joined(name, tp, sequence_parallel, recompute):
    for unit in each(units(name, tp, sequence_parallel, recompute=recompute)):
        marked = [name for item in ops(unit.backward, GradientReady) for name in item.parameters]
        assert sorted(marked) == sorted(p.name for p in unit.parameters)
        assert not ops(unit.forward + unit.recompute, GradientReady)
        for items in (unit.forward, unit.recompute + unit.backward):
            pending = set()
            for item in items:
                if isinstance(item, Exchange):
                    assert tp > 1
                    assert item.tag not in pending
                    pending.add(item.tag)
                elif isinstance(item, Join):
                    pending.remove(item.tag)
            assert not pending
            tags = [item.tag for item in items if isinstance(item, Exchange)]
            assert len(tags) == len(set(tags))


def test_gradients_come_in_backward_order():
    ready = [name for item in ops(units("gpt").block.backward, GradientReady) for name in item.parameters]
    assert [name for name in ready if name.endswith("weight")] == [
        "mlp.down.weight",
        "mlp.up.weight",
        "norm2.weight",
        "attention.out.weight",
        "attention.qkv.weight",
        "norm1.weight",
    ]


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt", "relu"])
def test_exchanges_per_block(name):
    plain, scattered = units(name, 2, False).block, units(name, 2, True).block
    assert exchanges(plain.forward) == {"all_reduce": 2}
    assert exchanges(plain.backward) == {"all_reduce": 2}
    assert exchanges(scattered.forward) == {"all_gather": 2, "reduce_scatter": 2}
    assert exchanges(scattered.backward) == {"all_gather": 4, "reduce_scatter": 2}
    for block in (plain, scattered):
        payloads = {item.bytes for item in block.forward + block.backward if isinstance(item, Exchange)}
        assert payloads == {2 * 512 * 512}  # E T h


def test_parallel_residual_sums_before_one_exchange():
    plain, scattered = units("neox", 2, False).block, units("neox", 2, True).block
    assert exchanges(plain.forward) == {"all_reduce": 1}
    assert exchanges(plain.backward) == {"all_reduce": 2}
    assert exchanges(scattered.forward) == {"all_gather": 2, "reduce_scatter": 1}
    assert exchanges(scattered.backward) == {"all_gather": 3, "reduce_scatter": 2}


def test_overlaps_are_megatrons():
    def order(block):
        return [
            (type(item).__name__, getattr(item, "name", None) or item.tag)
            for item in block.backward
            if not isinstance(item, GradientReady | MemoryBound)
        ]

    plain = order(units("llama", 2, False).block)
    start = plain.index(("Gemm", "mlp.gate_up.dgrad"))
    assert plain[start : start + 4] == [
        ("Gemm", "mlp.gate_up.dgrad"),
        ("Exchange", "mlp.gate_up.dgrad_reduce"),
        ("Gemm", "mlp.gate_up.wgrad"),
        ("Join", "mlp.gate_up.dgrad_reduce"),
    ]
    scattered = order(units("llama", 2, True).block)
    start = scattered.index(("Exchange", "mlp.gate_up.regather"))
    assert scattered[start : start + 6] == [
        ("Exchange", "mlp.gate_up.regather"),
        ("Gemm", "mlp.gate_up.dgrad"),
        ("Join", "mlp.gate_up.regather"),
        ("Exchange", "mlp.gate_up.dgrad_scatter"),
        ("Gemm", "mlp.gate_up.wgrad"),
        ("Join", "mlp.gate_up.dgrad_scatter"),
    ]


def test_exchanges_of_embedding_and_head():
    plain, scattered = units("gpt", 2, False), units("gpt", 2, True)
    assert exchanges(plain.embedding.forward) == {"all_reduce": 1}
    assert not exchanges(plain.embedding.backward)
    assert exchanges(scattered.embedding.forward) == {"reduce_scatter": 1}
    assert exchanges(scattered.embedding.backward) == {"all_gather": 1}
    small = [item.bytes for item in plain.head.forward if isinstance(item, Exchange)]
    assert small == [4 * 512] * 3
    assert exchanges(plain.head.backward) == {"all_reduce": 1}
    assert exchanges(scattered.head.forward) == {"all_gather": 1, "all_reduce": 3}
    assert exchanges(scattered.head.backward) == {"all_gather": 1, "reduce_scatter": 1}


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(MODELS)),
    sequence=st.sampled_from([128, 384, 1024]),
    batch=st.integers(1, 4),
    tp=st.sampled_from([1, 2, 4]),
)
def test_flops_are_the_models(name, sequence, batch, tp):
    model = MODELS[name]
    built = alike(model, training(sequence_length=sequence, micro_batch_size=batch), tp=tp, sequence_parallel=False)
    tokens = sequence * batch
    gemms = sum(
        count * item.flops
        for unit, count in ((built.embedding, 1), (built.block, model.layers), (built.head, 1))
        for item in ops(unit.forward + unit.backward, Gemm)
    )
    padding = (built.embedding.parameters[0].elements * tp - model.vocab * model.hidden) * 6 * tokens
    assert gemms * tp - padding == 6 * model.matmul_parameters * tokens
    forward = sum(item.flops for item in ops(built.block.forward, Attention))
    backward = sum(item.flops for item in ops(built.block.backward, Attention))
    # a causal kernel does half; its backward does 2.5 times the forward, of which the model needs 2
    square = 4 * model.layers * sequence * model.heads * model.head_dim * tokens
    assert 2 * forward * model.layers * tp == square
    assert backward * 2 == forward * 5
    assert model.model_flops_per_token(sequence) * tokens == gemms * tp - padding + 3 * square


@pytest.mark.parametrize(("tp", "sequence_parallel"), LAYOUTS)
def test_saved_bytes_of_llama(tp, sequence_parallel):
    model, tokens = MODELS["llama"], 512
    q = tp if sequence_parallel else 1
    heads, kv = model.heads // tp, max(model.kv_heads // tp, 1)
    # norm inputs and GEMM inputs, q k v, attention output, statistics, gate and up, SwiGLU output
    expected = 4 * 2 * tokens * 512 // q
    expected += 2 * tokens * (heads + 2 * kv) * 64 + 2 * tokens * heads * 64 + 4 * tokens * heads
    expected += 2 * tokens * 3 * 2048 // tp
    built = units("llama", tp, sequence_parallel)
    assert built.block.saved_bytes == expected
    assert built.block.output_bytes == 2 * tokens * 512 // q


def test_saved_bytes_of_gpt_are_korthikantis():
    # s b h (34 + 5 a s / h), without dropout's two masks of 1 B and with flash attention: 32 s b h + statistics
    model, tokens = MODELS["gpt"], 512
    assert units("gpt").block.saved_bytes == 32 * tokens * 512 + 4 * tokens * model.heads
    # tensor parallel: 10 + 24/t, of the 10 two are masks; with sequence parallelism all is divided
    assert units("gpt", 4).block.saved_bytes == (8 + 24 // 4) * tokens * 512 + tokens * model.heads
    assert units("gpt", 4, True).block.saved_bytes == 8 * tokens * 512 + tokens * model.heads


def test_saved_bytes_of_other_layouts():
    gpt, stream = units("gpt").block.saved_bytes, 2 * 512 * 512
    assert gpt - units("relu").block.saved_bytes == 2 * 512 * 2048  # ReLU's input can be told from its output
    half_the_kv_heads = 2 * 512 * 2 * 4 * 64
    assert gpt - units("neox").block.saved_bytes == half_the_kv_heads + stream  # both norms read one input
    query_and_key = 2 * 512 * (8 + 4) * 128
    wider_heads = 2 * 512 * (2 * 8 + 2 * 4) * 64
    assert units("qwen3").block.saved_bytes - units("llama").block.saved_bytes == query_and_key + wider_heads


@pytest.mark.parametrize(("recompute", "measured_mib"), [("none", 514.56), ("full", 32.0)])
def test_saved_bytes_of_a_measured_layer(recompute, measured_mib):
    # PKU-DAIR/Hetu-Galvatron memory profile of llama2-7b, sequence 2048, tp 1: what one more layer adds per GPU. The
    # checkpointed run adds 2 s b h for two sequences, so the other is of two sequences as well
    batch = training(sequence_length=2048, micro_batch_size=2, recompute=recompute)
    built = alike(bundled_model("llama-2-7b"), batch, tp=1, sequence_parallel=False)
    assert built.block.saved_bytes / 2**20 == pytest.approx(measured_mib, rel=1e-3)


def test_recomputation_moves_bytes_and_work():
    none, selective, full = (units("llama", 2, True, recompute=mode).block for mode in ("none", "selective", "full"))
    stream = 2 * 512 * 512 // 2
    assert full.saved_bytes == stream
    assert full.saved_bytes + full.recomputed_bytes == none.saved_bytes + stream, "and the output"
    assert (none.late_bytes, selective.late_bytes, full.late_bytes) == (stream, stream, 4 * stream)
    assert exchanges(full.recompute) == exchanges(full.forward)
    assert sum(i.flops for i in ops(full.recompute, Gemm)) == sum(i.flops for i in ops(full.forward, Gemm))
    statistics = 4 * 512 * 4
    assert none.saved_bytes - selective.saved_bytes == statistics
    assert selective.recomputed_bytes == statistics + 2 * 512 * 256
    assert selective.recompute == tuple(ops(selective.forward, Attention))
    assert none.recompute == ()
    assert not units("llama", recompute="full").head.recompute


def test_logits_and_loss_bytes():
    head = units("llama").head
    logits = 512 * 1000
    assert head.logits_bytes == 6 * logits, "bf16 logits and their fp32 softmax"
    assert head.backward_bytes == 4 * logits, "the fp32 gradient"
    loss = [item.bytes for item in head.forward + head.backward if getattr(item, "name", "").startswith("loss.")]
    assert sum(loss) == 52 * logits


def test_elementwise_bytes_by_hand():
    sizes = {item.name: item.bytes for item in ops(units().block.forward + units().block.backward, MemoryBound)}
    tokens, hidden, ffn = 512, 512, 2048
    assert sizes["norm1"] == 4 * tokens * hidden
    assert sizes["norm1.backward"] + sizes["norm1.weight_gradient"] == 10 * tokens * hidden
    assert sizes["attention.rope"] == 4 * tokens * (8 + 4) * 64
    assert sizes["attention.residual"] == sizes["mlp.residual_gradient"] == 6 * tokens * hidden
    assert (sizes["mlp.swiglu"], sizes["mlp.swiglu.backward"]) == (6 * tokens * ffn, 10 * tokens * ffn)


def test_tied_head_gives_its_gradient_twice():
    built = units("gpt")
    (head,) = (p for p in built.head.parameters if p.name == "head.weight")
    assert head.tied == "embedding.weight"
    assert built.head.elements == 2 * 512
    assert any("embedding.weight" in item.parameters for item in ops(built.embedding.backward, GradientReady))


def test_autocast_casts_each_weight_once():
    model = MODELS["llama"]
    plain = units("llama").block
    cast = alike(model, training(), tp=1, sequence_parallel=False, cast_weights=True).block
    casts = [item.bytes for item in ops(cast.forward, MemoryBound) if item.name.endswith(".cast")]
    assert sum(casts) == 6 * model.block_matmul_parameters
    assert cast.saved_bytes - plain.saved_bytes == 2 * model.block_matmul_parameters
    same = training(param_dtype=DType.BF16)
    assert alike(model, same, tp=1, sequence_parallel=False, cast_weights=True) == alike(
        model, same, tp=1, sequence_parallel=False
    )


@pytest.mark.parametrize(
    ("name", "tp", "changes", "message"),
    [
        ("llama", 3, {}, "does not divide the 8 attention heads"),
        ("llama", 3, {}, "does not divide the 2048 MLP columns"),
        ("llama", 3, {}, "neither divides the 4 key/value heads"),
        ("llama", 0, {}, "at least 1"),
        ("llama", 8, {"sequence_length": 255, "micro_batch_size": 1}, "255 tokens of a micro-batch cannot be split"),
        ("gpt", 1, {"sequence_length": 8193}, "longer than the position table"),
        ("llama", 1, {"precision": DType.FP8}, "no format of activations"),
    ],
)
def test_refusals(name, tp, changes, message):
    with pytest.raises(ScenarioError, match=message):
        units(name, tp, True, **changes)


def test_sliding_window_limits_the_sequence():
    model = model_from_fields({**SHAPE, "sliding_window": 256}, "windowed")
    alike(model, training(), tp=1, sequence_parallel=False)
    with pytest.raises(ScenarioError, match="sliding attention window"):
        alike(model, training(sequence_length=257), tp=1, sequence_parallel=False)
