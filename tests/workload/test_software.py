"""Software generations: what each op reads, writes and keeps, and how many kernels it is."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simgpu.costs.compute import price
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu
from simgpu.workload.attention_core import SCORES_AT_ONCE, core_piece
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.shard import Shard
from simgpu.workload.software import PRESETS, Software
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange
from tests.workload.generations import BATCH, GPT, HIDDEN, SEQUENCE, TOKENS, moved, units

A100 = gpu("A100-SXM4-80GB")


def test_presets_are_what_their_releases_fused():
    fusions = {
        name: {
            field
            for field in Software.__dataclass_fields__
            if field.startswith(("fused_", "flash_", "loss_", "dummy_")) and getattr(software, field)
        }
        for name, software in PRESETS.items()
    }
    megatron = {"fused_norm", "fused_bias_activation", "fused_bias_dropout_residual"}
    flash = megatron | {"flash_attention", "fused_rope", "fused_swiglu"}
    assert fusions == {
        "eager": set(),
        "megatron-2021": megatron,
        "megatron-2022": megatron | {"fused_wgrad_accumulation"},
        "megatron-2023": megatron - {"fused_norm"} | {"fused_wgrad_accumulation", "flash_attention"},
        "composer-2023": {"flash_attention", "fused_norm", "fused_bias_activation", "fused_cross_entropy"},
        "flash": flash,
        "te": flash | {"fused_cross_entropy", "loss_in_place", "fused_wgrad_accumulation", "dummy_gradients"},
        "compile": flash | {"fused_cross_entropy", "fused_scaling"},
    }
    assert all(software.name == name for name, software in PRESETS.items())
    unfused = {name: software.softmax for name, software in PRESETS.items() if not software.flash_attention}
    assert unfused == {"eager": "fp32", "megatron-2021": "fused", "megatron-2022": "fused"}


def test_composer_of_2023_runs_the_attention_of_its_day():
    def core_ns(preset, sequence):
        block = units(preset, GPT, sequence_length=sequence).block
        return sum(price(op, A100) for op in block.forward + block.backward if isinstance(op, Attention))

    assert 1.5 < core_ns("composer-2023", 4096) / core_ns("flash", 4096) < 2.5
    assert core_ns("megatron-2023", 4096) == core_ns("flash", 4096)


def test_scores_that_the_fused_softmax_does_not_take_go_to_pytorch():
    def names(tp, batch):
        block = units("megatron-2021", GPT, tp, sequence_length=128, micro_batch_size=batch).block
        return {op.name.rpartition(".")[2] for op in block.forward if isinstance(op, MemoryBound)}

    assert "softmax_cast" not in names(2, 1)  # 4 heads of one sequence
    assert "softmax_cast" not in names(8, 4)
    assert "softmax_cast" in names(8, 2)


# Activation memory: Korthikanti et al. (arXiv 2205.05198), equations 1 to 6


@settings(max_examples=40, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    sequence=st.sampled_from([128, 384, 2048]),
    batch=st.integers(1, 4),
    precision=st.sampled_from([DType.FP16, DType.BF16]),
)
def test_a_block_keeps_what_korthikanti_counts(tp, sequence, batch, precision):
    heads, stream = 8, sequence * batch * HIDDEN
    assume(batch * heads // tp % SCORES_AT_ONCE == 0)  # what the fused softmax takes
    changes = {"sequence_length": sequence, "micro_batch_size": batch, "precision": precision, "dropout": 0.1}

    def kept(sequence_parallel, recompute):
        built = units("megatron-2022", GPT, tp, sequence_parallel, recompute=recompute, **changes)
        return built.block.saved_bytes

    scores = 5 * heads * sequence * stream // (HIDDEN * tp)
    assert kept(False, "none") == stream * 10 + stream * 24 // tp + scores  # 34 + 5 a s / h for t = 1
    assert kept(True, "none") == stream * 34 // tp + scores
    assert kept(False, "selective") == stream * 10 + stream * 24 // tp
    assert kept(True, "selective") == stream * 34 // tp
    assert kept(False, "full") == 2 * stream
    assert kept(True, "full") == 2 * stream // tp


def test_flash_attention_keeps_statistics_in_place_of_scores():
    with_dropout = units("flash", GPT, dropout=0.1).block.saved_bytes
    assert with_dropout == 34 * TOKENS * HIDDEN + 4 * TOKENS * 8
    assert with_dropout - units("flash", GPT).block.saved_bytes == 2 * TOKENS * HIDDEN  # the masks of two residuals


def test_dropout_of_the_embedding_keeps_a_mask():
    plain, dropped = units("flash", GPT).embedding, units("flash", GPT, dropout=0.1).embedding
    assert dropped.saved_bytes - plain.saved_bytes == TOKENS * HIDDEN
    assert moved(dropped.forward, "embedding.dropout") == (5 * TOKENS * HIDDEN, 1)
    assert moved(dropped.backward, "embedding.dropout") == (5 * TOKENS * HIDDEN, 1)


@pytest.mark.parametrize(
    ("preset", "dropout", "per_score"),
    [
        ("megatron-2021", 0.1, 2 + 1 + 2),  # softmax output, mask, output of dropout
        ("megatron-2021", 0.0, 2),
        ("eager", 0.1, 4 + 1 + 2),  # softmax output in fp32, mask, output of dropout
        ("eager", 0.0, 4 + 2),  # softmax output in fp32 and cast
    ],
)
def test_scores_kept(preset, dropout, per_score):
    whole, freed = (units(preset, GPT, dropout=dropout, recompute=mode).block for mode in ("none", "selective"))
    scores = BATCH * 8 * SEQUENCE**2
    assert whole.saved_bytes - freed.saved_bytes == per_score * scores
    output = 2 * TOKENS * HIDDEN
    assert freed.recomputed_bytes == per_score * scores + output


# Unfused attention


def test_unfused_attention_is_two_gemms_forward_and_four_backward_on_all_scores():
    block = units("megatron-2021", GPT).block
    square = 2 * BATCH * 8 * SEQUENCE**2 * 64
    forward = [item for item in block.forward if isinstance(item, Gemm) and item.name.startswith("attention.core")]
    backward = [item for item in block.backward if isinstance(item, Gemm) and item.name.startswith("attention.core")]
    assert [(op.m, op.n, op.k, op.batch) for op in forward] == [(256, 256, 64, 16), (256, 64, 256, 16)]
    assert [op.flops for op in forward + backward] == [square] * 6
    assert not any(isinstance(item, Attention) for item in block.forward + block.backward)


@pytest.mark.parametrize(
    ("preset", "forward", "backward"),
    [
        # per score, forward and backward: fused softmax 3 and 4, which read half of an operand, dropout 5 and 5
        ("megatron-2021", (3 + 5, 2), (4 + 5, 2)),
        # mask 4, softmax 4, dropout 5; dropout 5, softmax 6
        (replace(PRESETS["eager"], softmax="half"), (4 + 4 + 5, 3), (5 + 6, 2)),
        # scale 4, mask 4, softmax 2 + 4, cast 6, dropout 5; dropout 5, cast 6, softmax 4 + 4 + 2, scale 4
        ("eager", (4 + 4 + 6 + 6 + 5, 5), (5 + 6 + 10 + 4, 4)),
    ],
)
def test_traffic_of_scores_by_hand(preset, forward, backward):
    scores = BATCH * 8 * SEQUENCE**2
    block = units(preset, GPT, dropout=0.1).block
    names = ("softmax", "dropout", "scale", "mask")
    for items, expected in ((block.forward, forward), (block.backward, backward)):
        found = [moved(items, f"attention.core.{name}") for name in names]
        assert (sum(size for size, _ in found), sum(kernels for _, kernels in found)) == (
            expected[0] * scores,
            expected[1],
        )


@pytest.mark.parametrize(("softmax", "forward", "backward"), [("fused", 4, 6), ("half", 4, 6), ("fp32", 20, 20)])
def test_without_a_causal_mask_all_scores_are_read(softmax, forward, backward):
    core = Attention(name="core", batch=1, sequence=64, heads=8, kv_heads=8, head_dim=64, causal=False)
    software = replace(PRESETS["eager"], softmax=softmax)
    training = Training(sequence_length=64, micro_batch_size=1, accumulation=1, precision=DType.BF16)
    piece = core_piece(Shard(model=GPT, tp=1, sequence_parallel=False, software=software, training=training), core)
    for items, per_score in ((piece.forward, forward), (piece.backward, backward)):
        sizes = [moved(items, f"core.{name}")[0] for name in ("softmax", "scale", "mask")]
        assert sum(sizes) == per_score * 8 * 64**2


def test_shared_heads_are_repeated_without_flash_attention():
    block = units("megatron-2021").block
    one_tensor = 2 * TOKENS * 64  # bytes per head
    assert moved(block.forward, "attention.core.repeat_heads") == (2 * (2 + 8) * one_tensor, 2)
    without = replace(PRESETS["megatron-2021"], flash_attention=True)
    scores, statistics = 2 * BATCH * 8 * SEQUENCE**2, 4 * TOKENS * 8
    repeated = 2 * (8 - 2) * one_tensor
    assert block.saved_bytes - units(without).block.saved_bytes == scores + repeated - statistics


def test_scores_gradients_are_the_widest_point_of_backward_for_long_sequences():
    long = {"sequence_length": 2048, "micro_batch_size": 1}
    stream, scores = 2 * 2048 * HIDDEN, 8 * 2048**2
    assert units("megatron-2021", GPT, **long).block.backward_bytes == 4 * scores + 2 * stream
    assert units("eager", GPT, **long).block.backward_bytes == 6 * scores + 2 * stream
    assert units("flash", GPT, **long).block.backward_bytes == 2 * 2048 * 2048 + 2 * stream


# Elementwise chains


@pytest.mark.parametrize(
    ("op", "elements", "forward", "backward"),
    [
        # bytes per element and kernels: fused, then eager
        ("attention.rope", TOKENS * (8 + 2) * 64, ((4, 1), (20, 10)), ((4, 1), (30, 18))),
        ("mlp.swiglu", TOKENS * 1024, ((6, 1), (10, 2)), ((10, 1), (26, 4))),
    ],
)
def test_llama_chains_by_hand(op, elements, forward, backward):
    for preset, ahead, back in zip(("flash", "eager"), forward, backward, strict=True):
        block = units(preset).block
        assert moved(block.forward, op) == (ahead[0] * elements, ahead[1])
        assert moved(block.backward, op) == (back[0] * elements, back[1])


def test_eager_rms_norm_is_a_chain_in_fp32():
    fused, eager = units("flash").block, units("eager").block
    elements, rows = TOKENS * HIDDEN, TOKENS
    assert moved(fused.forward, "norm1") == (4 * elements, 1)
    assert moved(eager.forward, "norm1") == (36 * elements + 16 * rows, 8)
    assert moved(fused.backward, "norm1") == (10 * elements, 2)
    assert moved(eager.backward, "norm1") == (76 * elements + 32 * rows, 15)


def test_layer_norm_is_one_kernel_everywhere():
    for preset in PRESETS:
        assert moved(units(preset, GPT).block.forward, "norm1") == (4 * TOKENS * HIDDEN, 1)


def test_eager_gelu_is_a_chain():
    elements = TOKENS * 2048
    fused, eager = units("flash", GPT).block, units("eager", GPT).block
    assert moved(fused.forward, "mlp.gelu") == (4 * elements, 1)
    assert moved(eager.forward, "mlp.gelu") == (36 * elements, 8)
    assert moved(eager.backward, "mlp.gelu") == (56 * elements, 11)


@pytest.mark.parametrize(
    ("preset", "tp", "dropout", "expected"),
    [
        ("flash", 1, 0.0, (6, 1)),
        ("flash", 1, 0.1, (7, 1)),  # r2 r2 w2 and the mask
        ("eager", 1, 0.1, (5 + 6, 2)),
        ("eager", 2, 0.1, (4 + 5 + 6, 3)),  # the bias after the sum over tp
        ("eager", 2, 0.0, (4 + 6, 2)),
    ],
)
def test_bias_dropout_residual(preset, tp, dropout, expected):
    block = units(preset, GPT, tp, dropout=dropout).block
    names = ("mlp.bias", "mlp.dropout", "mlp.residual")
    found = [moved(block.forward, name) for name in names]
    size, kernels = expected
    assert [sum(column) for column in zip(*found, strict=True)] == [size * TOKENS * HIDDEN, kernels]
    assert moved(block.backward, "mlp.dropout") == ((5 * TOKENS * HIDDEN, 1) if dropout else (0, 0))
    assert moved(block.backward, "mlp.residual_gradient") == (6 * TOKENS * HIDDEN, 1)


def test_saved_bytes_of_eager_llama_by_hand():
    # fp32 input and normalised output of both norms, four GEMM inputs (two of model width), q k v, the scores in
    # fp32 and 16 bits, keys and values repeated, and gate, up and SiLU's output
    expected = 2 * 6 * TOKENS * HIDDEN + 2 * 2 * TOKENS * HIDDEN
    expected += 2 * TOKENS * (8 + 2 * 2) * 64 + 6 * BATCH * 8 * SEQUENCE**2 + 2 * 2 * TOKENS * (8 - 2) * 64
    expected += 2 * TOKENS * 8 * 64 + 2 * TOKENS * 4 * 1024
    assert units("eager").block.saved_bytes == expected


# Cross-entropy


def test_fused_cross_entropy_reads_the_logits_twice_and_keeps_them():
    """One pass for the sums (2 B) and one for the gradient (4 B); where the logits lay, a third scales it (4 B)."""
    logits = TOKENS * 1024
    for preset, size, kernels in (("flash", 52, 8), ("compile", 6, 2), ("te", 10, 3)):
        head = units(preset).head
        found = moved(head.forward, "loss"), moved(head.backward, "loss")
        assert (found[0][0] + found[1][0], found[0][1] + found[1][1]) == (size * logits, kernels)
    head = units("te").head
    assert (head.logits_bytes, head.backward_bytes) == (2 * logits, 0)


def test_reductions_of_rows_take_twice_their_bytes():
    """Megatron's unfused loss on H100, 2^13 tokens of 2^17 logits: 15.8 ms forward (linkedin/Liger-Kernel)."""
    loss = [op for op in units("megatron-2022").head.forward if getattr(op, "name", "").startswith("loss.")]
    more = (1 << 30) // (TOKENS * 1024)
    whole_ns = sum(price(replace(op, bytes=op.bytes * more), gpu("H100-SXM5-80GB")) for op in loss)
    assert whole_ns == pytest.approx(15.8e6, rel=0.03)


def test_megatrons_own_fusion_subtracts_in_the_exponential():
    native = replace(PRESETS["te"], fused_cross_entropy=False, fused_exponent=True)
    names = [op.name for op in units(native).head.forward if getattr(op, "name", "").startswith("loss.")]
    assert names == ["loss.cast", "loss.max", "loss.exp", "loss.sum", "loss.divide"]


def test_megatron_adds_the_bias_of_q_k_and_v_by_a_kernel():
    """Read and write of 3 h outputs a token, in 16 bits."""
    plain, own = (units(preset, GPT) for preset in ("eager", "megatron-2021"))
    (added,) = [op for op in own.block.forward if getattr(op, "name", "") == "attention.qkv.add_bias"]
    assert added.bytes == 4 * TOKENS * 3 * HIDDEN
    assert not [op for op in plain.block.forward if "add_bias" in getattr(op, "name", "")]


def test_composers_metrics_read_the_logits_twice_more_in_fp32():
    logits = TOKENS * 1024
    head, other = units("composer-2023").head, units("te").head
    assert moved(head.forward, "metric") == (2 * (6 + 8) * logits, 4)
    assert moved(head.backward, "metric") == moved(other.forward, "metric") == (0, 0)
    assert head.logits_bytes == other.logits_bytes


def test_fused_cross_entropy_exchanges_once():
    head = units("te", tp=2).head
    small = [item for item in head.forward if isinstance(item, Exchange)]
    assert [(item.kind, item.bytes) for item in small] == [("all_gather", 3 * 4 * TOKENS * 2)]


# Weight gradients


def test_weight_gradients_accumulate_in_the_gemm_where_gradients_have_buffers():
    def accumulating(preset, buffers, **changes):
        built = units(preset, buffers=buffers, **changes)
        wgrads = [i for i in built.block.backward + built.head.backward if isinstance(i, Gemm) and "wgrad" in i.name]
        marked = {p.accumulated for p in built.block.parameters if "norm" not in p.name}
        assert marked == {wgrads[0].accumulate_bytes > 0}
        assert not any(p.accumulated for p in built.block.parameters if "norm" in p.name)
        return {op.accumulate_bytes for op in wgrads}

    assert accumulating("megatron-2022", True) == {4}
    assert accumulating("te", True, grad_dtype=DType.BF16) == {2}
    assert accumulating("te", False) == {0}
    assert accumulating("flash", True) == {0}
    assert not units("te", buffers=True).embedding.parameters[0].accumulated
