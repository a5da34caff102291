import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simgpu.costs.attention import attention_ns
from simgpu.costs.attention_kernel import WIDTHS, attention_kernel
from simgpu.costs.constants import device_rows
from simgpu.costs.gemm import gemm_constants
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu, gpu_names
from simgpu.workload.op import Attention

A100, H100, B200 = gpu("A100-SXM4-80GB"), gpu("H100-SXM5-80GB"), gpu("B200-SXM-180GB")
DEVICES = [A100, H100, B200, gpu("V100-SXM2-32GB"), gpu("RTX-4090"), gpu("MI300X")]
FIELDS = {"name": "x", "batch": 2, "sequence": 4096, "heads": 16, "kv_heads": 16, "head_dim": 128}
PAIR_NS = 4 * 128**3 * 108 / 234.3e3  # 128 x 128 scores of heads 128 wide on one SM of an A100
BYTES_PER_NS = 2039 * A100.hbm_efficiency
LAUNCH_NS = gemm_constants(A100).launch_latency_ns


def core(**changes):
    return Attention(**(FIELDS | changes))


def tflops(op, device):
    return op.flops / attention_ns(op, device) / 1000


def test_causal_forward_by_hand():
    # 32 heads of 4096 tokens: 32 rows of 128-token tiles, 528 pairs a head
    row_ns = 32 * PAIR_NS + 3800
    work_ns = 32 * (528 * PAIR_NS + 32 * 3800)
    op = core(batch=1, heads=32, kv_heads=32)
    assert attention_ns(op, A100) == pytest.approx(LAUNCH_NS + work_ns / 108 + 0.6 * row_ns)


def test_full_forward_has_no_diagonal():
    row_ns = 32 * PAIR_NS + 3800
    op = core(batch=1, heads=32, kv_heads=32, causal=False)
    assert attention_ns(op, A100) == pytest.approx(LAUNCH_NS + 32 * 32 * row_ns / 108 + 0.6 * row_ns)


def test_one_head_runs_a_row_on_each_sm():
    row_ns = 32 * PAIR_NS + 3800
    assert attention_ns(core(batch=1, heads=1, kv_heads=1), A100) == pytest.approx(LAUNCH_NS + 1.4 * row_ns)


def test_backward_by_hand():
    # rows of keys: five products at .85 of the forward rate, twice the prologue, 14 B per query element around them
    pair_ns = 2.5 / 0.85 * PAIR_NS
    row_ns = 32 * pair_ns + 7600
    work_ns = 32 * (528 * pair_ns + 32 * 7600)
    around_ns = 2 * LAUNCH_NS + 32 * 4096 * 128 * 14 / BYTES_PER_NS
    op = core(batch=1, heads=32, kv_heads=32, backward=True)
    assert attention_ns(op, A100) == pytest.approx(LAUNCH_NS + work_ns / 108 + 0.3 * row_ns + around_ns)


def test_grouped_heads_sum_their_gradients():
    # key and value gradients of 16 heads are read, those of 4 written: 2 x 4096 tokens x 20 heads x 2 x 128 x 2 B
    alone, grouped = (attention_ns(core(kv_heads=kv, backward=True), A100) for kv in (16, 4))
    assert grouped - alone == pytest.approx(2 * 4096 * 20 * 2 * 128 * 2 / BYTES_PER_NS)
    assert attention_ns(core(kv_heads=4), A100) == attention_ns(core(), A100)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("device", "kernel"), [(H100, "flash-3"), (H100, "flash-2"), (H100, "cudnn"), (A100, "")])
def test_long_sequences_reach_the_kernels_rate(device, kernel, width):
    rates = dict(zip(WIDTHS, attention_kernel(device, kernel).rates, strict=True))
    op = core(batch=8, sequence=65536, heads=64, kv_heads=64, head_dim=width, causal=False, kernel=kernel)
    assert 0.95 < tflops(op, device) / (rates[width] * device.gemm_tflops) < 1


def test_softmax_weighs_more_in_narrow_heads():
    # the same FLOPs: 16 heads of 128 or 32 of 64
    assert tflops(core(heads=32, kv_heads=32, head_dim=64), H100) < 0.8 * tflops(core(), H100)


def test_widths_are_padded():
    assert attention_ns(core(head_dim=72), A100) == attention_ns(core(head_dim=96), A100)
    assert attention_ns(core(head_dim=64), A100) < attention_ns(core(head_dim=96), A100) < attention_ns(core(), A100)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("backward", [False, True])
def test_a_narrower_value_is_between(device, backward):
    narrow, mixed, wide = (
        attention_ns(core(head_dim=d, value_dim=v, backward=backward), device)
        for d, v in ((128, None), (192, 128), (192, None))
    )
    assert narrow < mixed < wide


def test_backward_has_three_products_of_the_query_width_and_two_of_the_value_width():
    def products_ns(width, value):
        op = core(batch=64, head_dim=width, value_dim=value, backward=True)
        around_ns = 64 * 16 * 4096 * (4 * value + 10 * width) / BYTES_PER_NS
        return attention_ns(op, A100) - around_ns

    assert attention_ns(core(head_dim=192, value_dim=128), A100) == attention_ns(
        core(head_dim=128, value_dim=192), A100
    )
    # 3 x 192 + 2 x 128 against 3 x 128 + 2 x 192, less prologues and launches
    assert products_ns(192, 128) / products_ns(128, 192) == pytest.approx(832 / 768, abs=0.01)


@pytest.mark.parametrize("name", gpu_names())
def test_narrow_heads_are_never_faster(name):
    for row in device_rows("attention", gpu(name)):
        kernel = attention_kernel(gpu(name), row["kernel"])
        assert 32 / kernel.effort(32) <= 64 / kernel.effort(64) * (1 + 1e-9)


def test_cross_attention_covers_the_rectangle():
    short, long = (
        attention_ns(core(batch=64, sequence=1024, kv_sequence=keys, causal=False), A100) for keys in (4096, 8192)
    )
    assert 1.9 < long / short < 2
    assert attention_ns(core(kv_sequence=4096), A100) == attention_ns(core(), A100)


def test_a_window_leaves_a_band():
    whole, half, narrow = (attention_ns(core(sequence=16384, window=w), A100) for w in (16384, 8192, 1024))
    assert whole == attention_ns(core(sequence=16384), A100)
    assert 0.7 < half / whole < 0.85  # 3/4 of the scores
    assert narrow < half / 4
    assert core(sequence=16384, window=16384).flops == core(sequence=16384).flops
    assert core(sequence=16384, window=8192).flops * 4 == core(sequence=16384).flops * 3


def test_backward_rate_grows_with_the_sequence_as_published():
    # H100, .61-.69 at 512, .75-.80 at 2048, .84-.87 from 8192 (arXiv 2407.08608), heads of 128
    for sequence, low, high in ((512, 0.61, 0.72), (2048, 0.75, 0.81), (8192, 0.83, 0.87), (16384, 0.84, 0.87)):
        for kernel in ("flash-3", "cudnn"):
            shape = {"batch": 16384 // sequence, "sequence": sequence, "kernel": kernel}
            ratio = tflops(core(**shape, backward=True), H100) / tflops(core(**shape), H100)
            assert low < ratio < high, (sequence, kernel)


def test_fp8_follows_the_matrix_rate():
    # close to 1.2 PFLOP/s at a width of 256 on H100: arXiv 2407.08608, abstract
    op = core(batch=1, sequence=16384, heads=8, kv_heads=8, head_dim=256, causal=False, dtype=DType.FP8)
    assert 1150 < tflops(op, H100) < 1300


def test_kernels_rank_as_on_the_device():
    def rate(kernel):
        return tflops(core(kernel=kernel), H100)

    assert rate("flash-1") < rate("flash-2") < rate("cudnn") < rate("flash-3") == rate("")
    assert attention_ns(core(kernel="flash-3"), A100) == attention_ns(core(kernel="flash-2"), A100)


@pytest.mark.parametrize("name", gpu_names())
def test_every_row_of_constants_is_sound(name):
    for row in device_rows("attention", gpu(name)):
        assert row["flag"] in "MDA"
        assert row["source"]
        assert 0 < float(row["backward_wide"]) <= float(row["backward"]) <= 1
        op = core(kernel=row["kernel"])
        assert 0 < tflops(op, gpu(name)) < gpu(name).peak_tflops(DType.BF16)


@settings(max_examples=100, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    batch=st.integers(1, 8),
    sequence=st.integers(1, 20000),
    heads=st.sampled_from([1, 4, 16]),
    head_dim=st.sampled_from([32, 64, 80, 128, 192, 256, 512]),
    causal=st.booleans(),
    backward=st.booleans(),
    grown=st.sampled_from(["batch", "sequence", "heads", "head_dim", "kv_sequence"]),
)
def test_more_never_takes_less(device, batch, sequence, heads, head_dim, causal, backward, grown):
    assume(not (grown == "kv_sequence" and causal))
    sizes = {
        "batch": batch, "sequence": sequence, "heads": heads, "kv_heads": heads, "head_dim": head_dim,
        "causal": causal, "backward": backward,
    }  # fmt: skip
    more = {grown: 2 * sizes.get(grown, sequence)}
    if grown == "heads":
        more["kv_heads"] = 2 * heads
    assert 0 < attention_ns(core(**sizes), device) <= attention_ns(core(**(sizes | more)), device)


@settings(max_examples=60, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    sequence=st.integers(1, 20000),
    window=st.integers(1, 20000),
    backward=st.booleans(),
)
def test_a_window_never_takes_more(device, sequence, window, backward):
    whole = attention_ns(core(sequence=sequence, backward=backward), device)
    banded = attention_ns(core(sequence=sequence, backward=backward, window=window), device)
    assert banded <= whole
    assert attention_ns(core(sequence=sequence, backward=backward, window=2 * window), device) >= banded


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("sequence", [512, 1000, 4096, 16384])
def test_orders(device, sequence):
    def time(**changes):
        return attention_ns(core(sequence=sequence, **changes), device)

    assert time() <= time(causal=False) < 2.1 * time()  # equal when every SM has one row at the most
    assert time() < time(backward=True)
    assert tflops(core(sequence=sequence), device) < device.peak_tflops(DType.BF16)
