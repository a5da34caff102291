import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.costs import gemm
from simgpu.costs.gemm import EXPOSED_READ, MISALIGNED_RATE, aligned, boost_tflops, gemm_constants, gemm_ns, products_ns
from simgpu.costs.grouped_gemm import grouped_gemm_ns
from simgpu.costs.operating_point import at_rate, held_rate, operating_point
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu
from simgpu.workload.op import Gemm, GroupedGemm

A100, H100, B200 = gpu("A100-SXM4-80GB"), gpu("H100-SXM5-80GB"), gpu("B200-SXM-180GB")
DEVICES = [A100, H100, B200, gpu("V100-SXM2-32GB"), gpu("RTX-4090"), gpu("H20-96GB")]
UNTHROTTLED = replace(A100, gemm_tflops=302.64)  # 0.97 of the datasheet: no power limit


def product(m, n, k, **changes):
    return Gemm(**({"name": "x", "m": m, "n": n, "k": k} | changes))


def square(size, **changes):
    return product(size, size, size, **changes)


def tflops(op, time_ns):
    return op.flops / time_ns / 1000


def test_one_wave_by_hand():
    # 12 x 9 tiles of 256 x 128 fill the 108 SMs of an A100 exactly once
    tile_us = 2 * 256 * 128 * 4096 * 108 / 302.64e12 * 1e6
    assert gemm_ns(product(256 * 12, 128 * 9, 4096), UNTHROTTLED) / 1000 == pytest.approx(1.3 + 5.8 + tile_us, rel=1e-9)


def test_a_part_wave_by_hand():
    # 4 x 4 tiles of 64 x 64 leave one on an SM; k is too short to split
    tile_us = 2 * 64 * 64 * 448 * 108 / (0.65 * 254e12 * 1.07) * 1e6
    assert gemm_ns(product(256, 256, 448), A100) / 1000 == pytest.approx(1.3 + 5.8 + tile_us, rel=1e-9)


@pytest.mark.parametrize(
    "sizes", [(256 * 11 + 8, 128 * 10, 4096), (256 * 12, 128 * 9 + 64, 4096), (256 * 12, 128 * 10, 4040)]
)
def test_sizes_between_tiles_cost_whole_tiles(sizes):
    # 12 x 10 tiles of 256 x 128, two waves; 11 x 10 or 12 x 9 would still be one or two
    whole = gemm_ns(product(256 * 12, 128 * 10, 4096), UNTHROTTLED)
    assert gemm_ns(product(*sizes), UNTHROTTLED) == whole


def test_power_bounds_a_full_device_by_hand():
    # one full wave, whose tiles at boost clock would take 1 / 1.07 of this
    op = product(256 * 12, 128 * 9, 65536)
    assert gemm_ns(op, A100) == pytest.approx(1300 + op.flops / 254e3)


def test_a_part_filled_wave_costs_a_wave_only_where_power_allows():
    full, spilled = (product(256 * 12, 128 * tiles, 8192) for tiles in (9, 10))
    unthrottled = gemm_ns(spilled, UNTHROTTLED) / gemm_ns(full, UNTHROTTLED)
    throttled = gemm_ns(spilled, A100) / gemm_ns(full, A100)
    assert unthrottled > throttled > 10 / 9
    assert unthrottled > 1.2


def test_rates_are_those_of_the_three_ceilings():
    assert boost_tflops(square(8), A100) == pytest.approx(1.07 * 254)
    assert boost_tflops(square(8), UNTHROTTLED) == pytest.approx(0.97 * 312)
    assert boost_tflops(square(8, dtype=DType.FP32), A100) == pytest.approx(19.1)
    at_peak = replace(A100, gemm_tflops=312.0)
    assert boost_tflops(square(8), at_peak) == 312.0


def test_products_long_both_ways_lose_power_to_memory():
    loss = gemm_constants(H100).spill
    assert loss > 0
    short, long = product(2048, 65536, 16384), product(8192, 16384, 16384)  # as many FLOPs
    assert short.flops == long.flops
    ratio = (gemm_ns(long, H100) - 1900) / (gemm_ns(short, H100) - 1900)
    side = math.sqrt(132 * 256 * 128)  # outputs of one wave of an H100
    assert ratio == pytest.approx(1 + loss * math.log2(8192 / side), rel=1e-6)


def test_memory_bounds_a_thin_product():
    op = product(64, 65536, 8192)
    floor_ns = op.bytes / (2039 * 0.869)
    assert floor_ns < gemm_ns(op, A100) < 1.1 * floor_ns


def test_split_k_helps_few_tiles_with_long_k(monkeypatch):
    op = product(256, 256, 65536)
    split = gemm_ns(op, A100)
    monkeypatch.setattr(gemm, "SPLITS", (1,))
    assert split < 0.5 * gemm_ns(op, A100)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_large_products_reach_nearly_the_sustained_rate(device):
    op = square(16384)
    assert 0.88 < tflops(op, gemm_ns(op, device)) / device.gemm_tflops <= 1


def test_sums_into_fp32_wait_for_half_of_their_reading_and_move_more():
    forward, plain, fused = (square(8192, layout=layout) for layout in ("tn", "nt", "nt"))
    fused = replace(fused, accumulate_bytes=4)
    assert gemm_ns(plain, A100) == gemm_ns(forward, A100)
    read_ns = 4 * 8192**2 / (2039 * 0.869)
    assert gemm_ns(fused, A100) - gemm_ns(forward, A100) == pytest.approx(EXPOSED_READ * read_ns)
    assert gemm_ns(replace(fused, accumulate_bytes=2), A100) == gemm_ns(forward, A100)
    thin = product(8192, 8192, 64, layout="nt", accumulate_bytes=4)
    assert thin.bytes - replace(thin, accumulate_bytes=0).bytes == 6 * 8192**2
    assert gemm_ns(thin, A100) == pytest.approx(1300 + thin.bytes / (2039 * 0.869) + EXPOSED_READ * read_ns)


@pytest.mark.parametrize(
    ("sizes", "changes", "expected"),
    [
        ((4096, 4096, 4096), {}, True),
        ((4095, 4096, 4096), {}, True),  # rows of the first operand may be any number
        ((4096, 4095, 4096), {}, False),
        ((4096, 4096, 4100), {}, False),
        ((4096, 4096, 4100), {"dtype": DType.FP32}, True),
        ((4096, 4096, 4104), {"dtype": DType.FP8}, False),
        ((4095, 4096, 4096), {"layout": "nt"}, False),
        ((4096, 4096, 4095), {"layout": "nt"}, True),
        ((4096, 4095, 4096), {"layout": "nn"}, False),
    ],
)
def test_what_is_aligned(sizes, changes, expected):
    assert aligned(product(*sizes, **changes)) is expected


def test_odd_widths_cost_what_was_measured():
    # stas00/ml-engineering, SwiGLU of width 4096 on H100: 272, 396, 398 TFLOP/s
    def time(width):
        return 2 * gemm_ns(product(16384, width, 4096), H100) + gemm_ns(product(16384, 4096, width), H100)

    assert time(10912) / time(10922) == pytest.approx(272 / 396, rel=0.01)
    assert time(10912) / time(10944) == pytest.approx(1, rel=0.01)
    assert pytest.approx(272 / 396, abs=0.01) == MISALIGNED_RATE


@settings(max_examples=150)
@given(
    device=st.sampled_from([*DEVICES, UNTHROTTLED]),
    m=st.integers(1, 64),
    n=st.integers(1, 64),
    k=st.sampled_from([256, 1024, 4096, 16384]),
    batch=st.integers(1, 4),
    axis=st.sampled_from(["m", "n", "batch"]),
    tile=st.sampled_from([64, 128, 256]),
)
def test_more_whole_tiles_never_take_less(device, m, n, k, batch, axis, tile):
    sizes = {"m": tile * m, "n": tile * n, "k": k, "batch": batch}
    step = 1 if axis == "batch" else tile
    smaller = gemm_ns(Gemm(name="x", **sizes), device)
    assert gemm_ns(Gemm(name="x", **(sizes | {axis: sizes[axis] + step})), device) >= smaller


@settings(max_examples=150)
@given(
    device=st.sampled_from([*DEVICES, UNTHROTTLED]),
    m=st.integers(1, 20000),
    n=st.integers(1, 20000),
    k=st.integers(1, 20000),
    axis=st.sampled_from(["m", "n"]),
    at=st.integers(0, 20),
    layout=st.sampled_from(gemm.LAYOUTS),
    dtype=st.sampled_from([DType.BF16, DType.FP8, DType.TF32, DType.FP32]),
    stored=st.sampled_from([0, 2, 4]),
)
def test_a_whole_tile_more_never_takes_less_from_any_size(device, m, n, k, axis, at, layout, dtype, stored):
    tiles = gemm_constants(device).tiles
    tile = tiles[at % len(tiles)]
    step = tile.rows if axis == "m" else tile.columns  # multiples of 32: alignment stays what it was
    sizes = {"m": m, "n": n, "k": k, "layout": layout, "dtype": dtype, "accumulate_bytes": stored}
    smaller = gemm_ns(Gemm(name="x", **sizes), device)
    assert gemm_ns(Gemm(name="x", **(sizes | {axis: sizes[axis] + step})), device) >= smaller


@settings(max_examples=100)
@given(
    device=st.sampled_from(DEVICES),
    groups=st.integers(1, 64),
    rows=st.integers(1, 4096),
    n=st.integers(1, 4096),
    k=st.integers(1, 4096),
    axis=st.sampled_from(["rows", "n"]),
)
def test_a_whole_tile_more_in_every_group_never_takes_less(device, groups, rows, n, k, axis):
    sizes = {"rows": rows, "n": n} | {axis: {"rows": rows, "n": n}[axis] + 256}
    smaller, larger = (
        GroupedGemm(name="x", groups=groups, rows=groups * each, n=width, k=k, busiest=each)
        for each, width in ((rows, n), (sizes["rows"], sizes["n"]))
    )
    assert grouped_gemm_ns(larger, device) >= grouped_gemm_ns(smaller, device)


@settings(max_examples=100)
@given(
    device=st.sampled_from([*DEVICES, UNTHROTTLED]),
    m=st.integers(1, 5000),
    n=st.integers(1, 625),
    k=st.integers(1, 800),
    more=st.integers(1, 800),
    split=st.sampled_from(gemm.SPLITS),
)
def test_longer_sums_never_take_less_at_a_fixed_split(device, m, n, k, more, split):
    shortest = split * gemm.SHORTEST_SPLIT
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gemm, "SPLITS", (split,))
        shorter, longer = (product(m, 8 * n, shortest + 8 * steps) for steps in (k, k + more))
        assert gemm_ns(shorter, device) <= gemm_ns(longer, device) < math.inf


@settings(max_examples=100)
@given(device=st.sampled_from(DEVICES), m=st.integers(1, 5000), n=st.integers(1, 5000), k=st.integers(1, 5000))
def test_no_product_beats_the_device(device, m, n, k):
    op = product(m, n, k)
    time_ns = gemm_ns(op, device)
    assert op.flops / time_ns <= device.gemm_tflops * 1000
    assert op.bytes / time_ns <= device.memory_gb_per_s * device.hbm_efficiency


def test_precisions_scale_by_the_devices_rates():
    bf16, fp16, tf32, fp32 = (
        gemm_ns(square(8192, dtype=d), A100) for d in (DType.BF16, DType.FP16, DType.TF32, DType.FP32)
    )
    assert fp16 == bf16
    assert tf32 / bf16 == pytest.approx(2, rel=0.02)
    assert tflops(square(8192), fp32) == pytest.approx(19.1, rel=0.02)
    assert 0.5 < gemm_ns(square(8192, dtype=DType.FP8), H100) / gemm_ns(square(8192), H100) < 0.7


def test_a_batch_shares_waves():
    # 16 tiles of 64 x 64 each, too short to split: six products leave one tile on an SM, as one does
    alone, six, seven = (gemm_ns(product(256, 256, 448, batch=batch), UNTHROTTLED) for batch in (1, 6, 7))
    assert alone == six < seven


@pytest.mark.parametrize(("device", "group_us"), [(A100, 3), (H100, 3), (B200, 5.7)])
def test_groups_cost_a_start_each_as_measured_on_the_device(device, group_us):
    op = GroupedGemm(name="x", groups=8, rows=8 * 2048, n=4096, k=7168, busiest=2048)
    batched = product(2048, 4096, 7168, batch=8)
    assert grouped_gemm_ns(op, device) == pytest.approx(gemm_ns(batched, device) + 7 * 1000 * group_us)


def test_power_and_operands_explain_two_published_rates_of_one_card():
    # 8192^3 in 16 bits on A100-SXM4-80GB. Random operands, after 10,000 warm-ups: 253.7 TFLOP/s
    # (Azure/AI-benchmarking-guide Azure_Results/ND_A100_v4_results.md); zeros: 295 (thonking.ai). Nothing fits to them.
    assert tflops(square(8192), gemm_ns(square(8192), A100)) == pytest.approx(253.7, rel=0.01)
    assert tflops(square(8192), gemm_ns(square(8192), UNTHROTTLED)) == pytest.approx(295, rel=0.01)


@pytest.mark.parametrize("device", DEVICES)
def test_a_square_of_one_wave_reads_its_operands_once(device):
    side = math.isqrt(device.sm_count * gemm.WAVE_TILE)
    assert gemm._doublings(square(side), device) == 0
    assert gemm._doublings(square(4 * side + 4), device) == pytest.approx(2, abs=0.01)
    assert gemm._doublings(square(64 * side), device) == gemm.MOST_DOUBLINGS  # none was measured beyond
    assert gemm._doublings(product(side, 64 * side, 8), device) == 0


def test_an_uneven_load_costs_where_it_fills_tiles_less_well():
    even = GroupedGemm(name="x", groups=8, rows=8 * 256, n=108 * 256, k=7168, busiest=256)
    uneven = replace(even, busiest=512)
    # 512 rows are two tiles of 256, seven groups of 220 fill one each: 9 rows of tiles, of two waves, instead of 8
    assert uneven.flops == even.flops
    assert grouped_gemm_ns(uneven, UNTHROTTLED) / grouped_gemm_ns(even, UNTHROTTLED) == pytest.approx(9 / 8, rel=0.01)


def test_a_weight_gradient_waits_for_the_busiest_groups_loop():
    even = GroupedGemm(name="x", groups=8, rows=8 * 2048, n=1024, k=1024, busiest=2048, layout="nt")
    times = [grouped_gemm_ns(replace(even, busiest=busiest), UNTHROTTLED) for busiest in (2048, 4096, 8192)]
    assert times == sorted(times)
    assert times[0] < times[1] < times[2]


def test_products_of_one_size_are_a_batch():
    op = product(1000, 3000, 777)
    assert products_ns([op] * 5, A100) == pytest.approx(gemm_ns(replace(op, batch=5), A100))


def test_published_machines_at_their_own_rate():
    assert operating_point(B200, "MooreThreads/SimuMax docs").gemm_tflops == 1140
    assert operating_point(A100, "MooreThreads/SimuMax") is A100
    assert operating_point(B200, "another/source") is B200


LONG = [product(m, 8192, 8192) for m in range(2048, 16384, 1024)]


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 1.2])
def test_a_machines_rate_is_found_in_its_products(share):
    truth = at_rate(A100, A100.gemm_tflops * share)
    timed = [(op, gemm_ns(op, truth)) for op in LONG]
    held = held_rate(A100, timed)
    assert held.products == len(LONG)
    assert held.gpu.gemm_tflops == pytest.approx(truth.gemm_tflops, rel=2e-3)
    spoilt = [(op, time_ns * (3 if at < len(LONG) // 3 else 1)) for at, (op, time_ns) in enumerate(timed)]
    assert held_rate(A100, spoilt).gpu.gemm_tflops <= held.gpu.gemm_tflops  # a third of them cannot move it far
    assert held_rate(A100, spoilt).gpu.gemm_tflops > 0.9 * held.gpu.gemm_tflops


def test_the_catalogues_rate_stands_within_the_spread_of_nodes_and_for_few_products():
    near, far = at_rate(A100, A100.gemm_tflops * 1.03), at_rate(A100, A100.gemm_tflops * 0.7)
    assert held_rate(A100, [(op, gemm_ns(op, near)) for op in LONG]) is None
    assert held_rate(A100, [(op, gemm_ns(op, far)) for op in LONG[:9]]) is None
    short = [product(m, 1024, 1024) for m in range(1024, 4096, 64)]
    assert held_rate(A100, [(op, gemm_ns(op, far)) for op in short]) is None
    wide = [replace(op, dtype=DType.FP32) for op in LONG]
    assert held_rate(A100, [(op, 10 * gemm_ns(op, A100)) for op in wide]) is None


def test_no_machine_holds_more_than_its_datasheet():
    timed = [(op, gemm_ns(op, A100) / 3) for op in LONG]
    assert held_rate(A100, timed).gpu.gemm_tflops <= A100.bf16_tflops
